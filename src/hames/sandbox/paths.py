"""Paths as strings: whether one is inside another, and what a small file says."""

from collections.abc import Iterable
from pathlib import Path


def is_inside(path: str, root: str) -> bool:
    """Whether `path` is `root` or below it, by name alone."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def root_of(path: str, roots: Iterable[str]) -> str | None:
    """The first of `roots` that `path` is inside of."""
    return next((root for root in roots if is_inside(path, root)), None)


def read_start(path: Path, limit: int = 262_144) -> str:
    """The beginning of a file as text; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""
