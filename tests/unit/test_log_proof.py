"""A log that proves itself: a damaged log of one's own stays one's own, and nothing that was taken back comes back."""

import json
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from hames.domain.authority import withdrawn
from hames.domain.commands import ForkThread, ReadThread, ResumeThread
from hames.domain.events import (
    REPAIRED,
    ApprovalResolved,
    Event,
    ItemCompleted,
    Noticed,
    Record,
    SettingsChanged,
    ThreadCreated,
    TurnEnded,
    TurnStarted,
)
from hames.domain.ids import ApprovalId, ItemId, ThreadId, TurnId
from hames.domain.items import AgentMessage
from hames.domain.options import Settings
from hames.domain.policy import CommandGrant, DangerFullAccess, ReadOnly
from hames.domain.state import ThreadState, apply, blank, summary
from hames.store.jsonl import JsonlStore
from hames.store.lines import line
from hames.store.places import EVENTS, META, Places
from hames.store.seals import Seals
from hames.testing.fakes.model import ScriptedModel
from support import engine

HERE = ThreadId("ses_here")
TURN = TurnId("turn_1")
RECKLESS = Settings(model="a/b", cwd="/", approval_policy="never", sandbox=DangerFullAccess())
CAREFUL = Settings(model="a/b", cwd="/", approval_policy="unlessTrusted")
GRANT = CommandGrant(command="make", cwd="/")
LATER = CommandGrant(command="later", cwd="/")


def allowed(grant: CommandGrant) -> Event:
    name = ApprovalId(f"a-{grant.command}")
    return ApprovalResolved(turn_id=TURN, approval_id=name, item_id=ItemId("i"), decision="always", grant=grant)


def said(number: int) -> Event:
    item = AgentMessage(id=ItemId(f"item_{number}"), step=number, text=f"words number {number}", status="completed")
    return ItemCompleted(turn_id=TURN, item=item)


STORY: list[Event] = [
    ThreadCreated(settings=RECKLESS),
    TurnStarted(turn_id=TURN),
    said(1),
    allowed(GRANT),
    said(2),
    SettingsChanged(settings=CAREFUL),
    said(3),
    TurnEnded(turn_id=TURN, status="completed"),
]
TIGHTENED = 6
"""The number of the record that takes the permissions back."""


def numbered(story: list[Event]) -> list[Record]:
    return [Record(seq=n, at_ms=n, thread_id=HERE, event=event) for n, event in enumerate(story, start=1)]


def store(folder: Path) -> JsonlStore:
    return JsonlStore(folder / ".harness", places=Places(folder / "state"))


def log_in(folder: Path) -> Path:
    return folder / ".harness" / "threads" / HERE / EVENTS


def meta_in(folder: Path) -> Path:
    return log_in(folder).with_name(META)


async def written(folder: Path, story: list[Event] | None = None, *, summarized: int | None = None) -> list[bytes]:
    """The lines of a thread of ours. `meta.json` is as of the record with this number, or the last."""
    a_store = store(folder)
    log = await a_store.create(HERE)
    state = blank(HERE)
    for record in numbered(story or STORY):
        await log.append([record])
        state = apply(state, record)
        if summarized is None or record.seq == summarized:
            await log.summarize(summary(state))
    await log.close()
    await a_store.close()
    return log_in(folder).read_bytes().splitlines(keepends=True)


async def state_of(folder: Path) -> tuple[ThreadState, str]:
    """What the thread is when it is opened, and what had to be repaired. Looking at it shows the same."""
    a_store = store(folder)
    seen = await a_store.examine(HERE)
    looked = blank(HERE, foreign=seen.foreign)
    for record in seen.records:
        looked = apply(looked, record)
    log = await a_store.open(HERE)
    state = blank(HERE, foreign=log.foreign)
    for record in await log.read():
        state = apply(state, record)
    await log.close()
    await a_store.close()
    assert (looked.foreign, looked.settings, looked.grants) == (state.foreign, state.settings, state.grants)
    return state, log.repaired


def flipped(line: bytes, at: int) -> bytes:
    return line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]


def texts(state: ThreadState) -> list[str]:
    return [item.text for turn in state.turns for item in turn.items if isinstance(item, AgentMessage)]


@pytest.mark.parametrize("number", range(len(STORY)))
async def test_a_log_with_a_damaged_line_stays_ours_with_its_settings_and_permissions(
    tmp_path: Path, number: int
) -> None:
    lines = await written(tmp_path)
    lines[number] = flipped(lines[number], len(lines[number]) // 2)
    log_in(tmp_path).write_bytes(b"".join(lines))
    for _ in range(2):
        state, _ = await state_of(tmp_path)
        assert not state.foreign
        assert state.settings == CAREFUL
        assert state.grants == (GRANT,)
        assert len(texts(state)) >= 2


@pytest.mark.parametrize("number", range(1, len(STORY) - 1))
async def test_without_a_copy_nothing_holds_that_was_allowed_before_the_damage(tmp_path: Path, number: int) -> None:
    lines = await written(tmp_path)
    lines[number] = flipped(lines[number], len(lines[number]) // 2)
    log_in(tmp_path).write_bytes(b"".join(lines))
    meta_in(tmp_path).unlink()
    state, repaired = await state_of(tmp_path)
    assert not state.foreign
    assert state.grants == (() if number >= 3 else (GRANT,))
    if number < TIGHTENED - 1:  # a later line says what holds
        assert state.settings == CAREFUL
    else:
        assert state.settings.approval_policy == "always"
        assert state.settings.sandbox == ReadOnly()
        assert "choose again" in repaired
    assert "1 damaged line" in repaired


@pytest.mark.parametrize("how", ["flipped", "removed", "zeroed", "replaced by another line"])
@pytest.mark.parametrize("summarized", [0, 1, 4, 5])
async def test_an_old_copy_does_not_bring_back_what_a_lost_line_took_away(
    tmp_path: Path, how: str, summarized: int
) -> None:
    """Whoever can write into the directory can put an earlier `meta.json` of ours there."""
    lines = await written(tmp_path, summarized=summarized)
    lost = lines[TIGHTENED - 1]
    lines[TIGHTENED - 1] = {
        "flipped": flipped(lost, 60),
        "removed": b"",
        "zeroed": bytes(len(lost) - 1) + b"\n",
        "replaced by another line": lines[2],
    }[how]
    log_in(tmp_path).write_bytes(b"".join(lines))
    for _ in range(3):
        state, _ = await state_of(tmp_path)
        assert not state.foreign
        assert state.settings == withdrawn(RECKLESS).settings
        assert state.grants == ()


async def test_what_is_chosen_after_the_damage_holds(tmp_path: Path) -> None:
    lines = await written(tmp_path, summarized=0)
    lines[TIGHTENED - 1] = flipped(lines[TIGHTENED - 1], 60)
    log_in(tmp_path).write_bytes(b"".join(lines))
    a_store = store(tmp_path)
    log = await a_store.open(HERE)
    last = (await log.read())[-1].seq
    chosen = [SettingsChanged(settings=CAREFUL), allowed(LATER)]
    records = [Record(seq=last + n, at_ms=9, thread_id=HERE, event=one) for n, one in enumerate(chosen, start=1)]
    await log.append(records)
    await log.close()
    await a_store.close()
    for _ in range(2):
        state, _ = await state_of(tmp_path)
        assert (state.settings, state.grants) == (CAREFUL, (LATER,))


async def test_a_lost_end_does_not_bring_back_what_it_took_away(tmp_path: Path) -> None:
    lines = await written(tmp_path)
    for kept in range(TIGHTENED - 1, len(lines)):
        log_in(tmp_path).write_bytes(b"".join(lines[:kept]))
        whole = meta_in(tmp_path).read_bytes()
        state, repaired = await state_of(tmp_path)
        assert (state.settings, state.grants) == (CAREFUL, (GRANT,)), "meta.json knows"
        assert "missing at the end" in repaired
        state, repaired = await state_of(tmp_path)
        assert repaired == "", "said once"
        assert state.settings == CAREFUL
        meta_in(tmp_path).write_bytes(whole)


async def test_a_damaged_line_at_the_very_end_may_have_taken_a_permission_back(tmp_path: Path) -> None:
    lines = await written(tmp_path, STORY[:TIGHTENED], summarized=5)
    log_in(tmp_path).write_bytes(b"".join([*lines[:-1], flipped(lines[-1], 60)]))
    for _ in range(2):
        state, _ = await state_of(tmp_path)
        assert (state.settings, state.grants) == (withdrawn(RECKLESS).settings, ())


@pytest.mark.parametrize("place", ["start", "middle", "end"])
@pytest.mark.parametrize("kind", ["no seal", "a copied seal"])
async def test_a_line_that_somebody_else_wrote_makes_the_thread_foreign(tmp_path: Path, place: str, kind: str) -> None:
    lines = await written(tmp_path)
    at = {"start": 0, "middle": 4, "end": len(lines)}[place]
    evil = line(Record(seq=at + 1, at_ms=1, thread_id=HERE, event=SettingsChanged(settings=RECKLESS, grants=(LATER,))))
    if kind == "a copied seal":
        body = evil[:-19] + lines[4][-88:-19]
        evil = body + b',"crc":"%08x"}\n' % crc32(body)
    log_in(tmp_path).write_bytes(b"".join([*lines[:at], evil, *lines[at:]]))
    state, _ = await state_of(tmp_path)
    assert state.foreign


@pytest.mark.parametrize("log", [b"garbage\n", b"", b"{}\n", b"\0\n\0"])
async def test_settings_from_a_planted_summary_are_not_obeyed(tmp_path: Path, log: bytes) -> None:
    a_store = store(tmp_path)
    a_store.prepare()
    await a_store.close()
    log_in(tmp_path).parent.mkdir()
    log_in(tmp_path).write_bytes(log)
    created = msgspec.to_builtins(ThreadCreated(settings=RECKLESS))
    meta_in(tmp_path).write_text(json.dumps({"id": HERE, "created": created, "copy": json.dumps(created)}))
    state, _ = await state_of(tmp_path)
    assert state.foreign or state.settings.approval_policy != "never"


async def test_a_flip_in_a_checksum_or_between_two_lines_costs_nothing(tmp_path: Path) -> None:
    lines = await written(tmp_path)
    whole = b"".join(lines)
    ends = [sum(map(len, lines[: n + 1])) for n in (0, 4)]
    for end in ends:
        for at in range(end - 19, end):
            for bit in range(8):
                damaged = bytearray(whole)
                damaged[at] ^= 1 << bit
                if bytes(damaged).count(b"\n") > len(lines):
                    continue
                log_in(tmp_path).write_bytes(damaged)
                a_store = store(tmp_path)
                seen = await a_store.examine(HERE)
                await a_store.close()
                lost = {record.seq for record in numbered(STORY)} - {record.seq for record in seen.records}
                assert not seen.foreign
                assert len(lost) <= (0 if at < end - 1 else 1), (at - end, bit)


async def test_swapped_lines_are_read_in_their_order(tmp_path: Path) -> None:
    lines = await written(tmp_path)
    for one in range(len(lines)):
        for other in range(one):
            swapped = list(lines)
            swapped[one], swapped[other] = swapped[other], swapped[one]
            log_in(tmp_path).write_bytes(b"".join(swapped))
            a_store = store(tmp_path)
            seen = await a_store.examine(HERE)
            await a_store.close()
            assert not seen.foreign
            assert seen.records == numbered(STORY)


def sealed_as_format_2(folder: Path, story: list[Event]) -> bytes:
    """What the version before wrote: a seal over everything up to it."""
    [owner] = (folder / ".harness").glob("owner-*")
    key = bytes.fromhex((folder / "state" / "seal.key").read_text())
    running = Seals(key, owner.read_text()).log(HERE)
    lines: list[bytes] = []
    for record in numbered(story):
        body = msgspec.json.encode(record)[:-1]
        running.update(body)
        seal = f',"seal":"{running.hexdigest()}"'.encode()
        end = seal + f',"crc":"{crc32(seal, crc32(body)):08x}"}}\n'.encode()
        running.update(end)
        lines.append(body + end)
    return b"".join(lines)


async def test_a_log_of_format_2_is_ours_and_continued_with_lines_that_prove_themselves(tmp_path: Path) -> None:
    await written(tmp_path, STORY[:1])
    meta_in(tmp_path).unlink()
    story = [ThreadCreated(settings=CAREFUL, format=2), *STORY[1:]]
    old = sealed_as_format_2(tmp_path, story)
    log_in(tmp_path).write_bytes(old)
    a_store = store(tmp_path)
    log = await a_store.open(HERE)
    assert not log.foreign
    assert await log.read() == numbered(story)
    more = [Record(seq=len(story) + n, at_ms=9, thread_id=HERE, event=said(9 + n)) for n in (1, 2, 3)]
    await log.append(more)
    await log.close()
    await a_store.close()
    state, repaired = await state_of(tmp_path)
    assert (state.foreign, repaired) == (False, "")
    both = log_in(tmp_path).read_bytes()
    lines = both.splitlines(keepends=True)
    log_in(tmp_path).write_bytes(b"".join([*lines[:-2], flipped(lines[-2], 60), lines[-1]]))
    assert not (await state_of(tmp_path))[0].foreign
    damages: list[Callable[[], bytes]] = [
        lambda: b"".join([flipped(lines[2], 60), *lines]),
        lambda: both[len(lines[0]) :],
    ]
    for damage in damages:
        log_in(tmp_path).write_bytes(damage())
        assert (await state_of(tmp_path))[0].foreign, "the seals of that version are about everything before them"
    log_in(tmp_path).write_bytes(damages[0]())
    told = (await state_of(tmp_path))[1]
    assert "1 damaged line was skipped" in told
    assert "an earlier version" in told
    assert "your defaults apply" in told


async def test_a_fork_behind_a_gap_has_no_permission_from_before_it(tmp_path: Path) -> None:
    lines = await written(tmp_path, summarized=0)
    lines[TIGHTENED - 1] = flipped(lines[TIGHTENED - 1], 60)
    log_in(tmp_path).write_bytes(b"".join(lines))
    async with engine(ScriptedModel(), store=store(tmp_path), cwd=tmp_path) as the_engine:
        state = await the_engine.execute(ResumeThread(thread_id=HERE))
        assert isinstance(state, ThreadState)
        notices = [change.record.event for change in await the_engine.history(HERE)]
        [repaired] = [one for one in notices if isinstance(one, Noticed) and one.name == REPAIRED]
        assert "choose again" in repaired.message
        fork = await the_engine.execute(ForkThread(thread_id=HERE))
        assert isinstance(fork, ThreadState)
        assert (fork.settings.approval_policy, fork.grants, fork.foreign) == ("always", (), False)
    async with engine(ScriptedModel(), store=store(tmp_path), cwd=tmp_path) as the_engine:
        fork = await the_engine.execute(ReadThread(thread_id=fork.id))
        assert isinstance(fork, ThreadState)
        assert fork.grants == ()
