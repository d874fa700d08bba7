"""Whether a directory can be written, or made where it is not there yet."""

import os
from pathlib import Path


def is_writable(path: Path) -> bool:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path.is_dir() and os.access(path, os.W_OK)
