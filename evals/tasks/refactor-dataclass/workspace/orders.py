def load(text):
    """One order per line: id customer cents"""
    return [(int(a), b, int(c)) for a, b, c in (line.split() for line in text.splitlines() if line.strip())]


def total(orders):
    return sum(order[2] for order in orders)


def by_customer(orders):
    found = {}
    for order in orders:
        found.setdefault(order[1], []).append(order)
    return found
