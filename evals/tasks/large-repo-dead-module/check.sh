fail() { echo "$1"; exit 1; }
rm -rf original && mkdir original && (cd original && bash "${0%/*}/setup.sh") || fail "no original"
[ "$(diff -rq -x __pycache__ original/app app)" = "Only in original/app: part263.py" ] || fail "not exactly the unused module was deleted"
[ "$(python3 -m app.main)" = "$(cd original && python3 -m app.main)" ] || fail "app.main is broken"
