"""Writes the page about protocols and models from the table that the tests play.

python scripts/matrix.py [--check]
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "matrix.md"
sys.path.insert(0, str(ROOT / "tests"))

from matrix_table import render  # noqa: E402 - it lives beside the tests that hold it


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    args = parser.parse_args()
    page = render()
    if args.check:
        stale = not TARGET.exists() or TARGET.read_text() != page
        print("stale: run scripts/matrix.py" if stale else "up to date")
        return stale
    TARGET.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
