"""Read-only overlays instead of bind mounts, where they are possible.

Nobody can reach a socket through an overlay, however and whenever it was bound. A layer on top can hide files, which
costs less than a mount for each of them. And bubblewrap makes an overlay in less time than a bind mount.
"""

import os
import stat
import tempfile
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from shutil import rmtree

from hames.sandbox.paths import is_inside
from hames.sandbox.walls.mounts import Mount, mount_points

_ETC = "/etc"


class Overlays:
    """Directories of ours that lie on top of others: an empty one, and some with empty files. They end with us."""

    def __init__(self, possible: Callable[[str, str], bool]) -> None:
        """`possible`: whether the first directory can have the second one on top."""
        self._possible = possible
        self._directory = ""
        self._known: dict[int, bool] = {}
        self._masks: dict[frozenset[str], str] = {}

    def can_cover(self, directory: str) -> bool:
        """Asked once for each file system. A mount below would not be seen through an overlay."""
        try:
            about = os.stat(directory)
        except OSError:
            return False
        if about.st_dev not in self._known:
            self._known[about.st_dev] = self._possible(directory, self._layer("empty"))
        return (
            self._known[about.st_dev] and stat.S_ISDIR(about.st_mode) and directory not in _above_mounts(mount_points())
        )

    def with_overlays(self, layers: Sequence[Mount]) -> list[Mount]:
        """The same mounts, with overlays for what are tools and for hiding files in `/etc`."""
        if any(mount.how == "write" and is_inside(self._layer("empty"), mount.path) for mount in layers):
            return list(layers)  # a command could change what lies on top
        masked = frozenset(
            mount.path for mount in layers if mount.how == "masked" and mount.path.startswith(f"{_ETC}/")
        )
        over_etc = self._mask(masked) if masked and self.can_cover(_ETC) else ""
        empty = self._layer("empty")
        laid: list[Mount] = []
        for mount in layers:
            if over_etc and mount.path == _ETC and mount.how == "shown":
                laid.append(Mount(path=_ETC, how="tool", target=over_etc))
            elif mount.how == "tool" and self.can_cover(mount.path):
                laid.append(Mount(path=mount.path, how="tool", target=empty))
            elif not over_etc or mount.path not in masked:
                laid.append(mount)
        return laid

    def _mask(self, paths: frozenset[str]) -> str:
        """A layer with an empty file for each. Looked at each time: somebody may clean up temporary directories."""
        layer = self._masks.get(paths) or self._layer(f"etc-{len(self._masks)}")
        files = [f"{layer}{path.removeprefix(_ETC)}" for path in paths]
        if not all(map(os.path.lexists, files)):
            for file in files:
                os.makedirs(os.path.dirname(file), exist_ok=True)
                Path(file).touch(mode=0o444)
        self._masks[paths] = layer
        return layer

    def _layer(self, name: str) -> str:
        if not os.path.isdir(self._directory):
            self._directory = tempfile.mkdtemp(prefix="hames-")
            self._masks.clear()
            weakref.finalize(self, _remove, self._directory, os.getpid())
        layer = f"{self._directory}/{name}"
        if not os.path.isdir(layer):
            os.makedirs(layer, exist_ok=True)
        return layer


def _remove(directory: str, owner: int) -> None:
    """Not from a process that was forked off: the layers are not its own."""
    if os.getpid() == owner:
        rmtree(directory, ignore_errors=True)


@lru_cache(maxsize=1)
def _above_mounts(points: tuple[str, ...]) -> frozenset[str]:
    return frozenset(str(parent) for point in points for parent in Path(point).parents)
