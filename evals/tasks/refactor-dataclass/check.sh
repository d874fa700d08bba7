fail() { echo "$1"; exit 1; }
[ "$(python3 report.py)" = "$(printf 'ann [1, 3] 300\nbob [2] 100')" ] || fail "report.py prints something else"
got=$(python3 -c 'import dataclasses
from orders import *
from orders import Order
o = load("7 zed 9")[0]
print([f.name for f in dataclasses.fields(Order)], o == Order(7, "zed", 9), Order.__dataclass_params__.frozen, isinstance(o, tuple))')
[ "$got" = "['id', 'customer', 'cents'] True True False" ] || fail "Order is not as asked: $got"
grep -nE 'order\[[0-9]\]' orders.py report.py && fail "an order is still indexed"
exit 0
