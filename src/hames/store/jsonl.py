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
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from hmac import compare_digest
from pathlib import Path

import msgspec
from anyio import to_thread
from msgspec.structs import replace

from hames.domain.commands import ThreadPage, ThreadSummary
from hames.domain.errors import Misconfigured, StorageFailed, ThreadInUse, ThreadNotFound, ThreadReadOnly
from hames.domain.events import FORMAT, Record, ThreadCreated
from hames.domain.ids import ThreadId
from hames.domain.state import apply, blank, summary
from hames.domain.value import Value
from hames.ports import Examined
from hames.store.disk import FILE, Disk, directory, plain, read_small, write_whole
from hames.store.index import Index
from hames.store.lines import (
    LINE_BYTES,
    SEALED_END,
    jotted,
    jotted_line,
    line,
    merged,
    record,
    seal_of,
    sealed_line,
    unknown,
)
from hames.store.places import EVENTS, LIVE, THREAD_ID, Claim, Places, claimed_directory, live_digest
from hames.store.seals import Running, chunks
from hames.store.search import TextIndex, searched

META, TORN = "meta.json", "events.torn"
MOST_MS = 1 << 53
"""No clock shows a later time."""


class _Sealed(Value):
    """What `meta.json` says beside the summary. Without a valid seal it is somebody else's word."""

    seal: str = ""


_decode_summary = msgspec.json.Decoder(ThreadSummary).decode
_decode_sealed = msgspec.json.Decoder(_Sealed).decode


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

    async def create(self, thread_id: ThreadId, *, foreign: bool = False) -> "JsonlLog":
        threads = self._threads(create=True)
        assert threads is not None
        claim = self._claimed()
        try:
            os.mkdir(thread_id, 0o700, dir_fd=threads)
            with self.thread(thread_id) as at:
                fd = self._disk.open(EVENTS, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, at=at)
                os.fsync(at)
            os.fsync(threads)
        except OSError as failure:
            raise StorageFailed(f"cannot make a thread in {str(self._root)!r}: {failure.strerror}") from failure
        _lock(fd, thread_id)
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
            log = JsonlLog(self, thread_id, fd=fd, disk=self._disk, claim=self._claimed(), running=None)
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
        found = await self.examine(thread_id)
        return [each for each in found.records if each.seq > after]

    async def examine(self, thread_id: ThreadId) -> Examined:
        with self.thread(thread_id) as at:
            try:
                return await to_thread.run_sync(partial(_examined, thread_id, self._claim, at=at))
            except FileNotFoundError:
                raise ThreadNotFound(f"no thread {thread_id!r}") from None

    async def page(self, *, limit: int | None, cursor: str | None, archived: bool, search: str) -> ThreadPage:
        threads = self._threads()
        index = self.index()
        if threads is not None:
            index.follow(threads, lambda name: _load_summary(name, self._claim, at=threads))
        if not search.strip() or threads is None:
            return index.page(limit=limit, cursor=cursor, archived=archived, search=search)
        texts = self._text_index()
        return await searched(index, texts, self._records, limit=limit, cursor=cursor, archived=archived, search=search)

    async def delete(self, thread_id: ThreadId) -> None:
        try:
            with self.thread(thread_id) as at:
                for entry in list(os.scandir(at)):
                    os.unlink(entry.name, dir_fd=at)
            os.rmdir(thread_id, dir_fd=self._threads())
        except OSError as failure:
            raise StorageFailed(f"cannot delete thread {thread_id!r}: {failure.strerror}") from failure
        self.index().remove(thread_id)
        path = self._text_path()
        if self._texts is not None or (path is not None and path.exists()):
            await to_thread.run_sync(self._text_index().remove, thread_id)

    async def close(self) -> None:
        if self._texts is not None:
            self._texts.close()
        if self._index is not None:
            self._index.close()
        if self._threads_fd is not None:
            os.close(self._threads_fd)
        self._index = self._texts = self._threads_fd = self._claim = None

    @contextlib.contextmanager
    def thread(self, thread_id: ThreadId) -> Generator[int]:
        """The thread's open directory. An idle thread does without: descriptors are few."""
        threads = self._threads()
        if threads is None or not THREAD_ID.fullmatch(thread_id):
            raise ThreadNotFound(f"no thread {thread_id!r}")
        try:
            at = directory(thread_id, at=threads)
        except OSError:
            raise ThreadNotFound(f"no thread {thread_id!r}") from None
        try:
            yield at
        finally:
            os.close(at)

    def index(self) -> Index:
        """In the state directory, where no repository can put one; else in memory."""
        if self._index is None:
            home = claimed_directory(self._claim, "")
            self._index = Index(str(home / "index.db") if home is not None else "")
        return self._index

    def _claimed(self) -> Claim:
        """Whoever writes into a data directory claims it."""
        if self._claim is None:
            try:
                root = directory(self._root)
            except OSError as failure:
                raise self._refusal(failure) from failure
            try:
                self._claim = self._places.claim(root)
            finally:
                os.close(root)
            if self._index is not None:  # there is a better place for it now
                self._index.close()
                self._index = None
            if self._texts is not None:
                self._texts.close()
                self._texts = None
        return self._claim

    def _text_index(self) -> TextIndex:
        """Made by the first search, beside the list."""
        if self._texts is None:
            path = self._text_path()
            self._texts = TextIndex(str(path) if path is not None else "")
        return self._texts

    def _text_path(self) -> Path | None:
        home = claimed_directory(self._claim, "")
        return home / "search.db" if home is not None else None

    def _records(self, thread_id: ThreadId, after: int) -> list[Record]:
        try:
            with self.thread(thread_id) as at:
                found = _examined(thread_id, self._claim, at=at)
                return [each for each in found.records if each.seq > after]
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
                f"{str(self._root)!r} is not a directory of its own (a link or a file stands there):"
                " remove it, or name another with --data-dir"
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

    @property
    def foreign(self) -> bool:
        return self._running is None

    async def read(self) -> list[Record]:
        records, self._recovered = self._recovered, []
        return records or await to_thread.run_sync(lambda: _scan(self._fd).records)

    async def append(self, records: Sequence[Record], *, sync: bool = False) -> None:
        self._append(records)
        if self._live_fd is not None:
            with contextlib.suppress(OSError):  # what it holds is older than the log, and passed over
                self._disk.truncate(self._live_fd, 0)
        if sync:
            try:
                await to_thread.run_sync(self._disk.sync, self._fd)
            except OSError as failure:
                self._dead = f"the disk did not keep it ({failure.strerror}); the thread is read-only until a restart"
                raise StorageFailed(f"cannot keep thread {self.thread_id!r}: {self._dead}") from failure

    def jot(self, record: Record) -> None:
        if self._dead:
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {self._dead}")
        if self._running is None:
            data = line(record)
        else:
            if self._live_running is None:
                self._live_running = self._claim.seals.live(self.thread_id, self._running)
            data = jotted_line(record, self._live_running)
        try:
            if self._live_fd is None:
                with self._store.thread(self.thread_id) as at:
                    self._live_fd = self._disk.open(LIVE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, at=at)
            self._disk.write(self._live_fd, data)
        except OSError as failure:
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: {failure.strerror}") from failure

    async def summarize(self, summary: ThreadSummary) -> None:
        summary = replace(summary, foreign=self.foreign)
        self._store.index().put(summary)
        data = msgspec.json.format(_meta(summary, self._claim))
        with contextlib.suppress(OSError, ThreadNotFound), self._store.thread(self.thread_id) as at:
            await to_thread.run_sync(lambda: write_whole(self._disk, META, data, at=at))

    def rest(self) -> None:
        """Give back what only a running turn needs."""
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
        found = _scan(self._fd)
        if found.newer:
            raise ThreadReadOnly(
                f"thread {self.thread_id!r} was written by a newer version of hames: it can be read here, not continued"
            )
        self._running = _verified(self._fd, found, self.thread_id, self._claim)
        with self._store.thread(self.thread_id) as at:
            self._mend(found, at)

    def _mend(self, found: "_Found", at: int) -> None:
        if found.good_bytes < self._length:
            _keep_aside(self._fd, found.good_bytes, at=at)
            self._disk.truncate(self._fd, found.good_bytes)
            self.repaired = f"a torn tail of {self._length - found.good_bytes} bytes was cut and put aside in {TORN}"
            self._length = found.good_bytes
        if found.bad_lines:
            self.repaired += f"{'; ' if self.repaired else ''}{found.bad_lines} damaged lines were skipped"
        late = _live(found, self.thread_id, self._claim, self._running, at=at)
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
        """Half a batch would be glued to the next one."""
        if done:
            try:
                self._disk.truncate(self._fd, self._length)
            except OSError as failure:
                self._dead = f"half a record could not be taken back ({failure.strerror})"


class _Found:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.good_bytes = 0
        self.last_line = b""
        self.bad_lines = 0
        self.newer = False


def _scan(fd: int) -> _Found:
    """Every good record, and where the last one ends. Damaged lines in the middle are passed over."""
    found = _Found()
    position = pending_bad = 0
    for data, size in _lines(fd):
        position += size
        good = record(data) if data else None
        if good is None:
            pending_bad += 1
            found.newer = found.newer or unknown(data)
            continue
        found.newer = found.newer or (isinstance(good.event, ThreadCreated) and good.event.format > FORMAT)
        found.records.append(good)
        found.good_bytes, found.last_line = position, data
        found.bad_lines += pending_bad
        pending_bad = 0
    return found


def _verified(fd: int, found: _Found, thread_id: ThreadId, claim: Claim | None) -> Running | None:
    """The hash of a log that is ours, up to its last whole line. None: it is foreign.

    What comes after the last whole line is a torn tail, whoever tore it: it is not read.
    """
    if claim is None:
        return None
    running, seal = claim.seals.log(thread_id), seal_of(found.last_line)
    sealed = found.good_bytes - SEALED_END if seal else found.good_bytes
    for chunk in chunks(fd, 0, sealed):
        running.update(chunk)
    if seal:
        ours = compare_digest(seal, running.hexdigest().encode())
        running.update(found.last_line[-SEALED_END + 1 :] + b"\n")
    else:
        adopted = claim.adopted.get(thread_id)
        ours = not found.good_bytes or (
            adopted is not None
            and adopted.size == found.good_bytes
            and compare_digest(adopted.seal, running.hexdigest())
        )
    return running if ours else None


def _lines(fd: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines with their size on disk; one that is too long counts, and is not kept."""
    parts: list[bytes] = []
    size = offset = 0
    while chunk := os.pread(fd, 1 << 20, offset):
        offset += len(chunk)
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            size += len(end) + 1
            yield (b"".join([*parts, end]) if size <= LINE_BYTES else b"", size)
            parts, size = [], 0
        size += len(rest)
        parts = [*parts, rest] if size <= LINE_BYTES else []


def _live(found: _Found, thread_id: ThreadId, claim: Claim | None, running: Running | None, *, at: int) -> list[Record]:
    """What was told and is not in the log yet. Beside a log of ours only what we jotted ourselves."""
    try:
        fd = plain(os.open(LIVE, os.O_RDONLY | FILE, dir_fd=at))
    except OSError:
        return []
    try:
        after = found.records[-1].seq if found.records else 0
        if running is None or claim is None:
            records = _scan(fd).records
        elif (adopted := claim.adopted.get(thread_id)) is not None and not seal_of(found.last_line):
            records = _scan(fd).records if adopted.live and adopted.live == live_digest(at) else []
        else:
            records = list(jotted((data for data, _ in _lines(fd)), claim.seals.live(thread_id, running)))
        return [each for each in merged(records) if each.seq > after]
    finally:
        os.close(fd)


def _examined(thread_id: ThreadId, claim: Claim | None, *, at: int) -> Examined:
    """Nothing is changed."""
    fd = plain(os.open(EVENTS, os.O_RDONLY | FILE, dir_fd=at))
    try:
        found = _scan(fd)
        running = _verified(fd, found, thread_id, claim)
    finally:
        os.close(fd)
    records = found.records + _live(found, thread_id, claim, running, at=at)
    return Examined(records=records, foreign=running is None)


def _keep_aside(fd: int, start: int, *, at: int) -> None:
    side = os.open(TORN, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
    try:
        while chunk := os.pread(fd, 1 << 20, start):
            start += os.write(side, chunk)
    finally:
        os.close(side)


def _meta(summary: ThreadSummary, claim: Claim) -> bytes:
    """What `meta.json` is to hold; sealed if the thread is ours."""
    body = msgspec.json.encode(replace(summary, foreign=False, standing="away"))
    if summary.foreign:
        return body
    return b'%b,"seal":"%b"}' % (body[:-1], claim.seals.of(summary.id, body).encode())


def _load_summary(name: str, claim: Claim | None, *, at: int) -> ThreadSummary | None:
    """From `meta.json`; where that is missing or damaged, from the log itself."""
    if not THREAD_ID.fullmatch(name):
        return None
    try:
        thread = directory(name, at=at)
    except OSError:
        return None
    try:
        data = read_small(META, at=thread)
        found, sealed = _decode_summary(data), _decode_sealed(data)
        if found.id != name or not all(0 <= ms <= MOST_MS for ms in (found.created_at_ms, found.updated_at_ms)):
            return _rebuilt_summary(ThreadId(name), claim, at=thread)
        return _judged(found, sealed.seal, claim)
    except (OSError, msgspec.DecodeError, RecursionError):
        return _rebuilt_summary(ThreadId(name), claim, at=thread)
    finally:
        os.close(thread)


def _judged(found: ThreadSummary, seal: str, claim: Claim | None) -> ThreadSummary:
    """Whether it is foreign is for us to say. Only for lists: a log is looked at when it is opened."""
    found = replace(found, foreign=False, standing="away")
    if claim is None:
        ours = False
    elif seal:
        ours = compare_digest(seal.encode(), claim.seals.of(found.id, msgspec.json.encode(found)).encode())
    else:
        ours = found.id in claim.adopted
    return replace(found, foreign=not ours)


def _rebuilt_summary(thread_id: ThreadId, claim: Claim | None, *, at: int) -> ThreadSummary | None:
    try:
        found = _examined(thread_id, claim, at=at)
    except OSError:
        return None
    state = blank(thread_id, foreign=found.foreign)
    for each in found.records:
        state = apply(state, each)
    return summary(state) if found.records else None


def _lock(fd: int, thread_id: ThreadId) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ThreadInUse(
            f"thread {thread_id!r} is being written by another process: attach to it, or stop that process"
        ) from None


def _ignore_everything(root: int) -> None:
    fd = os.open(".gitignore", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=root)
    try:
        os.write(fd, b"*\n")
    finally:
        os.close(fd)
