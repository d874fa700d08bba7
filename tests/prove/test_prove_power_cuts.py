"""Power cuts, simulated on the order in which the store wrote: whatever was told as safe is there afterwards.

A run is recorded: each write, sync, rename, link and deletion, and between them what a client was told. For a cut at
any place the disk may have everything that was synced before it, and of the rest whatever it likes: all, nothing, the
beginning, or single sectors with zeros between them. `make prove` tries HAMES_POWER_CUTS of these disks.
"""

import os
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
import pytest

from hames.core.engine import Engine
from hames.domain.commands import ArchiveThread, RenameThread, ResolveApproval, ResumeThread
from hames.domain.errors import ThreadNotFound
from hames.domain.events import ItemDelta, Record, is_synced
from hames.domain.ids import ThreadId
from hames.domain.state import ThreadState
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.store.system_calls import Disk
from hames.testing.fakes.model import ScriptedModel, call, say
from proof_counts import count_proof
from support import created, engine, question, started, turn_end, whole_turn

CUTS = int(os.environ.get("HAMES_POWER_CUTS", "15"))
SECTOR = 512

Kind = Literal["create", "write", "truncate", "sync", "mkdir", "rename", "unlink", "sync_directory", "told"]


@dataclass
class Step:
    kind: Kind
    path: str = ""
    inode: int = 0
    """The file that it is about: names change."""
    data: bytes = b""
    length: int = 0
    to: str = ""
    record: Record | None = None


class RecordingDisk(Disk):
    def __init__(self, root: Path) -> None:
        self.steps: list[Step] = []
        self._root = str(root)

    def _note(self, kind: Kind, fd_or_path: int | str, **more: object) -> None:
        path = str(Path(f"/proc/self/fd/{fd_or_path}").readlink()) if isinstance(fd_or_path, int) else fd_or_path
        if path.startswith(self._root):
            inode = os.fstat(fd_or_path).st_ino if isinstance(fd_or_path, int) else 0
            self.steps.append(Step(kind, path, **{"inode": inode, **more}))  # type: ignore[arg-type]

    def write(self, fd: int, data: bytes) -> int:
        done = super().write(fd, data)
        self._note("write", fd, data=data[:done])
        return done

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self._note("sync", fd)

    def truncate(self, fd: int, length: int) -> None:
        super().truncate(fd, length)
        self._note("truncate", fd, length=length)

    def open(self, name: str, flags: int, *, at: int) -> int:
        try:
            os.stat(name, dir_fd=at)
            new = False
        except OSError:
            new = True
        fd = super().open(name, flags, at=at)
        if new:
            self._note("create", fd)
        return fd

    def rename(self, old: str, new: str, *, at: int, to: int | None = None) -> None:
        inode = os.stat(old, dir_fd=at, follow_symlinks=False).st_ino
        super().rename(old, new, at=at, to=to)
        here, there = (str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in (at, at if to is None else to))
        self._note("rename", f"{here}/{old}", to=f"{there}/{new}", inode=inode)

    def make_directory(self, name: str, *, at: int) -> None:
        super().make_directory(name, at=at)
        self._note("mkdir", f"{Path(f'/proc/self/fd/{at}').readlink()}/{name}")

    def sync_directory(self, fd: int) -> None:
        super().sync_directory(fd)
        self._note("sync_directory", fd)

    def unlink(self, name: str, *, at: int) -> None:
        super().unlink(name, at=at)
        self._note("unlink", f"{Path(f'/proc/self/fd/{at}').readlink()}/{name}")


@dataclass
class FileAfterCut:
    """What is on the disk of one file: what was synced, and what may be there."""

    synced: bytes = b""
    wanted: list[Step] = field(default_factory=list[Step])

    def do(self, step: Step) -> None:
        if step.kind == "sync":
            for one in self.wanted:
                self.synced = _changed(self.synced, one)
            self.wanted.clear()
        else:
            self.wanted.append(step)

    def after(self, dice: random.Random) -> bytes:
        how = dice.choice(("nothing", "all", "beginning", "torn", "sectors"))
        data = self.synced
        if how == "nothing" or not self.wanted:
            return data
        kept = self.wanted if how in ("all", "sectors") else self.wanted[: dice.randrange(len(self.wanted)) + 1]
        for number, step in enumerate(kept):
            before = data
            data = _changed(data, step)
            if how == "torn" and number == len(kept) - 1 and step.kind == "write":
                data = data[: len(before) + dice.randrange(len(step.data) + 1)]
        if how == "sectors" and len(data) > len(self.synced):
            lost = bytearray(data)
            first = len(self.synced)
            for start in range(first - first % SECTOR, len(data), SECTOR):
                if dice.random() < 0.4:
                    begin, end = max(start, first), min(start + SECTOR, len(data))
                    lost[begin:end] = bytes(end - begin)
            data = bytes(lost)
        return data


def _changed(data: bytes, step: Step) -> bytes:
    if step.kind == "truncate":
        return data[: step.length] + bytes(max(0, step.length - len(data)))
    return data + step.data  # everything is appended


NAMES: tuple[Kind, ...] = ("create", "mkdir", "rename", "unlink")


def disk_after(steps: list[Step], dice: random.Random) -> dict[str, bytes | None]:
    """Paths and contents; None is a directory."""
    files: dict[int, FileAfterCut] = {}
    for step in steps:
        if step.kind in ("write", "truncate", "sync"):
            files.setdefault(step.inode, FileAfterCut()).do(step)
    names: dict[str, int | None] = {}
    how = dice.choice(("nothing", "all", "some"))
    for number, step in enumerate(steps):
        if step.kind not in NAMES:
            continue
        folder = str(Path(step.path).parent)
        safe = any(later.kind == "sync_directory" and later.path == folder for later in steps[number:])
        if not safe and (how == "nothing" or (how == "some" and dice.random() < 0.5)):
            continue
        match step.kind:
            case "create":
                names[step.path] = step.inode
            case "mkdir":
                names[step.path] = None
            case "rename" if step.path in names or step.inode:
                names.pop(step.path, None)
                names[step.to] = step.inode
            case _:
                names.pop(step.path, None)
    contents = {inode: file.after(dice) for inode, file in files.items()}
    return {
        path: None if inode is None else contents.get(inode, b"")
        for path, inode in sorted(names.items())
        if inode is None or str(Path(path).parent) in names
    }


def store(folder: Path, disk: Disk | None = None) -> JsonlStore:
    return JsonlStore(folder / ".harness", places=Places(folder / "state"), disk=disk)


async def recorded(folder: Path) -> tuple[list[Step], ThreadId]:
    """Everything that a client does with a thread, and what it was told of it when."""
    disk = RecordingDisk(folder / ".harness" / "threads")
    model = ScriptedModel(
        [say("one is said " * 60), call("echo", x=1)],
        [say("two is said")],
        [call("asking", x=2)],
        [say("three is said")],
        [say("four is said")],
        [say("five is said")],
    )
    for lives in range(2):
        async with engine(model, store=store(folder, disk), after_crash="end") as the_engine:

            def hear(change: object) -> None:
                record: Record = change.record  # type: ignore[attr-defined]
                disk.steps.append(Step("told", record=record))

            the_engine.observers.append(hear)
            if not lives:
                thread = await created(the_engine)
                await whole_turn(the_engine, thread.id, "the first")
                watcher = await the_engine.watch(thread.id)
                await started(the_engine, thread.id, "the second")
                asked = await question(watcher)
                await the_engine.execute(ResolveApproval(approval_id=asked.approval.id, decision="always"))
                await turn_end(watcher)
                watcher.close()
                await the_engine.execute(RenameThread(thread_id=thread.id, title="a name"))
            await whole_turn(the_engine, thread.id, "and another")
            await the_engine.execute(ArchiveThread(thread_id=thread.id, archived=not lives))
    return disk.steps, thread.id


async def read(the_engine: Engine, thread_id: ThreadId) -> ThreadState:
    state = await the_engine.execute(ResumeThread(thread_id=thread_id))
    assert isinstance(state, ThreadState)
    return state


def safe_records(steps: list[Step]) -> list[Record]:
    """What was told and must be there: everything up to the last event that is synced before it is told."""
    told = [step.record for step in steps if step.record is not None and not isinstance(step.record.event, ItemDelta)]
    last = max((number for number, record in enumerate(told) if is_synced(record.event)), default=-1)
    return told[: last + 1]


@pytest.mark.parametrize("chunk", range(4 if CUTS > 100 else 1))
async def test_whatever_was_told_as_safe_is_there_after_a_power_cut(tmp_path: Path, chunk: int) -> None:
    steps, thread_id = await recorded(tmp_path)
    assert {"write", "sync", "create", "mkdir", "rename", "sync_directory", "told"} <= {step.kind for step in steps}
    threads = tmp_path / ".harness" / "threads"
    seeds = range(CUTS)[chunk :: 4 if CUTS > 100 else 1]
    for seed in seeds:
        dice = random.Random(seed)
        cut = dice.randrange(1, len(steps) + 1)
        before = steps[:cut]
        shutil.rmtree(threads)
        threads.mkdir(mode=0o700)
        for path, content in disk_after(before, dice).items():
            Path(path).mkdir() if content is None else Path(path).write_bytes(content)
        wanted = safe_records(before)
        try:
            with anyio.fail_after(60):
                async with engine(ScriptedModel([say("on")]), store=store(tmp_path), after_crash="end") as the_engine:
                    if not wanted:
                        try:
                            await read(the_engine, thread_id)
                        except ThreadNotFound:
                            continue
                    state = await read(the_engine, thread_id)
                    assert state.running is None
                    assert not state.foreign
                    assert all(turn.open == () for turn in state.turns)
                    assert state.approvals == ()
                    kept = [change.record for change in await the_engine.history(thread_id)]
                    for record in wanted:
                        assert record in kept, "told as safe, and lost"
                    ended = (await whole_turn(the_engine, thread_id))[-1].after.turns[-1]
                    assert ended.status == "completed"
        except Exception as problem:
            problem.add_note(f"seed {seed}, cut at step {cut} of {len(steps)}")
            raise
    count_proof("power cuts", len(seeds))
