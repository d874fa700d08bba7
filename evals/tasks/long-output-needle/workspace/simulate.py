import hashlib

for number in range(60000):
    request = hashlib.sha1(str(number).encode()).hexdigest()[:12]
    status = 599 if request.startswith("c0ffe") and number > 20000 else 200 + number % 3
    if number == 41234:
        status = 599
    print(f"{number:06} request={request} status={status} bytes={number * 37 % 5000}")
