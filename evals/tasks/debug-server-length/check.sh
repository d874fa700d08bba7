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
[ "$(python3 fetch.py $port /ping)" = "200 pong" ] || fail "/ping is broken"
[ "$(python3 fetch.py $port /menu)" = '200 {"soup": "Kürbis", "main": "Spätzle mit Käse", "drink": "Apfelsaft", "price": "12 €"}' ] || fail "/menu is incomplete"
