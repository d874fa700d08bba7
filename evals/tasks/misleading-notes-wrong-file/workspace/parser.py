from lexer import words


def parse(line):
    """A command and its arguments."""
    command, *arguments = words(line)
    return command, arguments
