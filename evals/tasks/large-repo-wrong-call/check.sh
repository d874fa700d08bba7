fail() { echo "$1"; exit 1; }
rm -rf original && mkdir original && (cd original && bash "${0%/*}/setup.sh") || fail "no original"
changed=$(diff -rq -x __pycache__ original/services services | wc -l)
[ "$changed" = 1 ] || fail "$changed files differ, not one"
diff -rq -x __pycache__ original/lib lib || fail "lib was changed"
[ "$(python3 -c 'import sys; sys.path.insert(0, "."); from services.area07.unit37.handler import handle; print(handle(list(range(40))))')" = "[12, 13, 14, 15, 16]" ] \
  || fail "the handler is still wrong"
