fail() { echo "$1"; exit 1; }
python3 - <<'EOF' || fail "the records are not as they should be"
import json, pathlib
names = sorted(path.name for path in pathlib.Path("records").iterdir())
assert names == [f"r{n:02}.json" for n in range(20)], names
for n in range(20):
    record = json.loads((pathlib.Path("records") / f"r{n:02}.json").read_text())
    assert record == {"format": 2, "cents": (3 * n + 1) * 100}, (n, record)
EOF
