fail() { echo "$1"; exit 1; }
[ "$(python3 app.py)" = "$(printf 'shop@example.org -> ann@example.org: [shop] Your order\nshop@example.org -> bob@example.org: [test] Your order')" ] || fail "app.py prints something else"
grep -n 'SETTINGS' mailer.py && fail "the global is still there"
[ "$(python3 -c 'import mailer; s = {"sender": "a", "prefix": "b"}; print(mailer.send(s, "c", "d"), mailer.subject(s, "e"))')" = "a -> c: b d b e" ] || fail "the functions do not take settings first"
