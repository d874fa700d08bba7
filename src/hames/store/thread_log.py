"""One thread's log, open for writing."""

import contextlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec
from anyio import to_thread
from msgspec.structs import replace

from hames.domain.commands import ThreadSummary
from hames.domain.errors import HarnessError, StorageFailed, ThreadReadOnly
from hames.domain.events import Record, ThreadCreated
from hames.domain.ids import ThreadId
from hames.store.lines import line, live_line, sealed_line
from hames.store.places import LIVE, META, Claim
from hames.store.repair import TORN, cut_incomplete_end
from hames.store.running import mark_running, unmark_running
from hames.store.scan import ScannedLog, restore_first_record, scan_log, unsaved_records, verify_seal
from hames.store.seals import Running
from hames.store.summaries import encode_summary
from hames.store.system_calls import Disk, write_all, write_whole


class ThreadHome(Protocol):
    """Where the log is: the store, as far as an open log needs it."""

    def thread(self, thread_id: ThreadId) -> AbstractContextManager[int]:
        """The thread's open directory."""
        ...

    def put_in_index(self, summary: ThreadSummary, changed_ns: int, *, new: bool) -> None: ...


class JsonlLog:
    """One thread's log, locked by us."""

    def __init__(
        self, store: ThreadHome, thread_id: ThreadId, *, fd: int, disk: Disk, claim: Claim, running: Running | None
    ) -> None:
        """`running` has seen the log as it is; None: it is foreign, or not looked at yet."""
        self.thread_id = thread_id
        self.repaired = ""
        self.damaged = False
        self._store = store
        self._disk = disk
        self._fd = fd
        self._claim = claim
        self._running = running
        self._live_fd: int | None = None
        self._live_running: Running | None = None
        self._first: ThreadCreated | None = None
        """What the log begins with: `meta.json` has a copy, for when that line is damaged."""
        self._length = os.fstat(fd).st_size
        self._dead = ""
        self._half = False
        """A record that was written in part is still to be removed."""
        self._live_lost = ""
        """Why the live file takes nothing more until the log has what was told."""
        self._recovered: list[Record] = []
        self._new = self._length == 0

    @property
    def foreign(self) -> bool:
        return self._running is None

    async def read(self) -> list[Record]:
        records, self._recovered = self._recovered, []
        return records or await to_thread.run_sync(lambda: scan_log(self._fd).records)

    async def append(self, records: Sequence[Record], *, sync: bool = False) -> None:
        self._append(records)
        with contextlib.suppress(OSError):  # what it holds is older than the log, and passed over
            if self._live_fd is not None:
                self._disk.truncate(self._live_fd, 0)
            self._live_lost = ""
        if sync:
            try:
                await to_thread.run_sync(self._disk.sync, self._fd)
            except OSError as failure:
                self._dead = (
                    f"it could not be saved to disk ({failure.strerror}); the thread is read-only until a restart"
                )
                raise StorageFailed(f"cannot save thread {self.thread_id!r}: {self._dead}") from failure

    def jot(self, record: Record) -> None:
        if self._dead or self._live_lost:
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {self._dead or self._live_lost}")
        if self._running is None:
            data = line(record)
        else:
            if self._live_running is None:
                self._live_running = self._claim.seals.live(self.thread_id, self._running)
            data = live_line(record, self._live_running)
        try:
            if self._live_fd is None:
                with self._store.thread(self.thread_id) as at:
                    self._live_fd = self._disk.open(LIVE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, at=at)
            write_all(self._disk, self._live_fd, data)
        except OSError as failure:
            # The next line would go on with half of this one, and the hash counts all of it.
            self._live_lost = str(failure.strerror)
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {failure.strerror}") from failure

    async def summarize(self, summary: ThreadSummary) -> None:
        summary = replace(summary, foreign=self.foreign)
        data, new, changed_ns = msgspec.json.format(encode_summary(summary, self._claim, self._first)), self._new, 0
        with contextlib.suppress(OSError, HarnessError), self._store.thread(self.thread_id) as at:
            await to_thread.run_sync(lambda: write_whole(self._disk, META, data, at=at))
            changed_ns = os.fstat(at).st_mtime_ns
        self._new = False
        self._store.put_in_index(summary, changed_ns, new=new)

    def mark_running(self, *, running: bool) -> None:
        if running:
            mark_running(self._claim, self.thread_id)
        else:
            unmark_running(self._claim, self.thread_id)

    def rest(self) -> None:
        """Close what only a running turn needs."""
        if self._live_fd is not None:
            os.close(self._live_fd)
            self._live_fd = None

    async def close(self) -> None:
        self.rest()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def recover(self) -> None:
        """Cut a torn tail, take in what was told and not yet kept, refuse what a newer version wrote."""
        found = scan_log(self._fd)
        if found.newer:
            raise ThreadReadOnly(
                f"thread {self.thread_id!r} was written by a newer version of hames: it can be read here, not continued"
            )
        self._running = verify_seal(self._fd, found, self.thread_id, self._claim)
        with self._store.thread(self.thread_id) as at:
            lost = restore_first_record(found, self.thread_id, at=at)
            try:
                self._repair(found, at)
                if lost is not None:
                    self._append([lost])
            except OSError as failure:
                why = f"its log needs a repair, which failed: {failure.strerror}"
                raise ThreadReadOnly(f"thread {self.thread_id!r} cannot be written: {why}") from failure

    def _repair(self, found: "ScannedLog", at: int) -> None:
        repaired: list[str] = []
        if found.good_bytes < self._length:
            cut_incomplete_end(self._disk, self._fd, found.good_bytes, at=at)
            repaired.append(
                f"an incomplete end of {self._length - found.good_bytes} bytes was cut off and saved in {TORN}"
            )
            self._length = found.good_bytes
        if found.damage and not found.damage_was_told:
            repaired.append(found.damage)
        self.repaired, self.damaged = "; ".join(repaired), bool(found.damage)
        late = unsaved_records(found, self.thread_id, self._claim, self._running, at=at)
        if late:
            self._append(late)
            self._disk.sync(self._fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(LIVE, dir_fd=at)
        self._recovered = found.records + late
        first = self._recovered[0].event if self._recovered else None
        self._first = first if isinstance(first, ThreadCreated) else None

    def _append(self, records: Sequence[Record]) -> None:
        if self._new and self._first is None and records and isinstance(records[0].event, ThreadCreated):
            self._first = records[0].event
        if self._running is None:
            self._write(b"".join(map(line, records)))
            return
        running = self._running.copy()
        self._write(b"".join([sealed_line(each, running) for each in records]))
        self._running, self._live_running = running, None

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
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {failure.strerror}") from failure
        self._length += len(data)

    def _take_back(self) -> None:
        """Removes half a batch: the next one would otherwise continue its last line. Raises `OSError`."""
        self._disk.truncate(self._fd, self._length)
        self._half = False
