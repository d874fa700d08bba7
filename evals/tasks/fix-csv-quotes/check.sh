fail() { echo "$1"; exit 1; }
[ "$(python3 report.py sales.csv)" = "$(printf 'Miller: 15\nSmith, Jones & Co.: 25\nThe "Old" Mill: 7')" ] || fail "sales.csv is summed wrongly"
printf 'amount,customer\n3,"a\nb"\n4,"a\nb"\n' > other.csv
[ "$(python3 -c 'import report; print(report.sums("other.csv"))')" = "{'a\\nb': 7}" ] || fail "a name with a line break is read wrongly"
