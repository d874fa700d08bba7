fail() { echo "$1"; exit 1; }
[ "$(python3 -c 'from options import OPTIONS; print(sorted(OPTIONS.items(), key=str))')" \
  = "[('border', True), ('colour', 'blue'), ('font', 'serif'), ('size', 12), ('title', 'none')]" ] || fail "options are missing"
[ -z "$(git status --porcelain --untracked-files=no)" ] || fail "the merge is not committed"
[ "$(git rev-list --parents -n1 HEAD | wc -w)" = 3 ] || fail "the last commit is no merge"
git merge-base --is-ancestor colours HEAD || fail "colours is not merged"
git show HEAD:options.py | python3 -c 'import ast, sys; ast.parse(sys.stdin.read())' || fail "the committed file is no Python"
