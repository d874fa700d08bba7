def invoice(items, country):
    net = 0
    for item in items:
        price = item["price"] * item["count"]
        if item["count"] >= 10:
            price = price * 9 // 10
        net += price
    if country == "CH":
        net = net - net * 2 // 100
    return {"kind": "invoice", "net": net, "gross": net * 119 // 100}
