## I note what they return now.
python3 -c 'from invoice import *; from offer import *; x=[{"price": 7, "count": 12}]; print(invoice(x,"CH"), offer(x,"CH",5))'
## One function, two users.
cat > pricing.py <<'EOF'
def net_price(items, country):
    """The net price of all items, with the discounts for quantity and country."""
    net = 0
    for item in items:
        price = item["price"] * item["count"]
        if item["count"] >= 10:
            price = price * 9 // 10
        net += price
    if country == "CH":
        net = net - net * 2 // 100
    return net
EOF
cat > invoice.py <<'EOF'
from pricing import net_price


def invoice(items, country):
    net = net_price(items, country)
    return {"kind": "invoice", "net": net, "gross": net * 119 // 100}
EOF
cat > offer.py <<'EOF'
from pricing import net_price


def offer(items, country, days):
    return f"{net_price(items, country)} net, valid for {days} days"
EOF
python3 -c 'from invoice import *; from offer import *; x=[{"price": 7, "count": 12}]; print(invoice(x,"CH"), offer(x,"CH",5))'
