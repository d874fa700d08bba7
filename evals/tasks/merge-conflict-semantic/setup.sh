set -e
git init -q -b main .
git config user.name Dev; git config user.email dev@example.org; git config commit.gpgsign false

printf 'def add(values):\n    return sum(values)\n' > sums.py
printf 'from sums import add\n\nprint(add([1, 2]))\n' > main.py
git add -A; git commit -qm "sums"
git checkout -qb report
printf 'from sums import add\n\nprint(f"total: {add([10, 20, 30])}")\n' > report.py
printf '# sums\n\nUse add() for totals, as in report.py.\n' > README.md
git add -A; git commit -qm "a report"
git checkout -q main
printf 'def total(values):\n    return sum(values)\n' > sums.py
printf 'from sums import total\n\nprint(total([1, 2]))\n' > main.py
printf '# sums\n\nUse total().\n' > README.md
git add -A; git commit -qm "add is called total"
