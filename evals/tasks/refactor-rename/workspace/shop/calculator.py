from shop.prices import calc


def recalculate(cart):
    return calc(cart["prices"], cart.get("discount", 0))
