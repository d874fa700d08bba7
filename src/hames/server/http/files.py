"""Files of a workspace by a few letters of their name, for a prompt that wants to mention one.

ripgrep lists them, so what the project ignores is left out. It reads no configuration, follows no link, and its time
and output are bounded; a list is used for a moment, because a person types faster than files appear.
"""

import logging
import subprocess
from collections import deque
from pathlib import Path

import anyio

from hames.domain.file_list import RIPGREP_LIST
from hames.executables import find_ripgrep
from hames.ports import Clock
from hames.protocols.sync.pages import FileHit

log = logging.getLogger(__name__)

LIST_SECONDS = 3.0
FRESH_SECONDS = 5.0
LIST_BYTES = 8 << 20
WORKSPACES = 16


class FileFinder:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lists: dict[str, tuple[float, list[FileHit]]] = {}

    async def find(self, directory: str, query: str, limit: int) -> tuple[FileHit, ...]:
        """The best matches first."""
        known = self._lists.get(directory)
        if known is None or self._clock.monotonic() - known[0] > FRESH_SECONDS:
            while len(self._lists) >= WORKSPACES:
                del self._lists[next(iter(self._lists))]
            known = self._lists[directory] = (self._clock.monotonic(), await _list_files(directory))
        return rank_files(known[1], query, limit)


async def _list_files(directory: str) -> list[FileHit]:
    program = find_ripgrep(directory)
    if not program or not await anyio.Path(directory).is_dir():
        return []
    chunks: deque[bytes] = deque()
    with anyio.move_on_after(LIST_SECONDS):
        async with await anyio.open_process(
            [program, *RIPGREP_LIST],
            cwd=directory,
            env={"PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            size = 0
            async for chunk in process.stdout:
                chunks.append(chunk)
                size += len(chunk)
                if size > LIST_BYTES:
                    process.kill()
                    break
    files = [part.decode(errors="replace") for part in b"".join(chunks).split(b"\0")[:-1]]
    directories = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    return [
        *(FileHit(path=name, kind="file") for name in sorted(files)),
        *(FileHit(path=name, kind="directory") for name in sorted(directories)),
    ]


def rank_files(hits: list[FileHit], query: str, limit: int) -> tuple[FileHit, ...]:
    """A name that begins so, then one that contains it, then a path that does, then the letters in their order.

    >>> hits = [FileHit(path=p, kind="file") for p in ("docs/app.md", "src/app.py", "src/map.py")]
    >>> [hit.path for hit in rank_files(hits, "app", 2)]
    ['src/app.py', 'docs/app.md']
    """
    wanted = query.casefold().strip()
    scored = [
        (score, len(hit.path), n) for n, hit in enumerate(hits) if (score := _score(hit.path, wanted)) is not None
    ]
    return tuple(hits[n] for _, _, n in sorted(scored)[:limit])


def _score(path: str, wanted: str) -> int | None:
    folded = path.casefold()
    name = folded.rpartition("/")[2]
    if name.startswith(wanted):
        return 0
    if wanted in name:
        return 1
    if wanted in folded:
        return 2
    letters = iter(folded)
    return 3 if all(letter in letters for letter in wanted) else None
