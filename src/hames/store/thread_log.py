"""One thread's log, open for writing: appends, syncs to disk, takes back failed writes, keeps live deltas."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import msgspec
from anyio import to_thread
from msgspec.structs import replace

from hames.domain.authority import Authority, authority_after
from hames.domain.commands import ThreadSummary
from hames.domain.errors import HarnessError, StorageFailed, ThreadReadOnly
from hames.domain.events import ApprovalResolved, Record, SettingsChanged, ThreadCreated
from hames.domain.ids import ThreadId
from hames.domain.state import apply, blank
from hames.domain.state import summary as summary_of
from hames.private_files import descriptor
from hames.store.lines import FIRST, line, live_line, sealed_lines
from hames.store.meta_copy import encode_copy
from hames.store.places import EVENTS, LIVE, META, Claim
from hames.store.repair import TORN, cut_incomplete_end
from hames.store.running import mark_running, unmark_running
from hames.store.seals import Running, chunks
from hames.store.second_names import SecondName, give_second_name, open_live_file
from hames.store.summaries import encode_summary
from hames.store.system_calls import Disk, directory, write_all, write_whole

if TYPE_CHECKING:
    from hames.store.reading import ReadLog
    from hames.store.scan import ScannedLog

_NOTED = frozenset({ThreadCreated, SettingsChanged, ApprovalResolved})
"""Events that change what `meta.json` has copies of."""


class ThreadHome(Protocol):
    """Where the log is: the store, as far as an open log needs it."""

    def thread(self, thread_id: ThreadId) -> AbstractContextManager[int]:
        """The thread's open directory."""
        ...

    def put_in_index(self, summary: ThreadSummary, changed_ns: int, *, new: bool) -> None: ...

    def closed(self, log: "JsonlLog") -> None:
        """It is not open any more."""
        ...


class JsonlLog:
    """One thread's log, locked by us."""

    def __init__(
        self,
        store: ThreadHome,
        thread_id: ThreadId,
        *,
        fd: int,
        disk: Disk,
        claim: Claim,
        ours: bool,
    ) -> None:
        """`ours`: a new log, whose lines get seals. An old one is looked at by `recover`."""
        self.thread_id = thread_id
        self.repaired = ""
        self.second: SecondName | None = None
        self.lock_fd: int | None = None
        """Of a lock that is not on the log itself."""
        self.damaged = False
        self.deaths: int | None = None
        self._store = store
        self._disk = disk
        self._fd = fd
        self._claim = claim
        self._base = claim.seals.line(thread_id) if ours else None
        """For the seals of its lines; None: it is foreign."""
        self._last_seal = FIRST
        self._live_fd: int | None = None
        self._live_running: Running | None = None
        self._first: Record | None = None
        """What the log begins with: `meta.json` has a copy, for when that line is damaged."""
        self._authority: Authority | None = None
        """What decides now: `meta.json` has a copy of that as well."""
        self._last_seq = 0
        self._length = os.fstat(fd).st_size
        self._dead = ""
        self._half = False
        """A record that was written in part is still to be removed."""
        self._live_lost: StorageFailed | None = None
        """Why the live file takes nothing more until the log has what was told."""
        self._recovered: list[Record] = []
        self._new = self._length == 0

    @property
    def foreign(self) -> bool:
        return self._base is None

    @property
    def ephemeral(self) -> bool:
        return self._first is not None and isinstance(self._first.event, ThreadCreated) and self._first.event.ephemeral

    async def read(self) -> list[Record]:
        records, self._recovered = self._recovered, []
        return records or await to_thread.run_sync(lambda: _scan(self._fd, self.thread_id, self._claim).records)

    async def append(self, records: Sequence[Record], *, sync: bool = False) -> None:
        self._append(records)
        with contextlib.suppress(OSError):  # what it holds is older than the log, and passed over
            if self._live_fd is not None:
                self._disk.truncate(self._live_fd, 0)
            self._live_lost = None
        if sync:
            try:
                await to_thread.run_sync(self._sync)
            except OSError as failure:
                self._dead = (
                    f"it could not be saved to disk ({failure.strerror}); the thread is read-only until a restart"
                )
                raise StorageFailed(f"cannot save thread {self.thread_id!r}: {self._dead}") from failure

    def _sync(self) -> None:
        self._disk.sync(self._fd)
        if self.second is not None:
            self.second.catch_up()

    def jot(self, record: Record, kept: Callable[[], None] | None = None) -> bool:  # noqa: ARG002 - kept at once
        if self._dead:
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {self._dead}")
        if self._live_lost is not None:
            raise self._live_lost
        if self._base is None:
            data = line(record)
        else:
            if self._live_running is None:
                self._live_running = self._claim.seals.live(self.thread_id, self._last_seal)
            data = live_line(record, self._live_running)
        try:
            if self._live_fd is None:
                self._live_fd = self._open_live()
            write_all(self._disk, self._live_fd, data)
        except OSError as failure:
            # The next line would go on with half of this one, and the hash counts all of it.
            self._live_lost = write_failed(self.thread_id, failure)
            raise self._live_lost from failure
        return True

    def _open_live(self) -> int:
        """Raises `OSError`."""
        try:
            with self._store.thread(self.thread_id) as at:
                return self._disk.open(LIVE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, at=at)
        except HarnessError:  # its directory is gone, and cannot be made again
            return open_live_file(self._claim.home, self.thread_id)

    async def summarize(self, summary: ThreadSummary) -> None:
        summary = replace(summary, foreign=self.foreign)
        data, new, changed_ns = self._meta(summary), self._new, 0
        with contextlib.suppress(OSError, HarnessError), self._store.thread(self.thread_id) as at:
            await to_thread.run_sync(lambda: write_whole(self._disk, META, data, at=at))
            changed_ns = os.fstat(at).st_mtime_ns
        self._new = False
        self._store.put_in_index(summary, changed_ns, new=new)

    def _meta(self, summary: ThreadSummary) -> bytes:
        authority = replace(self._authority, seq=self._last_seq) if self._authority is not None else None
        copy = encode_copy(self._first, authority, None if self.foreign else self._claim.seals)
        return msgspec.json.format(encode_summary(summary, self._claim, copy))

    def mark_running(self, *, running: bool) -> None:
        if running:
            mark_running(self._claim, self.thread_id)
        else:
            unmark_running(self._claim, self.thread_id)

    def abandon(self, why: StorageFailed) -> None:
        """Nobody takes over a thread whose file is locked."""

    def rest(self) -> None:
        """Close what only a running turn needs."""
        if self._live_fd is not None:
            os.close(self._live_fd)
            self._live_fd = None

    async def close(self) -> None:
        self.rest()
        self._store.closed(self)
        if self.second is not None:
            second, self.second = self.second, None
            if second.is_copy:
                await to_thread.run_sync(second.catch_up)
            second.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self.lock_fd is not None:
            os.close(self.lock_fd)
            self.lock_fd = None

    def recover(self) -> None:
        """Cut a torn tail, take in what was told and not yet kept, refuse what a newer version wrote."""
        from hames.store.reading import read_log

        with self._store.thread(self.thread_id) as at:
            found = read_log(self._fd, self.thread_id, self._claim, at=at)
            if found.scanned.newer:
                raise ThreadReadOnly(
                    f"thread {self.thread_id!r} was written by a newer version of hames:"
                    " it can be read here, not continued"
                )
            if found.foreign:
                self._base = None
            else:
                self._base, self._last_seal = self._claim.seals.line(self.thread_id), found.scanned.last_seal
            try:
                self._repair(found, at)
            except OSError as failure:
                why = f"its log needs a repair, which failed: {failure.strerror}"
                raise ThreadReadOnly(f"thread {self.thread_id!r} cannot be written: {why}") from failure

    def _repair(self, found: "ReadLog", at: int) -> None:
        scanned, repaired = found.scanned, list[str]()
        if scanned.good_bytes < self._length:
            cut_incomplete_end(self._disk, self._fd, scanned.good_bytes, at=at)
            repaired.append(
                f"an incomplete end of {self._length - scanned.good_bytes} bytes was cut off and saved in {TORN}"
            )
            self._length = scanned.good_bytes
        if scanned.damage and not scanned.damage_was_told:
            repaired.append(scanned.damage)
        self.damaged = bool(scanned.damage)
        self.repaired = "; ".join([*repaired, found.settled] if found.settled else repaired)
        self._note(found.records)
        if found.added:
            self._append(found.added)
            self._disk.sync(self._fd)
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(LIVE, at=at)
        self._recovered = found.everything
        if self.repaired and not self.foreign:  # the copy in it must not speak of records that are lost
            state = blank(self.thread_id)
            for record in self._recovered:
                state = apply(state, record)
            write_whole(self._disk, META, self._meta(summary_of(state)), at=at)

    def _append(self, records: Sequence[Record]) -> None:
        if self._base is None:
            self._write(b"".join(map(line, records)))
        else:
            data, last_seal = sealed_lines(records, self._base, self._last_seal)
            self._write(data)
            self._last_seal, self._live_running = last_seal, None
        self._note(records)

    def _note(self, records: Sequence[Record]) -> None:
        """For the copies in `meta.json`."""
        for record in records:
            event = record.event
            if type(event) in _NOTED:  # for every record of a log: a union would be built anew each time
                if self._first is None and isinstance(event, ThreadCreated):
                    self._first = record
                self._authority = authority_after(self._authority, record)
        if records:
            self._last_seq = records[-1].seq

    def _write(self, data: bytes) -> None:
        if self._dead:
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {self._dead}")
        try:
            if self._half:
                self._take_back()
            self._half = True
            write_all(self._disk, self._fd, data)
            self._half = False
        except OSError as failure:
            with contextlib.suppress(OSError):
                self._take_back()
            raise write_failed(self.thread_id, failure) from failure
        self._length += len(data)
        if self.second is not None:
            self.second.add(data)

    def _take_back(self) -> None:
        """Removes half a batch: the next one would otherwise continue its last line. Raises `OSError`."""
        self._disk.truncate(self._fd, self._length)
        self._half = False

    def is_of(self, claim: Claim) -> bool:
        """Whether its seals are those of this claim."""
        return claim.token == self._claim.token

    def content_for(self, claim: Claim) -> Iterator[bytes]:
        """Its lines, sealed under this claim. A log that somebody deleted is still there while we have it open."""
        if self.foreign or self.is_of(claim):
            yield from chunks(self._fd, 0, self._length)
            return
        records = _scan(self._fd, self.thread_id, self._claim).records
        yield sealed_lines(records, claim.seals.line(self.thread_id), FIRST)[0]

    def move_to(self, fd: int, claim: Claim) -> None:
        """Goes on in another file, which has this content."""
        self.rest()
        found = _scan(fd, self.thread_id, claim)
        os.dup2(fd, self._fd, inheritable=False)
        self._claim, self._length, self._last_seal = claim, found.good_bytes, found.last_seal
        self._live_running = None
        if self._base is not None:
            self._base = claim.seals.line(self.thread_id)


def _scan(fd: int, thread_id: ThreadId, claim: Claim | None) -> "ScannedLog":
    from hames.store.scan import scan_log  # a new log is written without being read

    return scan_log(fd, thread_id, claim)


def write_failed(thread_id: ThreadId, failure: OSError) -> StorageFailed:
    error = StorageFailed(f"cannot write thread {thread_id!r}: {failure.strerror}")
    error.retryable = failure.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
    return error


def put_back(log: JsonlLog, threads: int, claim: Claim, disk: Disk) -> int:
    """The directory of a thread that somebody deleted while we have its log open, made anew. Raises `OSError`.

    `threads` is the open directory that it belongs to, `claim` the one on it.
    """
    found = directory(log.thread_id, at=threads, create=True)
    try:
        if log.is_of(claim) and log.second is not None and not log.second.is_copy:
            with contextlib.suppress(FileExistsError):
                os.link(log.second.path, EVENTS, dst_dir_fd=found)
            return found
        with descriptor(disk.open(EVENTS, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_EXCL, at=found)) as fd:
            for chunk in log.content_for(claim):
                write_all(disk, fd, chunk)
            with contextlib.suppress(OSError):  # a file system without locks, or a log that is locked elsewhere
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            moved = not log.is_of(claim)
            log.move_to(fd, claim)
            if moved and log.second is not None:
                log.second.delete()
                log.second = give_second_name(claim.home, log.thread_id, fd, at=found, disk=disk)
    except BaseException:
        os.close(found)
        raise
    return found
