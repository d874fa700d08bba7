## I merge and look.
git merge report -m "Merge branch 'report'"; git status --short; cat README.md
## The readme by hand, and the new user of the old name.
printf '# sums\n\nUse total() for totals, as in report.py.\n' > README.md
sed -i 's/\badd\b/total/g' report.py
python3 -B report.py && python3 -B main.py && git add README.md report.py && git commit -qm "Merge branch 'report'" && git status --short
