from customers import Customer
from orders import Order

ann = Customer("Ann")
ann.orders.append(Order(ann, 40))
ann.orders.append(Order(ann, 2))
print(f"{ann.name}: {ann.total()}, {ann.orders[0].label()}")
