SETTINGS = {"sender": "shop@example.org", "prefix": "[shop]"}


def subject(text):
    return f"{SETTINGS['prefix']} {text}"


def send(to, text):
    return f"{SETTINGS['sender']} -> {to}: {subject(text)}"
