def calc(prices, discount=0):
    """The sum of the prices, less a discount in percent."""
    return sum(prices) * (100 - discount) // 100
