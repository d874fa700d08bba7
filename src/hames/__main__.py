"""`python -m hames` is `hames`."""

import sys

from hames.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
