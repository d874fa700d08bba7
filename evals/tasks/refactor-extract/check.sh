fail() { echo "$1"; exit 1; }
got=$(python3 -c 'from invoice import invoice; from offer import offer; from pricing import net_price
x = [{"price": 7, "count": 12}, {"price": 100, "count": 1}]
print(invoice(x, "DE"), invoice(x, "CH"), offer(x, "CH", 5), net_price(x, "DE"))')
[ "$got" = "{'kind': 'invoice', 'net': 175, 'gross': 208} {'kind': 'invoice', 'net': 172, 'gross': 204} 172 net, valid for 5 days 175" ] || fail "behaviour changed: $got"
[ "$(python3 -c 'import pricing
pricing.net_price = lambda *_: 1000
import invoice, offer
print(invoice.invoice([], "DE")["net"], offer.offer([], "DE", 1))')" = "1000 1000 net, valid for 1 days" ] || fail "one of them does not use pricing.net_price"
grep -qE '^ *for ' invoice.py offer.py && fail "the loop is still there"
exit 0
