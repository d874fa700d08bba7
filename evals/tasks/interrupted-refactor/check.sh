fail() { echo "$1"; exit 1; }
[ "$(python3 check_bank.py)" = ok ] || fail "check_bank.py fails"
git grep -nw Acct HEAD -- && fail "the old name is still committed"
[ "$(git show HEAD:bank.py | grep -c Account)" = 2 ] || fail "bank.py is not committed as it should be"
[ "$(git show HEAD:notes.txt)" = "shopping: milk" ] || fail "notes.txt was committed"
[ "$(cat notes.txt)" = "shopping: milk, bread" ] || fail "the change in notes.txt is lost"
[ "$(git status --porcelain --untracked-files=no)" = " M notes.txt" ] || fail "something else is left over: $(git status --porcelain)"
[ "$(git rev-list --count HEAD)" = 2 ] || fail "there should be one new commit"
