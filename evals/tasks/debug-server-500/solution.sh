## I start it and ask.
python3 -u server.py 0 > /tmp/port 2> /tmp/log & server=$!
while [ ! -s /tmp/port ]; do sleep 0.1; done
python3 - "$(cat /tmp/port)" <<'EOF'
import sys, urllib.request
for path in ("/greet?name=Ann", "/greet", "/greet?name=J%C3%B6rg"):
    try:
        print(path, urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}{path}", timeout=10).read())
    except Exception as error:
        print(path, error)
EOF
kill $server; grep -E 'Error' /tmp/log
## A KeyError without a name, and ASCII for every text.
python3 - <<'EOF'
text = open("server.py").read()
text = text.replace('        name = parse_qs(url.query)["name"][0]\n', '        name = parse_qs(url.query).get("name", [""])[0]\n        if not name:\n            return self.answer(400, "name is missing")\n')
open("server.py", "w").write(text.replace('text.encode("ascii")', 'text.encode()').replace(
    'self.send_header("content-length"', 'self.send_header("content-type", "text/plain; charset=utf-8")\n        self.send_header("content-length"'))
EOF
python3 -u server.py 0 > /tmp/port2 & server=$!
while [ ! -s /tmp/port2 ]; do sleep 0.1; done
python3 -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:$(cat /tmp/port2)/greet?name=J%C3%B6rg').read().decode())"
kill $server
