set -e
git init -q -b main .
git config user.name Dev; git config user.email dev@example.org; git config commit.gpgsign false

echo 1.0 > version.txt; echo base > base.txt; git add -A; git commit -qm "base"
git checkout -qb feature
echo 1.0-feature > version.txt; git commit -qam "version of the feature"
echo code > feature.txt; git add -A; git commit -qm "the feature"
git checkout -q main
echo 2.1 > version.txt; git commit -qam "version 2.1"
git checkout -q feature
git rebase main > /dev/null 2>&1 || true
