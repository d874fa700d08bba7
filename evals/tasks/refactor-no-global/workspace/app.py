import mailer


def main():
    print(mailer.send("ann@example.org", "Your order"))
    mailer.SETTINGS["prefix"] = "[test]"
    print(mailer.send("bob@example.org", "Your order"))


main()
