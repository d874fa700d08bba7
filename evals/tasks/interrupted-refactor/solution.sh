## What was done?
git status --short; git diff HEAD; git grep -nw Acct
## The rest of it.
sed -i 's/\bAcct\b/Account/g' bank.py check_bank.py && python3 -B check_bank.py
git add account.py bank.py check_bank.py && git commit -qm "Rename Acct to Account" && git status --short
