## Read, wait, write: two of them at once read the same number.
cat counter.py
## An exclusive lock on the file holds off others, in this process and in any other.
cat > counter.py <<'EOF'
import fcntl
import time


def increment(path):
    """Adds one to the number in the file. Others wait, in this process or another."""
    with open(path, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        number = int(file.read() or 0)
        time.sleep(0.001)  # the disk is slow
        file.seek(0)
        file.truncate()
        file.write(str(number + 1))
EOF
