def words(text):
    """The words of a line; quotes keep words together."""
    found, current, quoted = [], "", False
    for letter in text:
        if letter == '"':
            quoted = not quoted
        elif letter == " ":
            if current:
                found.append(current)
            current = ""
        else:
            current += letter
    return found + [current] if current else found
