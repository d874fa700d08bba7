from customers import Customer, short_name


class Order:
    def __init__(self, customer: Customer, amount: int) -> None:
        self.customer = customer
        self.amount = amount

    def label(self) -> str:
        return f"{short_name(self.customer.name)}-{self.amount}"


def sum_orders(orders) -> int:
    return sum(order.amount for order in orders)
