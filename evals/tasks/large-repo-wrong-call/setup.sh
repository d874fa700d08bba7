mkdir -p lib
cat > lib/ranges.py <<'EOF'
def copy_range(source, target, start, end):
    """Copies source[start:end] to the end of target."""
    target.extend(source[start:end])
EOF
python3 - <<'EOF'
import pathlib
for n in range(1500):
    folder = pathlib.Path(f"services/area{n % 30:02}/unit{n // 30:02}")
    folder.mkdir(parents=True, exist_ok=True)
    low, high = n % 17, n % 17 + 3 + n % 5
    call = f"copy_range(rows, kept, {low}, {high})" if n != 1117 else f"copy_range(rows, kept, {high}, {low})"
    body = f"    kept = []\n    {call}\n    return kept\n" if n % 3 == 1 else f"    return rows[{low}:{high}]\n"
    (folder / "handler.py").write_text(f"from lib.ranges import copy_range\n\n\ndef handle(rows):\n{body}")
EOF
