fail() { echo "$1"; exit 1; }
[ "$(sed 's/[[:space:]]*$//' answer.txt)" = "mirror 'kappa' sent a stale index" ] || fail "answer.txt has another text"
