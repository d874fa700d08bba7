## I reproduce it.
python3 -u server.py 0 > /tmp/port & server=$!
while [ ! -s /tmp/port ]; do sleep 0.1; done
python3 -c "
import urllib.request as u
for path in ('/add?cart=a&item=tea', '/add?cart=b&item=rum'):
    print(u.urlopen('http://127.0.0.1:$(cat /tmp/port)' + path).read())"
kill $server
## The default list is one object for all carts, and looking creates a cart.
python3 - <<'EOF'
text = open("server.py").read()
text = text.replace('def cart(name, items=[]):\n    return CARTS.setdefault(name, items)\n', 'def cart(name, create):\n    return CARTS.setdefault(name, []) if create else CARTS.get(name, [])\n')
open("server.py", "w").write(text.replace('cart(query["cart"])', 'cart(query["cart"], create=url.path == "/add")'))
EOF
cat server.py
