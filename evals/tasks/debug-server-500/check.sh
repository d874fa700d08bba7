fail() { echo "$1"; exit 1; }
start() { python3 -u server.py 0 > port.txt 2> server.log & server=$!; for _ in $(seq 1 300); do [ -s port.txt ] && break; sleep 0.1; done; port=$(head -1 port.txt); }
trap 'kill $server 2>/dev/null' EXIT

cat > fetch.py <<'EOF'
import sys, urllib.request, urllib.error
try:
    with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}{sys.argv[2]}", timeout=30) as reply:
        print(reply.status, reply.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
EOF

start
got=$(for path in '/greet?name=Ann' '/greet?name=J%C3%B6rg' '/greet' '/greet?name=' '/x'; do python3 fetch.py $port "$path"; done)
[ "$got" = "$(printf '200 Hello Ann\n200 Hello Jörg\n400 name is missing\n400 name is missing\n404 nothing here')" ] || fail "wrong answers: $(echo $got)"
