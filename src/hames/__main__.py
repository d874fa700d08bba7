"""`python -m hames` is `hames`."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # `python -m` puts the current directory there, and what lies in it must not be imported

from hames.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
