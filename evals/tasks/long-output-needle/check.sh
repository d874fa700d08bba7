fail() { echo "$1"; exit 1; }
[ "$(tr -d '[:space:]' < answer.txt)" = "$(python3 -c 'import hashlib; print(hashlib.sha1(b"41234").hexdigest()[:12])')" ] || fail "answer.txt has another id"
[ "$(sha1sum < simulate.py)" = "$(sha1sum < "${0%/*}/workspace/simulate.py")" ] || fail "simulate.py was changed"
