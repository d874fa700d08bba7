fail() { echo "$1"; exit 1; }
[ "$(python3 main.py)" = "Ann: 42, an-40" ] || fail "main.py prints something else"
python3 -c 'import orders' || fail "import orders fails"
python3 -c 'import customers' || fail "import customers fails"
grep -nE '^[[:space:]]+(import|from) ' orders.py customers.py && ! grep -q TYPE_CHECKING orders.py customers.py && fail "an import is not at the top"
exit 0
