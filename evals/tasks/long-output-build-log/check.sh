fail() { echo "$1"; exit 1; }
[ "$(tr -d '[:space:]' < answer.txt)" = "lib/crypt117.o" ] || fail "answer.txt has another target"
