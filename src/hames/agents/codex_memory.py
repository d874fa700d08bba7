"""Which of Codex's threads and turns belong to which of ours: a small file for each thread."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from hames.domain.ids import ThreadId
from hames.domain.value import Value


class Known(Value):
    """`turns`: ours to theirs, in order; empty for a turn that Codex was only told about."""

    thread: str
    turns: dict[str, str] = {}

    def until(self, last: str) -> "Known":
        """As it was when that turn of ours had ended."""
        names = list(self.turns)
        return Known(thread=self.thread, turns={name: self.turns[name] for name in names[: names.index(last) + 1]})


class Memory:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def known(self, thread_id: ThreadId) -> Known | None:
        """What cannot be read is forgotten: Codex is told again."""
        try:
            return msgspec.json.decode(self._path(thread_id).read_bytes(), type=Known)
        except (OSError, ValueError):
            return None

    def keep(self, thread_id: ThreadId, theirs: str, turns: Mapping[str, str]) -> None:
        before = self.known(thread_id)
        seen = before.turns if before is not None and before.thread == theirs else {}
        after = Known(thread=theirs, turns={**seen, **turns})
        if after == before:
            return
        with suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = self._path(thread_id).with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(after))
            fresh.replace(self._path(thread_id))

    def _path(self, thread_id: ThreadId) -> Path:
        return self._directory / f"{thread_id}.json"
