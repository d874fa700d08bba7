"""Reads a log while another process writes it: what was appended, and the live deltas of the open bundle.

Only whole lines count. A log that became shorter, was replaced, or does not go on where it ended is read anew.
"""

import os

import msgspec

from hames.domain.events import ItemDelta, Record, SettingsChanged
from hames.domain.ids import ThreadId
from hames.ports import LogNews
from hames.private_files import descriptor
from hames.store.bundles import begins_with, text_after, text_beyond
from hames.store.lines import FIRST, live_record, merge_deltas, next_line, record
from hames.store.places import EVENTS, LIVE, Claim
from hames.store.reading import read_log
from hames.store.scan import scan_live_file
from hames.store.seals import Running, chunks
from hames.store.system_calls import find_plain, open_plain


class LogReader:
    """What one follower has read of a thread's log so far."""

    def __init__(self, thread_id: ThreadId, claim: Claim | None) -> None:
        self._thread_id = thread_id
        self._claim = claim
        self._file = (0, 0)
        """Which file it is: device and inode."""
        self._position = 0
        """The end of the last line that was taken."""
        self._size = 0
        """Of the file at the last look."""
        self._base: Running | None = None
        """For the seals of its lines; None: it is foreign."""
        self._last_seal = FIRST
        self._last = 0
        self._told: Record | None = None
        """The part of the open bundle that was told, as one delta."""
        self._live = _LiveFile()

    def read_whole(self, *, at: int) -> LogNews:
        """`at` is the thread's directory. Raises `OSError`."""
        with descriptor(open_plain(EVENTS, at=at)) as fd:
            return self._read_whole(fd, at)

    def read_more(self, *, at: int) -> LogNews | None:
        """What came since the last look; None: nothing. Raises `OSError`."""
        with descriptor(open_plain(EVENTS, at=at)) as fd:
            found = os.fstat(fd)
            if (found.st_dev, found.st_ino) != self._file or found.st_size < self._position:
                return self._read_whole(fd, at)
            records: list[Record] = []
            if found.st_size != self._size:
                self._size = found.st_size
                appended = self._appended(fd)
                if appended is None:
                    return self._read_whole(fd, at)
                records += appended
            records += self._live_deltas(at)
            return LogNews(records=records, foreign=self._base is None) if records else None

    def _read_whole(self, fd: int, at: int) -> LogNews:
        about = os.fstat(fd)
        found = read_log(fd, self._thread_id, self._claim, at=at)
        scanned, claim = found.scanned, self._claim
        self._file, self._position, self._size = (about.st_dev, about.st_ino), scanned.good_bytes, scanned.bytes_read
        self._base = claim.seals.line(self._thread_id) if claim is not None and not found.foreign else None
        self._last_seal = scanned.last_seal
        self._last = found.records[-1].seq if found.records else 0
        # What is settled about lost lines is for whoever writes the log to say.
        added = [one for one in found.added if not isinstance(one.event, SettingsChanged)]
        self._told = added[-1] if added and isinstance(added[-1].event, ItemDelta) else None
        self._live = _LiveFile()
        return LogNews(records=found.records + added, foreign=found.foreign, whole=True)

    def _appended(self, fd: int) -> list[Record] | None:
        """The records of new lines. None: they do not go on from what was read."""
        data = b"".join(chunks(fd, self._position, self._size))
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            return []
        records: list[Record] = []
        last_seal = self._last_seal
        for line in data[:-1].split(b"\n"):
            following = self._next(line, last_seal)
            if following is None or following[0].seq != self._last + len(records) + 1:
                return None
            one, last_seal = following
            records.append(one)
        count = len(records)
        if (told := self._told) is not None:
            if not begins_with(told, records[0]):
                return None
            rest = text_beyond(told, records[0])
            records = [*([rest] if rest is not None else []), *records[1:]]
        self._last += count
        self._last_seal = last_seal
        self._position += len(data)
        self._told, self._live = None, _LiveFile()
        return records

    def _next(self, line: bytes, last_seal: bytes) -> tuple[Record, bytes] | None:
        """The record and the seal of a line that follows what was read; None: it does not."""
        if self._base is None:
            found = record(line)
            return (found, FIRST) if found is not None else None
        try:
            return next_line(line, self._base, last_seal)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None

    def _live_deltas(self, at: int) -> list[Record]:
        """What the open bundle has grown by, in the pieces in which it was told there."""
        pieces = self._open_bundle(at)
        bundle = next(merge_deltas(pieces), None)
        if bundle is None or bundle.seq != self._last + 1:
            return []
        told = self._told
        if told is not None and not begins_with(told, bundle):
            return []  # the log will say what became of it
        self._told = bundle
        return list(text_after(pieces, told))

    def _open_bundle(self, at: int) -> list[Record]:
        if (live := find_plain(LIVE, at=at)) is None:
            return []
        with descriptor(live) as fd:
            if self._base is None or self._claim is None:
                return [one for one in scan_live_file(fd) if one.seq > self._last]
            start = self._claim.seals.live(self._thread_id, self._last_seal)
            return self._live.read(fd, start)


def sync_log(*, at: int) -> None:
    """Makes what was read safe on disk. Raises `OSError`."""
    with descriptor(open_plain(EVENTS, at=at)) as fd:
        os.fdatasync(fd)


class _LiveFile:
    """The live file of one bundle. A line counts only behind the log as it is (see `seals`)."""

    def __init__(self) -> None:
        self._position = 0
        self._running: Running | None = None
        self._pieces: list[Record] = []

    def read(self, fd: int, start: Running) -> list[Record]:
        """All of the bundle that is there. `start` is the hash at the first byte."""
        size = os.fstat(fd).st_size
        if size < self._position or not self._read_from(fd, size, start):
            # Another bundle has begun where we read; or what lies in front is left over from one before.
            self._position, self._running, self._pieces = 0, None, []
            self._read_from(fd, size, start)
        return self._pieces

    def _read_from(self, fd: int, size: int, start: Running) -> bool:
        """False: there is a line that does not count."""
        data = b"".join(chunks(fd, self._position, size))
        data = data[: data.rfind(b"\n") + 1]
        running, counted = self._running or start, True
        for line in data[:-1].split(b"\n") if data else ():
            further, one = live_record(line, running)
            if one is None:
                counted = False
                continue
            running = further
            self._pieces.append(one)
        if counted:
            self._position += len(data)
        self._running = running
        return counted
