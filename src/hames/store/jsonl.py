"""Threads on disk: `threads/{threadId}/events.jsonl`, append-only, and `meta.json` beside it.

A log is written with one `write` per batch on an `O_APPEND` descriptor, which is
locked for the life of its writer. Live deltas go to `live` first, because a killed
process must not lose a token that somebody saw, and the log should not hold a line per token.

A log is ours if its last whole line is sealed by us (see `seals`); any other is foreign and stays so.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from anyio import to_thread
from msgspec.structs import replace

from hames.domain.commands import ThreadPage, ThreadSummary
from hames.domain.errors import (
    HarnessError,
    Misconfigured,
    StorageFailed,
    ThreadInUse,
    ThreadNotFound,
    ThreadReadOnly,
)
from hames.domain.events import Record, ThreadCreated
from hames.domain.ids import ThreadId
from hames.ports import Examined
from hames.private_files import descriptor
from hames.store.ephemeral import mark_ephemeral, marked_ephemeral, remove_mark
from hames.store.lines import line, live_line, sealed_line
from hames.store.places import EVENTS, LIVE, THREAD_ID, Claim, Places, claimed_directory
from hames.store.repair import TORN, cut_incomplete_end
from hames.store.scan import ScannedLog, examine_log, scan_log, unsaved_records, verify_seal
from hames.store.seals import Running
from hames.store.summaries import META, encode_summary, load_summary
from hames.store.system_calls import Disk, directory, write_whole

if TYPE_CHECKING:
    from hames.store.index import Index
    from hames.store.search import TextIndex


class JsonlStore:
    """`root` is the data directory itself; it is made with the first thread, not before."""

    def __init__(self, root: Path, *, places: Places, disk: Disk | None = None) -> None:
        self._root = root
        self._places = places
        self._disk = disk or Disk()
        self._threads_fd: int | None = None
        self._claim: Claim | None = None
        self._index: Index | None = None
        self._texts: TextIndex | None = None

    def prepare(self) -> None:
        """Make the directory now, so that a server can keep its socket in it. Raises `Misconfigured`."""
        self._threads(create=True)

    def private_directory(self, name: str) -> Path | None:
        """A directory for what belongs to these threads and must not come with a repository.

        None while there are no threads, and where nothing can be kept.
        """
        self._threads()
        return claimed_directory(self._claim, name)

    async def create(self, thread_id: ThreadId, *, foreign: bool = False, ephemeral: bool = False) -> "JsonlLog":
        threads = self._threads(create=True)
        assert threads is not None
        claim = self._claim_directory()
        try:
            os.mkdir(thread_id, 0o700, dir_fd=threads)
            with self.thread(thread_id) as at:
                fd = self._disk.open(EVENTS, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, at=at)
                os.fsync(at)
            os.fsync(threads)
        except OSError as failure:
            raise StorageFailed(f"cannot make a thread in {str(self._root)!r}: {failure.strerror}") from failure
        _lock(fd, thread_id)
        if ephemeral:  # after the lock: whoever finds the mark finds the thread in use
            mark_ephemeral(claim, thread_id)
        running = None if foreign else claim.seals.log(thread_id)
        return JsonlLog(self, thread_id, fd=fd, disk=self._disk, claim=claim, running=running)

    async def open(self, thread_id: ThreadId) -> "JsonlLog":
        try:
            with self.thread(thread_id) as at:
                fd = self._disk.open(EVENTS, os.O_RDWR | os.O_APPEND, at=at)
        except OSError as failure:
            if failure.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise ThreadReadOnly(f"thread {thread_id!r} cannot be written: {failure.strerror}") from failure
            raise ThreadNotFound(f"no thread {thread_id!r}") from failure
        try:
            log = JsonlLog(self, thread_id, fd=fd, disk=self._disk, claim=self._claim_directory(), running=None)
        except BaseException:
            os.close(fd)
            raise
        try:
            _lock(fd, thread_id)
            await to_thread.run_sync(log.recover)
        except BaseException:
            await log.close()
            raise
        return log

    async def read(self, thread_id: ThreadId, *, after: int = 0) -> list[Record]:
        return [each for each in (await self.examine(thread_id)).records if each.seq > after]

    async def examine(self, thread_id: ThreadId) -> Examined:
        with self.thread(thread_id) as at:
            try:
                return await to_thread.run_sync(partial(examine_log, thread_id, self._claim, at=at))
            except FileNotFoundError:
                raise ThreadNotFound(f"no thread {thread_id!r}") from None

    async def page(self, *, limit: int | None, cursor: str | None, archived: bool | None, search: str) -> ThreadPage:
        from hames.store.index import PageQuery
        from hames.store.search import search_threads

        threads = self._threads()
        index = self.index()
        if threads is not None:
            index.follow(threads, lambda name: load_summary(name, self._claim, at=threads))
        query = PageQuery(limit=limit, cursor=cursor, archived=archived, search=search)
        if not search.strip() or threads is None:
            return index.page(query)
        return await search_threads(index, self._text_index(), self._records, query)

    async def delete(self, thread_id: ThreadId) -> None:
        try:
            with self.thread(thread_id) as at:
                for entry in list(os.scandir(at)):
                    with contextlib.suppress(FileNotFoundError):  # the live file of a turn that has just ended
                        os.unlink(entry.name, dir_fd=at)
            os.rmdir(thread_id, dir_fd=self._threads())
        except OSError as failure:
            raise StorageFailed(f"cannot delete thread {thread_id!r}: {failure.strerror}") from failure
        remove_mark(self._claim, thread_id)
        self.index().remove(thread_id)
        if self._has_text_index():
            await to_thread.run_sync(self._text_index().remove, thread_id)

    async def sweep(self) -> None:
        with contextlib.suppress(Misconfigured):
            self._threads()
        for thread_id in marked_ephemeral(self._claim):
            try:
                log = await self.open(thread_id)
                ephemeral = any(
                    isinstance(one.event, ThreadCreated) and one.event.ephemeral for one in await log.read()
                )
                await log.close()
                if ephemeral:
                    await self.delete(thread_id)
                else:  # it was killed before it wrote anything, or is another thread: it is not ours to delete
                    remove_mark(self._claim, thread_id)
            except ThreadNotFound:
                remove_mark(self._claim, thread_id)
            except HarnessError:  # another process works on it, or it cannot be deleted now
                continue

    async def close(self) -> None:
        self._close_indexes()
        if self._threads_fd is not None:
            os.close(self._threads_fd)
        self._threads_fd = self._claim = None

    def _close_indexes(self) -> None:
        for index in (self._index, self._texts):
            if index is not None:
                index.close()
        self._index = self._texts = None

    @contextlib.contextmanager
    def thread(self, thread_id: ThreadId) -> Generator[int]:
        """The thread's open directory. An idle thread does without: descriptors are few."""
        threads = self._threads()
        if threads is None or not THREAD_ID.fullmatch(thread_id):
            raise ThreadNotFound(f"no thread {thread_id!r}")
        try:
            found = directory(thread_id, at=threads)
        except OSError:
            raise ThreadNotFound(f"no thread {thread_id!r}") from None
        with descriptor(found) as at:
            yield at

    def index(self) -> "Index":
        """In the state directory, where no repository can put one; else in memory."""
        if self._index is None:
            from hames.store.index import Index  # SQLite: not for a thread that is only started

            self._index = Index(self._database("index.db"))
        return self._index

    def put_in_index(self, summary: ThreadSummary, *, new: bool) -> None:
        """A new thread waits until somebody needs the list: whoever lists finds its directory."""
        if self._index is not None or not new:
            self.index().put(summary)

    def _claim_directory(self) -> Claim:
        """Whoever writes into a data directory claims it."""
        if self._claim is None:
            try:
                found = directory(self._root)
            except OSError as failure:
                raise self._refusal(failure) from failure
            with descriptor(found) as root:
                self._claim = self._places.claim(root)
            self._close_indexes()  # there is a better place for them now
        return self._claim

    def _text_index(self) -> "TextIndex":
        """Made by the first search, beside the list."""
        if self._texts is None:
            from hames.store.search import TextIndex

            self._texts = TextIndex(self._database("search.db"))
        return self._texts

    def _has_text_index(self) -> bool:
        return self._texts is not None or Path(self._database("search.db") or "/dev/null/").is_file()

    def _database(self, name: str) -> str:
        """Where a database of ours is; nothing: it is kept in memory."""
        home = claimed_directory(self._claim, "")
        return str(home / name) if home is not None else ""

    def _records(self, thread_id: ThreadId, after: int) -> list[Record]:
        try:
            with self.thread(thread_id) as at:
                return [each for each in examine_log(thread_id, self._claim, at=at).records if each.seq > after]
        except (OSError, ThreadNotFound):  # it went while we looked
            return []

    def _threads(self, *, create: bool = False) -> int | None:
        """The open `threads` directory, or None while there is none."""
        if self._threads_fd is not None:
            return self._threads_fd
        fresh = create and not self._root.exists()
        try:
            root = directory(self._root, create=create)
        except FileNotFoundError as failure:
            if create:  # some file systems say so of what they will not make
                raise self._refusal(failure) from failure
            return None
        except OSError as failure:
            raise self._refusal(failure) from failure
        try:
            if fresh:
                os.fchmod(root, 0o700)
                _ignore_everything(root)
            self._claim = self._places.claim(root) if create else self._places.known(root)
            self._threads_fd = directory("threads", at=root, create=create)
        except FileNotFoundError:
            return None
        except OSError as failure:
            raise self._refusal(failure) from failure
        finally:
            os.close(root)
        return self._threads_fd

    def _refusal(self, failure: OSError) -> Misconfigured:
        if failure.errno in (errno.ELOOP, errno.ENOTDIR):
            return Misconfigured(
                f"{str(self._root)!r} is a link or a file, not a directory: remove it, or name another with --data-dir"
            )
        return Misconfigured(f"cannot use {str(self._root)!r}: {failure.strerror}; name another with --data-dir")


class JsonlLog:
    """One thread's log, locked by us."""

    def __init__(
        self, store: JsonlStore, thread_id: ThreadId, *, fd: int, disk: Disk, claim: Claim, running: Running | None
    ) -> None:
        """`running` has seen the log as it is; None: it is foreign, or not looked at yet."""
        self.thread_id = thread_id
        self.repaired = ""
        self._store = store
        self._disk = disk
        self._fd = fd
        self._claim = claim
        self._running = running
        self._live_fd: int | None = None
        self._live_running: Running | None = None
        self._length = os.fstat(fd).st_size
        self._dead = ""
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
        if self._live_fd is not None:
            with contextlib.suppress(OSError):  # what it holds is older than the log, and passed over
                self._disk.truncate(self._live_fd, 0)
        if sync:
            try:
                await to_thread.run_sync(self._disk.sync, self._fd)
            except OSError as failure:
                self._dead = (
                    f"it could not be saved to disk ({failure.strerror}); the thread is read-only until a restart"
                )
                raise StorageFailed(f"cannot save thread {self.thread_id!r}: {self._dead}") from failure

    def jot(self, record: Record) -> None:
        if self._dead:
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {self._dead}")
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
            self._disk.write(self._live_fd, data)
        except OSError as failure:
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {failure.strerror}") from failure

    async def summarize(self, summary: ThreadSummary) -> None:
        summary = replace(summary, foreign=self.foreign)
        self._store.put_in_index(summary, new=self._new)
        self._new = False
        data = msgspec.json.format(encode_summary(summary, self._claim))
        with contextlib.suppress(OSError, ThreadNotFound), self._store.thread(self.thread_id) as at:
            await to_thread.run_sync(lambda: write_whole(self._disk, META, data, at=at))

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
            self._repair(found, at)

    def _repair(self, found: "ScannedLog", at: int) -> None:
        if found.good_bytes < self._length:
            cut_incomplete_end(self._disk, self._fd, found.good_bytes, at=at)
            self.repaired = (
                f"an incomplete end of {self._length - found.good_bytes} bytes was cut off and saved in {TORN}"
            )
            self._length = found.good_bytes
        if found.bad_lines:
            self.repaired += f"{'; ' if self.repaired else ''}{found.bad_lines} damaged lines were skipped"
        late = unsaved_records(found, self.thread_id, self._claim, self._running, at=at)
        if late:
            self._append(late)
            self._disk.sync(self._fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(LIVE, dir_fd=at)
        self._recovered = found.records + late

    def _append(self, records: Sequence[Record]) -> None:
        if self._running is None:
            self._write(b"".join(map(line, records)))
            return
        running = self._running.copy()
        self._write(b"".join([sealed_line(each, running) for each in records]))
        self._running, self._live_running = running, None

    def _write(self, data: bytes) -> None:
        if self._dead:
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {self._dead}")
        done = 0
        try:
            while done < len(data):
                done += self._disk.write(self._fd, data[done:])
        except OSError as failure:
            self._undo(done)
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {failure.strerror}") from failure
        self._length += len(data)

    def _undo(self, done: int) -> None:
        """Take back half a batch: the next one would otherwise continue its last line."""
        if done:
            try:
                self._disk.truncate(self._fd, self._length)
            except OSError as failure:
                self._dead = f"a half-written record could not be removed ({failure.strerror})"


def _lock(fd: int, thread_id: ThreadId) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ThreadInUse(
            f"thread {thread_id!r} is being written by another process: attach to it, or stop that process"
        ) from None


def _ignore_everything(root: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with descriptor(os.open(".gitignore", flags, 0o600, dir_fd=root)) as fd:
        os.write(fd, b"*\n")
