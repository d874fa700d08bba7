set -e
git init -q -b main .
git config user.name Dev; git config user.email dev@example.org; git config commit.gpgsign false

printf 'class Acct:\n    def __init__(self, owner):\n        self.owner = owner\n        self.balance = 0\n' > account.py
printf 'from account import Acct\n\n\ndef open_for(owner):\n    return Acct(owner)\n' > bank.py
printf 'from bank import open_for\nfrom account import Acct\n\nassert isinstance(open_for("ann"), Acct)\nprint("ok")\n' > check_bank.py
printf 'shopping: milk\n' > notes.txt
git add -A; git commit -qm "accounts"
sed -i 's/Acct/Account/' account.py
sed -i 's/import Acct/import Account/' bank.py
git add account.py
printf 'shopping: milk, bread\n' > notes.txt
