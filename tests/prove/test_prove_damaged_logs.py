"""Damaged logs, thousands of them: nothing raises, nothing stays open, and every line that is whole is still there.

`make prove` opens HAMES_DAMAGED_LOGS of them, `make test` a slice. A failure names its number, which is its seed.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hames.core.engine import Engine
from hames.domain.commands import ResolveApproval, ResumeThread
from hames.domain.events import ApprovalResolved, ItemCompleted, Record
from hames.domain.ids import ThreadId
from hames.domain.items import AgentMessage, CommandExecution, UserMessage
from hames.domain.options import Settings
from hames.domain.policy import CommandGrant
from hames.domain.state import ThreadState
from hames.store.jsonl import JsonlStore
from hames.store.places import EVENTS, LIVE, META, Places
from hames.store.repair import TORN
from hames.testing.fakes.model import ScriptedModel, call, say
from proof_counts import count_proof
from support import created, engine, question, started, turn_end, whole_turn

LOGS = int(os.environ.get("HAMES_DAMAGED_LOGS", "60"))
CHUNKS = 10 if LOGS > 1000 else 2
TAIL_LINES = 3
TURN_EVERY = 40

Lines = list[bytes]
Damage = Callable[[bytes, random.Random], bytes]


def flip(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def other_bytes(data: bytes, dice: random.Random) -> bytes:
    at, size = dice.randrange(len(data)), dice.choice((1, 3, 50, 600))
    return data[:at] + dice.randbytes(min(size, len(data) - at)) + data[at + size :]


def zeroed(data: bytes, dice: random.Random) -> bytes:
    size = dice.choice((1, 16, 512, 4096))
    at = dice.randrange(len(data)) // size * size
    return data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]


def truncated(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def left_out(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + data[at + dice.choice((1, 2, 30, 700)) :]


def put_in(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice((b"\n", b"\0", b"\r", b"\xef\xbb\xbf", b"}{", dice.randbytes(40))) + data[at:]


def of_lines(change: Callable[[Lines, random.Random], Lines]) -> Damage:
    def damage(data: bytes, dice: random.Random) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(change(lines, dice)) if lines else data

    damage.__name__ = change.__name__
    return damage


@of_lines
def swapped(lines: Lines, dice: random.Random) -> Lines:
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return lines


@of_lines
def doubled(lines: Lines, dice: random.Random) -> Lines:
    at, to = dice.randrange(len(lines)), dice.randrange(len(lines) + 1)
    return [*lines[:to], lines[at], *lines[to:]]


@of_lines
def removed(lines: Lines, dice: random.Random) -> Lines:
    at = dice.randrange(len(lines))
    return [*lines[:at], *lines[at + dice.choice((1, 1, 3)) :]]


@of_lines
def shuffled(lines: Lines, dice: random.Random) -> Lines:
    dice.shuffle(lines)
    return lines


@of_lines
def without_an_end(lines: Lines, dice: random.Random) -> Lines:
    at = dice.randrange(len(lines))
    return [*lines[:at], lines[at].rstrip(b"\n"), *lines[at + 1 :]]


@of_lines
def twice(lines: Lines, _: random.Random) -> Lines:
    return lines + lines


KINDS: list[Damage] = [
    flip, flip, flip, other_bytes, zeroed, zeroed, truncated, left_out, put_in,
    swapped, doubled, removed, shuffled, without_an_end, twice,
]  # fmt: skip


class Base(msgspec.Struct):
    """A thread with everything in it, as it was written."""

    folder: Path
    thread_id: ThreadId
    log: bytes
    meta: bytes
    settings: Settings
    turns: int

    @property
    def place(self) -> Path:
        return self.folder / ".harness" / "threads" / self.thread_id


def store(folder: Path) -> JsonlStore:
    return JsonlStore(folder / ".harness", places=Places(folder / "state"))


async def written(folder: Path) -> Base:
    model = ScriptedModel(
        [say("one is said"), call("echo", x=1)],
        [say("two is said")],
        [call("asking", x=2)],
        [say("three is said")],
        [say("four is said, with an é and a \n line")],
    )
    async with engine(model, store=store(folder), after_crash="end") as the_engine:
        thread = await created(the_engine, approval_policy="unlessTrusted")
        await whole_turn(the_engine, thread.id, "the first prompt")
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id, "the second prompt")
        asked = await question(watcher)
        await the_engine.execute(ResolveApproval(approval_id=asked.approval.id, decision="always"))
        await turn_end(watcher)
        watcher.close()
        await whole_turn(the_engine, thread.id, "the third prompt")
        state = await read(the_engine, thread.id)
    place = folder / ".harness" / "threads" / thread.id
    return Base(
        folder=folder,
        thread_id=thread.id,
        log=(place / EVENTS).read_bytes(),
        meta=(place / META).read_bytes(),
        settings=state.settings,
        turns=len(state.turns),
    )


async def read(the_engine: Engine, thread_id: ThreadId) -> ThreadState:
    state = await the_engine.execute(ResumeThread(thread_id=thread_id))
    assert isinstance(state, ThreadState)
    return state


def cases(base: Base, chunk: int) -> list[tuple[str, bytes]]:
    """First every byte of the tail, then whatever the dice say."""
    tail = sum(map(len, base.log.splitlines(keepends=True)[-TAIL_LINES:]))
    found: list[tuple[str, bytes]] = []
    every = max(1, tail * 3 // max(LOGS // 4, 1))
    for number in range(0, tail * 3, every):
        at = len(base.log) - 1 - number // 3
        byte = base.log[at]
        new = (byte ^ 1, byte ^ 0x80, 0)[number % 3]
        found.append((f"byte {at} is {new}", base.log[:at] + bytes([new]) + base.log[at + 1 :]))
        found.append((f"cut at {at}", base.log[:at]))
    for seed in range(max(0, LOGS - len(found))):
        dice = random.Random(seed)
        data = base.log
        kinds = [dice.choice(KINDS) for _ in range(dice.choice((1, 1, 1, 2, 3)))]
        for kind in kinds:
            data = kind(data, dice) if data else data
        found.append((f"seed {seed}: {[kind.__name__ for kind in kinds]}", data))
    return found[chunk::CHUNKS]


def texts(record: Record) -> list[str]:
    """What of a line a reader of the thread must find again."""
    item = record.event.item if isinstance(record.event, ItemCompleted) else None
    match item:
        case AgentMessage(text=text):
            return [text]
        case UserMessage():
            return [msgspec.json.encode(item.content).decode()]
        case CommandExecution(command=command):
            return [command]
        case _:
            return []


def whole_lines(base: Base, data: bytes) -> list[Record]:
    """The records of the lines that the damage has left as they were."""
    left = set(data.split(b"\n")[:-1])
    return [msgspec.json.decode(line, type=Record) for line in base.log.split(b"\n")[:-1] if line in left]


def check(base: Base, state: ThreadState, data: bytes) -> None:
    assert state.running is None
    assert state.approvals == ()
    for turn in state.turns:
        assert turn.status != "running"
        assert turn.open == ()
        assert all(item.status != "running" for item in turn.items)
    said = {text for turn in state.turns for item in turn.items for text in _item_texts(item)}
    for record in whole_lines(base, data):
        assert set(texts(record)) <= said, record
    assert not state.foreign
    assert state.settings.approval_policy in (base.settings.approval_policy, "always")
    assert all(isinstance(grant, CommandGrant) for grant in state.grants)


def _item_texts(item: object) -> list[str]:
    record = Record(seq=1, at_ms=1, thread_id=ThreadId("t"), event=ItemCompleted(turn_id="t", item=item))  # type: ignore[arg-type]
    return texts(record)


@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_a_damaged_log_opens_and_has_every_line_that_is_whole(tmp_path: Path, chunk: int) -> None:
    base = await written(tmp_path)
    granted = [r for r in whole_lines(base, base.log) if isinstance(r.event, ApprovalResolved)]
    assert granted
    opened = 0
    for number, (what, data) in enumerate(cases(base, chunk)):
        for name in (TORN, LIVE):
            (base.place / name).unlink(missing_ok=True)
        (base.place / EVENTS).write_bytes(data)
        meta = ("whole", "missing", "damaged")[number % 3] if _has_first_line(base, data) else "whole"
        (base.place / META).write_bytes(base.meta if meta == "whole" else flip(base.meta, random.Random(number)))
        if meta == "missing":
            (base.place / META).unlink()
        try:
            async with engine(ScriptedModel([say("on")]), store=store(tmp_path), after_crash="end") as the_engine:
                check(base, await read(the_engine, base.thread_id), data)
                if number % TURN_EVERY == 0:
                    ended = (await whole_turn(the_engine, base.thread_id))[-1].after.turns[-1]
                    assert ended.status == "completed"
            if number % TURN_EVERY == 1:  # what was repaired is said once
                before = (base.place / EVENTS).read_bytes().count(b'"log_repaired"')
                async with engine(ScriptedModel(), store=store(tmp_path), after_crash="end") as the_engine:
                    check(base, await read(the_engine, base.thread_id), data)
                assert (base.place / EVENTS).read_bytes().count(b'"log_repaired"') == before <= 1
        except Exception as problem:
            problem.add_note(f"{what}, meta.json: {meta}")
            raise
        opened += 1
    count_proof("damaged logs", opened)


def _has_first_line(base: Base, data: bytes) -> bool:
    """Without it and without `meta.json` there is no thread."""
    return base.log.split(b"\n", 1)[0] in data.split(b"\n")[:-1]
