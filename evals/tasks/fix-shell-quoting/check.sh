fail() { echo "$1"; exit 1; }
mkdir -p "in dir/a b" out1 "out 2"
echo one > "in dir/plain.txt"; echo two > "in dir/a b/with space.txt"; echo three > "in dir/-dash.txt"; echo no > "in dir/x.md"
sh collect.sh "in dir" "out 2" || fail "collect.sh failed"
[ "$(cd "out 2" && cat ./plain.txt ./"with space.txt" ./-dash.txt)" = "$(printf 'one\ntwo\nthree')" ] || fail "files are missing"
[ "$(ls "out 2" | wc -l)" = 3 ] || fail "wrong files were copied"
