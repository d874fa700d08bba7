fail() { echo "$1"; exit 1; }
got=$(python3 -c 'from paging import *
x = [1, 2, 3, 4, 5]
print(pages(5, 2), pages(4, 2), pages(0, 2), page(x, 1, 2), page(x, 2, 2), page(x, 3, 2), page(x, 4, 2), page([1, 2], 1, 2))')
[ "$got" = "3 2 0 [1, 2] [3, 4] [5] [] [1, 2]" ] || fail "wrong pages: $got"
