## The name goes into the SQL text. A parameter is the fix.
python3 - <<'EOF'
text = open("users.py").read()
old = """db.execute(f"select mail from users where name = '{name}'")"""
assert old in text
open("users.py", "w").write(text.replace(old, 'db.execute("select mail from users where name = ?", (name,))'))
EOF
python3 -c "import users; db = users.connect(); print(users.find_user(db, \"O'Brien\"))"
