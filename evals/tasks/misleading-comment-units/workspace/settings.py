import configparser

# All values in timeouts.ini are milliseconds.
MILLIS = 1000


def timeout_for(service, path="timeouts.ini"):
    """Seconds."""
    file = configparser.ConfigParser()
    file.read(path)
    return file.getint("timeouts", service) / MILLIS
