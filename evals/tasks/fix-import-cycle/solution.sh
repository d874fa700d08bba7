## I see the cycle.
python3 main.py; cat orders.py customers.py
## customers.py needs orders.py; the helper that orders.py needs gets a module of its own, and the annotation is a string.
python3 - <<'EOF'
import re
helper = '\n\ndef short_name(name: str) -> str:\n    return name[:2].lower()\n'
text = open("customers.py").read()
assert helper in text
open("customers.py", "w").write(text.replace(helper, ""))
open("names.py", "w").write(helper.lstrip())
text = open("orders.py").read().replace("from customers import Customer, short_name", "from names import short_name")
open("orders.py", "w").write(text.replace("customer: Customer", 'customer: "Customer"').replace(
    "from names", "from typing import TYPE_CHECKING\n\nfrom names").replace(
    "import short_name\n", "import short_name\n\nif TYPE_CHECKING:\n    from customers import Customer\n"))
EOF
python3 main.py && python3 -c 'import orders' && python3 -c 'import customers'
