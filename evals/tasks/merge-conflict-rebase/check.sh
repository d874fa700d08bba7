fail() { echo "$1"; exit 1; }
[ ! -d .git/rebase-merge ] && [ ! -d .git/rebase-apply ] || fail "the rebase is not finished"
[ "$(git branch --show-current)" = feature ] || fail "feature is not checked out"
[ "$(git log --format=%s main..feature)" = "$(printf 'the feature\nversion of the feature')" ] || fail "the history is different"
git merge-base --is-ancestor main feature || fail "feature is not on top of main"
[ "$(cat version.txt)" = "2.1-feature" ] || fail "version.txt is wrong"
[ "$(git show feature:version.txt)" = "2.1-feature" ] || fail "version.txt is not committed"
[ "$(git show feature:feature.txt)" = code ] || fail "feature.txt is lost"
[ "$(git show main:version.txt)" = "2.1" ] || fail "main was changed"
