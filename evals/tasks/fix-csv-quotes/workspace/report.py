import sys


def sums(path):
    totals = {}
    with open(path) as file:
        head = file.readline().strip().split(",")
        for line in file:
            row = dict(zip(head, line.strip().split(",")))
            totals[row["customer"]] = totals.get(row["customer"], 0) + int(row["amount"])
    return totals


if __name__ == "__main__":
    for name, total in sorted(sums(sys.argv[1]).items()):
        print(f"{name}: {total}")
