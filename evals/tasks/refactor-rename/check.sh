fail() { echo "$1"; exit 1; }
grep -rnwE 'calc|test_calc' --include='*.py' --include='*.md' . && fail "the old name is still used"
grep -q '`total_price(prices, discount)`' README.md || fail "README.md does not name total_price"
grep -q 'def recalculate' shop/calculator.py || fail "recalculate is gone"
[ "$(python3 -c 'import shop; from shop.calculator import recalculate as r; print(shop.total_price([100, 50], 10), r({"prices": [10]}))')" = "135 10" ] \
  || fail "behaviour changed"
python3 -m unittest -q tests.test_prices || fail "the tests fail"
