fail() { echo "$1"; exit 1; }
[ "$(python3 -c 'import money; print(money.split(100, 3), money.split(90, 3), money.split(7, 4))')" \
  = "[34, 33, 33] [30, 30, 30] [2, 2, 2, 1]" ] || fail "the shares are wrong"
python3 test_money.py || fail "test_money.py fails"
