fail() { echo "$1"; exit 1; }
[ "$(tr -s '[:space:]' ' ' < summary.txt | sed 's/ $//')" = "4 100" ] || fail "summary.txt has another summary"
cmp data/orders.txt "${0%/*}/workspace/data/orders.txt" || fail "the data was changed"
