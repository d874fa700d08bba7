fail() { echo "$1"; exit 1; }
got=$(python3 - <<'EOF'
import sys
sys.path.insert(0, ".")
from users import connect, find_user
db = connect()
print(find_user(db, "Ann"), find_user(db, "O'Brien"), find_user(db, "' OR '1'='1"), find_user(db, "x' union select 'y"))
EOF
)
[ "$got" = "ann@example.org ob@example.org None None" ] || fail "wrong users: $got"
