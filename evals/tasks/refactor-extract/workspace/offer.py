def offer(items, country, days):
    total = 0
    for position in items:
        amount = position["price"] * position["count"]
        if position["count"] >= 10:
            amount = amount * 9 // 10
        total += amount
    if country == "CH":
        total = total - total * 2 // 100
    return f"{total} net, valid for {days} days"
