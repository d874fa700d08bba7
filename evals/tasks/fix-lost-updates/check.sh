fail() { echo "$1"; exit 1; }
cat > race.py <<'EOF'
import sys, threading, subprocess
sys.path.insert(0, ".")
from counter import increment
if len(sys.argv) > 1:
    [increment("count.txt") for _ in range(10)]
    sys.exit()
open("count.txt", "w").write("5")
threads = [threading.Thread(target=lambda: [increment("count.txt") for _ in range(10)]) for _ in range(4)]
others = [subprocess.Popen([sys.executable, "race.py", "child"]) for _ in range(2)]
[t.start() for t in threads]; [t.join() for t in threads]
assert [o.wait() for o in others] == [0, 0]
EOF
python3 race.py || fail "increment failed"
[ "$(cat count.txt)" = 65 ] || fail "counts were lost: $(cat count.txt) of 65"
