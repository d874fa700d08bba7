from settings import timeout_for

for service in ("database", "search"):
    print(f"{service}: waiting {timeout_for(service):g} s")
