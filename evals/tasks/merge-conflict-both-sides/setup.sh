set -e
git init -q -b main .
git config user.name Dev; git config user.email dev@example.org; git config commit.gpgsign false

printf 'OPTIONS = {\n    "size": 10,\n    "title": "none",\n}\n' > options.py
git add -A; git commit -qm "options"
git checkout -qb colours
printf 'OPTIONS = {\n    "size": 10,\n    "title": "none",\n    "colour": "blue",\n    "border": True,\n}\n' > options.py
git commit -qam "colours"
git checkout -q main
printf 'OPTIONS = {\n    "size": 12,\n    "title": "none",\n    "font": "serif",\n}\n' > options.py
git commit -qam "font"
git merge colours > /dev/null || true
