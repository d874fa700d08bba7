def pages(count, size):
    """How many pages there are."""
    return count // size


def page(items, number, size):
    """The items of one page; pages count from 1."""
    if number >= pages(len(items), size):
        return []
    return items[(number - 1) * size : number * size]
