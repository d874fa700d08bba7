"""A file system that fails at any one call: nothing that was told is lost, and nothing stays open.

Each call of the store that changes a file fails once, in each way it can (`make prove` tries HAMES_IO_ERRORS of these,
`make test` a slice), and a real full disk fails as it likes.
"""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import anyio
import pytest

from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.commands import (
    ArchiveThread,
    DeleteThread,
    InterruptTurn,
    ListThreads,
    ReadThread,
    RenameThread,
    ResumeThread,
)
from hames.domain.errors import HarnessError, ThreadNotFound, TurnNotFound
from hames.domain.events import ItemCompleted, ItemDelta, Noticed, TurnEnded
from hames.domain.ids import ItemId, ThreadId
from hames.domain.items import AgentMessage
from hames.domain.state import Change, ThreadState
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.store.system_calls import Disk
from hames.testing.fakes.model import ScriptedModel, call, say
from proof_counts import count_proof
from support import created, engine, started, whole_turn

ERRORS = int(os.environ.get("HAMES_IO_ERRORS", "40"))
CHUNKS = 8 if ERRORS > 500 else 2

WAYS: dict[str, tuple[str, ...]] = {
    "write": ("EIO", "ENOSPC", "EDQUOT", "EINTR", "short", "short, then ENOSPC", "EROFS"),
    "sync": ("EIO", "ENOSPC", "EDQUOT", "EINTR"),
    "truncate": ("EIO", "ENOSPC", "EINTR", "EROFS"),
    "open": ("EIO", "EMFILE", "ENFILE", "ENOSPC", "EACCES", "EROFS", "EINTR"),
    "rename": ("EIO", "ENOSPC", "EROFS", "EDQUOT"),
    "make_directory": ("EIO", "ENOSPC", "EMLINK", "EROFS", "EDQUOT"),
    "sync_directory": ("EIO", "ENOSPC"),
    "unlink": ("EIO", "EROFS", "EBUSY"),
    "link": ("EIO", "EXDEV", "EPERM", "EMLINK", "ENOSPC", "EDQUOT"),
    "lock": ("ENOLCK", "EINTR", "EIO"),
}


class FailingDisk(Disk):
    """Fails at the call with one number, in one way; a copy instead of a link if that is wanted."""

    def __init__(self, *, copies: bool) -> None:
        self.calls: list[str] = []
        self.number = -1
        self.way = ""
        self._copies = copies
        self._full = False

    def called(self, kind: str) -> str:
        """What is to go wrong with this call, if it is not an error."""
        self.calls.append(kind)
        if self._full and kind == "write":
            self._full = False
            raise _error("ENOSPC")
        if len(self.calls) - 1 != self.number:
            return ""
        if not self.way.startswith("short"):
            raise _error(self.way)
        self._full = "ENOSPC" in self.way
        return self.way

    def write(self, fd: int, data: bytes) -> int:
        short = self.called("write")
        return super().write(fd, data[: max(1, len(data) // 2)] if short else data)

    def sync(self, fd: int) -> None:
        self.called("sync")
        super().sync(fd)

    def truncate(self, fd: int, length: int) -> None:
        self.called("truncate")
        super().truncate(fd, length)

    def open(self, name: str, flags: int, *, at: int) -> int:
        self.called("open")
        return super().open(name, flags, at=at)

    def rename(self, old: str, new: str, *, at: int, to: int | None = None) -> None:
        self.called("rename")
        super().rename(old, new, at=at, to=to)

    def make_directory(self, name: str, *, at: int) -> None:
        self.called("make_directory")
        super().make_directory(name, at=at)

    def sync_directory(self, fd: int) -> None:
        self.called("sync_directory")
        super().sync_directory(fd)

    def unlink(self, name: str, *, at: int) -> None:
        self.called("unlink")
        super().unlink(name, at=at)

    def link(self, name: str, path: os.PathLike[str], *, at: int) -> None:
        self.called("link")
        if self._copies:
            raise _error("EXDEV")
        super().link(name, path, at=at)


def _error(name: str) -> OSError:
    number = getattr(errno, name)
    return OSError(number, os.strerror(number))


@contextlib.contextmanager
def failing_locks(disk: FailingDisk) -> Generator[None]:
    import fcntl

    flock = fcntl.flock

    def tried(fd: int, operation: int) -> None:
        if ".harness" in str(Path(f"/proc/self/fd/{fd}").readlink()):
            disk.called("lock")
        flock(fd, operation)

    fcntl.flock = tried
    try:
        yield
    finally:
        fcntl.flock = flock


def store(folder: Path, disk: Disk | None = None) -> JsonlStore:
    return JsonlStore(folder / ".harness", places=Places(folder / "state"), disk=disk)


def model() -> ScriptedModel:
    return ScriptedModel(
        [say("one is said"), call("echo", x=1)], [say("two is said")], [say("three is said")], [say("four is said")]
    )


class Heard:
    """What a client of a thread was told."""

    def __init__(self) -> None:
        self.thread_id: ThreadId | None = None
        self.texts: dict[ItemId, str] = {}
        self.completed: set[ItemId] = set()
        self.renamed = self.deleted = False
        self.waited = 0
        self.must_interrupt = False
        self.make_room: Callable[[], None] | None = None
        """What helps when a turn waits for room on the disk."""

    def hear(self, changes: list[Change]) -> None:
        for change in changes:
            match change.record.event:
                case ItemDelta(item_id=item_id, text=text, stream="text"):
                    self.texts[item_id] = self.texts.get(item_id, "") + text
                case ItemCompleted(item=item):
                    self.completed.add(item.id)
                case _:
                    pass


async def live(the_engine: Engine, heard: Heard) -> None:
    """Everything that is done with threads. Whatever fails, fails with a `HarnessError`."""
    with contextlib.suppress(HarnessError):
        thread = await created(the_engine)
        heard.thread_id = thread.id
        for _ in range(2):
            await one_turn(the_engine, thread.id, heard)
        with contextlib.suppress(HarnessError):
            await the_engine.execute(RenameThread(thread_id=thread.id, title="a name"))
            heard.renamed = True
        with contextlib.suppress(HarnessError):
            await the_engine.execute(ArchiveThread(thread_id=thread.id, archived=False))
        await one_turn(the_engine, thread.id, heard)
    with contextlib.suppress(HarnessError):
        other = await created(the_engine)
        await the_engine.execute(DeleteThread(thread_id=other.id))
        heard.deleted = True
        with pytest.raises(ThreadNotFound):
            await the_engine.execute(ReadThread(thread_id=other.id))
    with contextlib.suppress(HarnessError):
        await the_engine.execute(ListThreads())


async def one_turn(the_engine: Engine, thread_id: ThreadId, heard: Heard) -> None:
    with contextlib.suppress(HarnessError):
        watcher = await the_engine.watch(thread_id)
        try:
            await started(the_engine, thread_id)
            await _until_the_end(the_engine, watcher, heard)
        finally:
            watcher.close()


async def _until_the_end(the_engine: Engine, watcher: Watcher, heard: Heard) -> None:
    with anyio.fail_after(60):
        while True:
            changes = await watcher.next()
            assert changes, "a client was cut off"
            heard.hear(list(changes))
            if any(isinstance(one.record.event, Noticed) and one.record.event.name == "disk_full" for one in changes):
                heard.waited += 1
                if heard.make_room is not None:
                    heard.make_room()
                elif heard.must_interrupt:
                    with contextlib.suppress(TurnNotFound):
                        await the_engine.execute(InterruptTurn(thread_id=watcher.state.id))
            if any(isinstance(change.record.event, TurnEnded) for change in changes):
                return


async def check(folder: Path, heard: Heard) -> None:
    """With a disk that works again."""
    if heard.thread_id is None:
        return
    again = ScriptedModel([say("on")])
    async with engine(again, store=store(folder), after_crash="end") as the_engine:
        state = await the_engine.execute(ResumeThread(thread_id=heard.thread_id))
        assert isinstance(state, ThreadState)
        assert not state.foreign
        assert state.running is None
        assert state.approvals == ()
        items = {item.id: item for turn in state.turns for item in turn.items}
        for turn in state.turns:
            assert turn.open == ()
        for item_id, text in heard.texts.items():
            kept = items[item_id]
            assert isinstance(kept, AgentMessage)
            assert text in kept.text, "told and lost"
        assert heard.completed <= items.keys()
        assert not heard.renamed or state.title == "a name"
        ended = (await whole_turn(the_engine, heard.thread_id))[-1].after.turns[-1]
        assert ended.status == "completed"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def all_calls(folder: Path, *, copies: bool) -> list[str]:
    disk = FailingDisk(copies=copies)
    with failing_locks(disk):
        async with engine(model(), store=store(folder, disk), after_crash="end") as the_engine:
            await live(the_engine, Heard())
    return disk.calls


def faults(calls: list[str], *, copies: bool) -> Iterator[tuple[int, str, str, bool]]:
    for number, kind in enumerate(calls):
        for way in WAYS[kind]:
            yield number, kind, way, copies


@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_whichever_call_fails_nothing_that_was_told_is_lost(tmp_path: Path, chunk: int) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "copies").mkdir()
    every = [
        *faults(await all_calls(tmp_path / "plain", copies=False), copies=False),
        *faults(await all_calls(tmp_path / "copies", copies=True), copies=True),
    ]
    chosen = every[:: max(1, len(every) // ERRORS)][chunk::CHUNKS]
    before = descriptors()
    for number, kind, way, copies in chosen:
        disk = FailingDisk(copies=copies)
        disk.number, disk.way = number, way
        heard = Heard()
        with tempfile.TemporaryDirectory(dir=tmp_path) as place:
            folder = Path(place)
            try:
                with failing_locks(disk):
                    async with engine(model(), store=store(folder, disk), after_crash="end") as the_engine:
                        await live(the_engine, heard)
                await check(folder, heard)
                assert descriptors() <= before + 2
            except Exception as problem:
                problem.add_note(f"call {number} of {len(disk.calls)}, a {kind}, fails with {way}; copies: {copies}")
                raise
    count_proof("I/O errors", len(chosen))
    count_proof("of them short writes", sum(way.startswith("short") for _, _, way, _ in chosen))


# -- a real disk that is full


FULL = """
import os, sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {here!r}]
import anyio
from test_prove_io_errors import Heard, check, engine, live, model, store
from hames.store.jsonl import JsonlStore
from hames.store.places import Places

async def main(disk, state, free):
    filler = disk / "filler"
    made = JsonlStore(disk / ".harness", places=Places(state))
    made.prepare()
    await made.close()
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(0, file.tell() - free))
    heard = Heard()
    if free % 8192:
        heard.make_room = lambda: filler.unlink(missing_ok=True)
    else:
        heard.must_interrupt = True
    on_disk = JsonlStore(disk / ".harness", places=Places(state))
    async with engine(model(), store=on_disk, after_crash="end") as the_engine:
        await live(the_engine, heard)
    filler.unlink(missing_ok=True)
    if heard.thread_id is not None:
        import test_prove_io_errors as prove
        prove.store = lambda folder, disk_=None: JsonlStore(disk / ".harness", places=Places(state))
        await check(disk, heard)
    print("ok", len(heard.completed), "waited" if heard.waited else "")

anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
"""


def can_mount() -> bool:
    mount = "mount -t tmpfs -o size=64k none /mnt"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, timeout=60, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("state_too", [False, True], ids=["the workspace", "the state directory as well"])
def test_a_real_full_disk_loses_nothing_that_was_told(tmp_path: Path, state_too: bool) -> None:
    if shutil.which("unshare") is None or not can_mount():
        pytest.skip("needs unshare and a tmpfs in a user namespace")
    disk = tmp_path / "disk"
    disk.mkdir()
    here = Path(__file__).parent
    program = tmp_path / "full.py"
    program.write_text(FULL.format(tests=str(here.parent), here=str(here)))
    frees = range(0, 40_000, 4096) if ERRORS > 500 else (12_288,)
    state = "$1/state" if state_too else "$2"
    mount, run = "mount -t tmpfs -o size=200k none $1", f"{sys.executable} $3 $1 {state}"
    script = "\n".join(f"{mount} && {run} {free} || exit 1; umount $1" for free in frees)
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(disk), str(tmp_path / "state"), str(program)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("ok") == len(frees)
    count_proof("real full disks", len(frees))
