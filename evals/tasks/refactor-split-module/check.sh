fail() { echo "$1"; exit 1; }
[ ! -e tools.py ] || fail "tools.py is still there"
[ "$(python3 main.py)" = "hello-world aaaaaaaaaaaaaaaaaaa… 10 1.5" ] || fail "main.py prints something else"
got=$(python3 -c 'from tools.text import slug, shorten; from tools.numbers import clamp, mean; import tools
print(slug.__module__, shorten.__module__, clamp.__module__, mean.__module__, tools.slug is slug)')
[ "$got" = "tools.text tools.text tools.numbers tools.numbers True" ] || fail "not in the right modules: $got"
grep -q 'from tools import clamp, mean, shorten, slug' main.py || fail "main.py was changed"
