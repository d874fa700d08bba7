"""A shopping cart. It has a bug, and a test that knows."""


def total(prices, discount=0):
    """What to pay, in cents. `discount` is in percent."""
    paid = 0
    for price in prices:
        paid = paid + price
    return paid - discount
