## I reproduce it.
python3 report.py sales.csv
## The csv module knows about quotes.
cat > report.py <<'EOF'
import csv
import sys


def sums(path):
    totals = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            totals[row["customer"]] = totals.get(row["customer"], 0) + int(row["amount"])
    return totals


if __name__ == "__main__":
    for name, total in sorted(sums(sys.argv[1]).items()):
        print(f"{name}: {total}")
EOF
python3 report.py sales.csv
