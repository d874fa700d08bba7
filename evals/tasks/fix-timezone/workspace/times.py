from datetime import datetime


def hours_between(start, end):
    """Hours from one ISO 8601 time to another."""
    a = datetime.strptime(start[:19], "%Y-%m-%dT%H:%M:%S")
    b = datetime.strptime(end[:19], "%Y-%m-%dT%H:%M:%S")
    return (b - a).total_seconds() / 3600
