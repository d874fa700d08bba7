## I read it.
cat times.py
## The zone was cut off. Python reads it itself.
cat > times.py <<'EOF'
from datetime import datetime, timezone


def hours_between(start, end):
    """Hours from one ISO 8601 time to another. A time without a zone is UTC."""
    return (_read(end) - _read(start)).total_seconds() / 3600


def _read(text):
    time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
EOF
python3 -c 'import times; print(times.hours_between("2026-03-01T12:00:00+02:00", "2026-03-01T12:00:00Z"))'
