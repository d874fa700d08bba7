## What is in conflict?
git status --short; cat options.py
## Both sides added options.
printf 'OPTIONS = {\n    "size": 12,\n    "title": "none",\n    "font": "serif",\n    "colour": "blue",\n    "border": True,\n}\n' > options.py
python3 -c 'import options' && git add options.py && git commit -qm "Merge branch 'colours'" && git log --oneline --graph
