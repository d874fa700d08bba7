from orders import by_customer, load, total

TEXT = """
1 ann 250
2 bob 100
3 ann 50
"""

for name, orders in sorted(by_customer(load(TEXT)).items()):
    print(name, [order[0] for order in orders], total(orders))
