"""Threads on disk: `threads/{threadId}/events.jsonl`, append-only, and `meta.json` beside it.

A log is written with one `write` per batch on an `O_APPEND` descriptor, which is
locked for the life of its writer. Live deltas go to `live` first, because a killed
process must not lose a token that somebody saw, and the log should not hold a line per token.

A log is ours if every whole line of it is sealed by us (see `seals`); any other is foreign and stays so.
"""

import contextlib
import errno
import logging
import os
import threading
from collections.abc import AsyncGenerator, Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread
from msgspec.structs import replace

from hames.domain.commands import ThreadPage, ThreadSummary
from hames.domain.errors import (
    HarnessError,
    Misconfigured,
    StorageFailed,
    ThreadNotFound,
    ThreadReadOnly,
)
from hames.domain.events import Record, ThreadCreated, is_synced
from hames.domain.ids import ThreadId
from hames.ports import Examined, LogNews
from hames.private_files import descriptor
from hames.store.deletion import delete_thread, finish_deleting
from hames.store.ephemeral import mark_ephemeral, marked_ephemeral, remove_mark
from hames.store.locking import lock_log
from hames.store.places import EVENTS, THREAD_ID, Claim, Places, claimed_directory
from hames.store.running import running_threads, unmark_running
from hames.store.second_names import (
    MissingThread,
    SecondName,
    delete_name,
    find_missing,
    give_second_name,
    tidy,
)
from hames.store.system_calls import Disk, directory
from hames.store.thread_log import JsonlLog, put_back

if TYPE_CHECKING:
    from hames.store.directory_changes import DirectoryChanges
    from hames.store.health import LogHealth
    from hames.store.listing import Listing

COPY_DAYS = 90

log = logging.getLogger(__name__)

NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class JsonlStore:
    """`root` is the data directory itself; it is made with the first thread, not before."""

    def __init__(self, root: Path, *, places: Places, disk: Disk | None = None, copy_days: int = COPY_DAYS) -> None:
        """`copy_days`: how long a log outlives the deletion of the data directory; 0: it does not."""
        self._root = root
        self._places = places
        self._disk = disk or Disk()
        self._copy_days = copy_days
        self._threads_fd: int | None = None
        self._claim: Claim | None = None
        self._deleted_token = ""
        """Of a data directory that was deleted while we used it."""
        self._listing: Listing | None = None
        self._open: dict[ThreadId, JsonlLog] = {}
        self._changes: DirectoryChanges | None = None
        self._making = threading.Lock()

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
        threads, claim = self._threads_fd, self._claim
        if threads is None or claim is None or not os.fstat(threads).st_nlink:  # a new directory is synced to disk
            threads, claim = await to_thread.run_sync(self._make_directory)
        fd, second = await to_thread.run_sync(partial(self._make, thread_id, threads, ephemeral=ephemeral))
        log = JsonlLog(self, thread_id, fd=fd, disk=self._disk, claim=claim, ours=not foreign)
        log.second = second
        try:
            log.lock_fd = lock_log(fd, thread_id, self._claim_directory)
            if ephemeral:  # after the lock: whoever finds the mark finds the thread in use
                mark_ephemeral(claim, thread_id)
        except BaseException:
            await log.close()
            self._unmake(thread_id, threads)
            raise
        return self._opened(log)

    def _make_directory(self) -> tuple[int, Claim]:
        with self._making:
            threads = self._threads(create=True)
            assert threads is not None
            claim = self._claim_directory()
            self._places.remember_path(self._root, claim)
            return threads, claim

    def _opened(self, log: JsonlLog) -> JsonlLog:
        self._open[log.thread_id] = log
        return log

    def closed(self, log: JsonlLog) -> None:
        if self._open.get(log.thread_id) is log:
            del self._open[log.thread_id]

    def _second_name(self, thread_id: ThreadId, fd: int, at: int) -> SecondName | None:
        """Nothing where it cannot be kept, or is not wanted."""
        if not self._copy_days or self._claim is None:
            return None
        return give_second_name(self._claim.home, thread_id, fd, at=at, disk=self._disk)

    def _recover(self, log: JsonlLog, fd: int) -> None:
        log.recover()
        if self._claim is not None:
            self._places.remember_path(self._root, self._claim)
        if not log.ephemeral:
            with self.thread(log.thread_id) as at:
                log.second = self._second_name(log.thread_id, fd, at)

    def _make(self, thread_id: ThreadId, threads: int, *, ephemeral: bool) -> tuple[int, SecondName | None]:
        """An empty log, open, and safe on the disk. Raises `StorageFailed`, and leaves nothing then."""
        fd = second = None
        try:
            self._disk.make_directory(thread_id, at=threads)
        except OSError as failure:
            raise self._not_made(failure) from failure
        try:
            with self.thread(thread_id) as at:
                fd = self._disk.open(EVENTS, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, at=at)
                self._disk.sync_directory(at)
                if not ephemeral:
                    second = self._second_name(thread_id, fd, at)
            self._disk.sync_directory(threads)
        except (OSError, HarnessError) as failure:
            if fd is not None:
                os.close(fd)
            if second is not None:
                second.close()
            self._unmake(thread_id, threads)
            raise self._not_made(failure) from failure
        return fd, second

    def _not_made(self, failure: OSError | HarnessError) -> StorageFailed:
        why = failure.strerror if isinstance(failure, OSError) else failure
        return StorageFailed(f"cannot make a thread in {str(self._root)!r}: {why}")

    def _unmake(self, thread_id: ThreadId, threads: int) -> None:
        with contextlib.suppress(OSError):
            delete_name(self._claim.home if self._claim is not None else None, thread_id)
        with contextlib.suppress(OSError, HarnessError):
            with self.thread(thread_id) as at, contextlib.suppress(FileNotFoundError):
                os.unlink(EVENTS, dir_fd=at)
            os.rmdir(thread_id, dir_fd=threads)

    async def open(self, thread_id: ThreadId) -> "JsonlLog":
        try:
            with self.thread(thread_id) as at:
                fd = self._disk.open(EVENTS, os.O_RDWR | os.O_APPEND, at=at)
        except OSError as failure:
            if failure.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise ThreadReadOnly(f"thread {thread_id!r} cannot be written: {failure.strerror}") from failure
            if failure.errno not in NOT_THERE:
                raise StorageFailed(f"cannot open thread {thread_id!r}: {failure.strerror}") from failure
            raise ThreadNotFound(f"no thread {thread_id!r}") from failure
        try:
            opened = JsonlLog(self, thread_id, fd=fd, disk=self._disk, claim=self._claim_directory(), ours=False)
        except BaseException:
            os.close(fd)
            raise
        try:
            opened.lock_fd = lock_log(fd, thread_id, self._claim_directory)
            await to_thread.run_sync(self._recover, opened, fd)
        except BaseException:
            await opened.close()
            raise
        return self._opened(opened)

    async def missing(self) -> list[MissingThread]:
        """The threads that were in this directory and are gone, but not by `delete`. The latest first."""
        threads = self._threads()
        earlier = self._places.earlier_claims(self._root)
        own = [self._claim] if self._claim is not None else []
        return await to_thread.run_sync(find_missing, [*own, *earlier], threads)

    async def tidy_second_names(self) -> None:
        """Logs of earlier versions get a second name; those that nobody came back for are deleted, once a day."""
        if (threads := self._threads()) is None or self._claim is None or self._claim.home is None:
            return
        self._places.remember_path(self._root, self._claim)
        await to_thread.run_sync(tidy, self._claim.home, threads, self._copy_days)

    async def read(self, thread_id: ThreadId, *, after: int = 0) -> list[Record]:
        return [each for each in (await self.examine(thread_id)).records if each.seq > after]

    async def examine(self, thread_id: ThreadId) -> Examined:
        from hames.store.reading import examine_log  # who only creates threads reads none

        with self.thread(thread_id) as at:
            try:
                return await to_thread.run_sync(partial(examine_log, thread_id, self._claim, at=at))
            except FileNotFoundError:
                raise ThreadNotFound(f"no thread {thread_id!r}") from None

    async def follow(self, thread_id: ThreadId, *, after: int = 0) -> AsyncGenerator[LogNews]:
        from hames.store.follow_log import LogReader, sync_log  # most processes never follow another

        if self._changes is None:
            from hames.store.directory_changes import DirectoryChanges

            self._changes = DirectoryChanges()
        changes = self._changes
        with self.thread(thread_id) as at:
            watch = changes.add(at)  # before the first look, so that nothing is missed between the two
        try:
            reader = LogReader(thread_id, self._claim)
            with self.thread(thread_id) as at:
                news: LogNews | None = await to_thread.run_sync(partial(reader.read_whole, at=at))
            while True:
                if news is not None:
                    yield replace(news, records=[one for one in news.records if one.seq > after])
                await changes.wait(watch)
                news = None
                try:
                    with self.thread(thread_id) as at:
                        news = reader.read_more(at=at)
                        if news is not None and news.whole:  # it may be another directory
                            changes.move(watch, at)
                        if news is not None and any(is_synced(one.event) for one in news.records):
                            await to_thread.run_sync(
                                partial(sync_log, at=at)
                            )  # its writer tells nobody of it before, either
                except FileNotFoundError:
                    return
                except (OSError, StorageFailed) as problem:  # no descriptor was left, or the disk had a bad moment
                    log.warning("log.not_followed", extra={"thread_id": thread_id, "error": str(problem)})
        except (FileNotFoundError, ThreadNotFound):
            return
        finally:
            changes.remove(watch)

    async def check(self) -> "list[LogHealth]":
        """What is wrong with each log, by the name of its thread."""
        from hames.store.health import check_log

        if (threads := self._threads()) is None:
            return []

        def look() -> "list[LogHealth]":
            found: list[LogHealth] = []
            for name in sorted(entry.name for entry in os.scandir(threads) if THREAD_ID.fullmatch(entry.name)):
                with contextlib.suppress(ThreadNotFound), self.thread(ThreadId(name)) as at:
                    found.append(check_log(ThreadId(name), self._claim, at=at))
            return found

        return await to_thread.run_sync(look)

    async def page(self, *, limit: int | None, cursor: str | None, archived: bool | None, search: str) -> ThreadPage:
        from hames.store.index import PageQuery
        from hames.store.summaries import load_summary

        threads = self._threads()

        def load(name: str) -> ThreadSummary | None:
            assert threads is not None
            return load_summary(name, self._claim, at=threads)

        query = PageQuery(limit=limit, cursor=cursor, archived=archived, search=search)
        return await self._lists().page(query, threads, load, self._records)

    async def delete(self, thread_id: ThreadId) -> None:
        try:
            with self.thread(thread_id):
                pass  # it is there
            await to_thread.run_sync(self._remove, thread_id)
        except OSError as failure:
            raise StorageFailed(f"cannot delete thread {thread_id!r}: {failure.strerror}") from failure
        remove_mark(self._claim, thread_id)
        unmark_running(self._claim, thread_id)
        await self._lists().remove(thread_id)

    def _remove(self, thread_id: ThreadId) -> None:
        threads = self._threads()
        assert threads is not None
        delete_name(self._claim.home if self._claim is not None else None, thread_id)  # first: it would be restored
        delete_thread(self._disk, thread_id, threads=threads)

    async def running(self) -> list[ThreadId]:
        self._threads()
        return await to_thread.run_sync(running_threads, self._claim)

    async def unmark(self, thread_id: ThreadId) -> None:
        unmark_running(self._claim, thread_id)

    async def sweep(self) -> None:
        with contextlib.suppress(Misconfigured):
            if (threads := self._threads()) is not None:
                finish_deleting(threads)
        for thread_id in marked_ephemeral(self._claim):
            try:
                opened = await self.open(thread_id)
                ephemeral = any(
                    isinstance(one.event, ThreadCreated) and one.event.ephemeral for one in await opened.read()
                )
                await opened.close()
                if ephemeral:
                    await self.delete(thread_id)
                else:  # it was killed before it wrote anything, or is another thread: it is not ours to delete
                    remove_mark(self._claim, thread_id)
            except ThreadNotFound:
                remove_mark(self._claim, thread_id)
            except HarnessError:  # another process works on it, or it cannot be deleted now
                continue

    async def close(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._close_lists()
        if self._threads_fd is not None:
            os.close(self._threads_fd)
        self._threads_fd = self._claim = None

    def _close_lists(self) -> None:
        if self._listing is not None:
            self._listing.close()
        self._listing = None

    @contextlib.contextmanager
    def thread(self, thread_id: ThreadId) -> Generator[int]:
        """The thread's open directory. An idle thread does without: descriptors are few."""
        if not THREAD_ID.fullmatch(thread_id):
            raise ThreadNotFound(f"no thread {thread_id!r}")
        try:
            threads = self._threads()
            try:
                found = directory(thread_id, at=threads) if threads is not None else None
            except FileNotFoundError:
                found = None
            if found is None and (log := self._open.get(thread_id)) is not None:
                found = put_back(log, *self._make_directory(), self._disk)
        except OSError as failure:
            if failure.errno in NOT_THERE:
                raise ThreadNotFound(f"no thread {thread_id!r}") from None
            raise StorageFailed(f"cannot open thread {thread_id!r}: {failure.strerror}") from failure
        if found is None:
            raise ThreadNotFound(f"no thread {thread_id!r}")
        with descriptor(found) as at:
            yield at

    def _lists(self) -> "Listing":
        """In the state directory, where no repository can put one; else in memory."""
        if self._listing is None:
            from hames.store.listing import Listing  # SQLite: not for a thread that is only started

            self._listing = Listing(claimed_directory(self._claim, ""))
        return self._listing

    def put_in_index(self, summary: ThreadSummary, changed_ns: int, *, new: bool) -> None:
        """A new thread waits until somebody needs the list: whoever lists finds its directory."""
        if self._listing is not None or not new:
            self._lists().put(summary, changed_ns)

    def _claim_directory(self) -> Claim:
        """Whoever writes into a data directory claims it."""
        if self._claim is None:
            try:
                found = directory(self._root)
            except OSError as failure:
                raise self._refusal(failure) from failure
            with descriptor(found) as root:
                self._claim = self._places.claim(root, self._root)
            self._close_lists()  # there is a better place for them now
        return self._claim

    def _records(self, thread_id: ThreadId, after: int) -> list[Record]:
        from hames.store.reading import examine_log

        try:
            with self.thread(thread_id) as at:
                return [each for each in examine_log(thread_id, self._claim, at=at).records if each.seq > after]
        except (OSError, ThreadNotFound):  # it went while we looked
            return []

    def _threads(self, *, create: bool = False) -> int | None:
        """The open `threads` directory, or None while there is none."""
        if self._threads_fd is not None:
            if os.fstat(self._threads_fd).st_nlink:
                return self._threads_fd
            if self._claim is not None and self._claim.home is not None:
                self._deleted_token = self._claim.token
            self._forget()  # somebody deleted the data directory
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
            if create:
                deleted, self._deleted_token = self._deleted_token if fresh else "", ""
                self._claim = self._places.claim(root, self._root, deleted=deleted)
            else:
                self._claim = self._places.known(root)
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


def _ignore_everything(root: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with descriptor(os.open(".gitignore", flags, 0o600, dir_fd=root)) as fd:
        os.write(fd, b"*\n")
