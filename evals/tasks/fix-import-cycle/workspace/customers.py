from orders import Order, sum_orders


class Customer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.orders: list[Order] = []

    def total(self) -> int:
        return sum_orders(self.orders)


def short_name(name: str) -> str:
    return name[:2].lower()
