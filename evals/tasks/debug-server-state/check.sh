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
got=$(for path in '/add?cart=a&item=tea' '/add?cart=b&item=rum' '/add?cart=a&item=jam' '/list?cart=c' '/list?cart=b'; do python3 fetch.py $port "$path"; done)
[ "$(echo $got)" = '200 ["tea"] 200 ["rum"] 200 ["tea", "jam"] 200 [] 200 ["rum"]' ] || fail "wrong carts: $(echo $got)"
[ "$(python3 -c 'import server; server.CARTS.clear(); print(server.CARTS)')" = "{}" ] || fail "CARTS is gone"
[ "$(python3 fetch.py $port '/count?cart=a')" = "200 2" ] || fail "looking at a cart creates one"
