import time


def increment(path):
    """Adds one to the number in the file."""
    with open(path) as file:
        number = int(file.read() or 0)
    time.sleep(0.001)  # the disk is slow
    with open(path, "w") as file:
        file.write(str(number + 1))
