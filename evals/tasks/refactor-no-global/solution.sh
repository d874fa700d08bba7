## I read both.
cat mailer.py app.py; python3 app.py
## The settings become an argument.
cat > mailer.py <<'EOF'
def subject(settings, text):
    return f"{settings['prefix']} {text}"


def send(settings, to, text):
    return f"{settings['sender']} -> {to}: {subject(settings, text)}"
EOF
cat > app.py <<'EOF'
import mailer


def main():
    settings = {"sender": "shop@example.org", "prefix": "[shop]"}
    print(mailer.send(settings, "ann@example.org", "Your order"))
    settings["prefix"] = "[test]"
    print(mailer.send(settings, "bob@example.org", "Your order"))


main()
EOF
python3 app.py
