fail() { echo "$1"; exit 1; }
[ "$(python3 report.py)" = "total: 60" ] || fail "report.py does not work"
[ "$(python3 main.py)" = "3" ] || fail "main.py does not work"
grep -qw add sums.py report.py README.md && fail "the old name is back"
grep -q 'report.py' README.md || fail "README.md lost what report said"
grep -n '^[<=>]\{7\}' README.md && fail "README.md has conflict markers"
git merge-base --is-ancestor report HEAD || fail "report is not merged"
[ -z "$(git status --porcelain --untracked-files=no)" ] || fail "not everything is committed"
