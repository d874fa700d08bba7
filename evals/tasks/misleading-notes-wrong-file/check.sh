fail() { echo "$1"; exit 1; }
cmp test_parser.py "${0%/*}/workspace/test_parser.py" || fail "the test was changed"
python3 -m unittest -q test_parser || fail "the test still fails"
[ "$(python3 -c 'from parser import parse; print(parse("""a "b  c" d"""), parse("""x "1 2" "3 4 5" """))')" = "('a', ['b  c', 'd']) ('x', ['1 2', '3 4 5'])" ] \
  || fail "quotes do not keep words together"
