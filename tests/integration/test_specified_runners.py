"""Runners that can only do what the specification has: what they cannot do is refused in words."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from test_server_runner import runner

from hames.agents.runner.capabilities import NOTHING_ANNOUNCED, read_announcement
from hames.clock_and_ids import SystemClock
from hames.domain.commands import (
    ChangeSettings,
    CompactThread,
    ForkThread,
    InterruptTurn,
    ReadThread,
    ReviewTarget,
    StartReview,
    SteerTurn,
)
from hames.domain.errors import HarnessError, InvalidCommand
from hames.domain.ids import ThreadId
from hames.domain.items import (
    TextInput,
    UserInput,
)
from hames.domain.options import Overrides
from hames.domain.policy import DangerFullAccess, ReadOnly, WorkspaceWrite
from hames.domain.state import ThreadState
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import ScriptedModel, hang, say
from runner_support import HELLO, IMAGE, changes, ended, prompt, seed_only, server, spoken
from support import created, engine, turn_end


async def test_a_runner_of_the_specification_still_works(tmp_path: Path) -> None:
    async with seed_only() as (url, bodies), server(url, tmp_path, memory=tmp_path / "memory") as house:
        thread = await created(house)
        for _ in range(2):
            assert (await ended(house, prompt(thread))).status == "completed"
    assert [body["prompt"] for body in bodies] == ["Hello", "Hello"]
    assert {body["thread"] for body in bodies} == {thread.id}


@pytest.mark.parametrize(
    ("content", "overrides", "words"),
    [
        ((HELLO, IMAGE), {}, "images"),
        ((IMAGE,), {}, "images"),
        ((HELLO,), {"sandbox": ReadOnly()}, "sandbox"),
        ((HELLO,), {"sandbox": DangerFullAccess()}, "sandbox"),
        ((HELLO,), {"sandbox": WorkspaceWrite(network_access=True)}, "sandbox"),
        ((HELLO,), {"approval_policy": "always"}, "approval"),
        ((HELLO,), {"agent": "plan"}, "plan mode"),
        ((HELLO,), {"instructions": "Be brief."}, "instructions"),
        ((HELLO,), {"base_instructions": "You are a poet."}, "instructions"),
        ((HELLO,), {"personality": "friendly"}, "instructions"),
        ((HELLO,), {"cwd": "/"}, "one directory"),
        ((HELLO,), {"model": "runner/other"}, "no model"),
        ((HELLO,), {"options": {"reasoning_effort": "high"}}, "option"),
    ],
)
@pytest.mark.parametrize("announcement", [b"", b"nonsense", b'{"can": 7, "models": "none"}', b"[]"])
async def test_what_a_runner_of_the_specification_cannot_do_is_refused_in_words(
    tmp_path: Path, content: tuple[UserInput, ...], overrides: dict[str, Any], words: str, announcement: bytes
) -> None:
    async with seed_only(announcement) as (url, bodies), server(url, tmp_path) as house:
        thread = await created(house)
        try:
            turn = await ended(house, prompt(thread, *content, **overrides))
        except HarnessError as refusal:
            said = str(refusal)
        else:
            assert turn.status == "failed"
            assert turn.error is not None
            said = turn.error.message
        assert words in said
        assert bodies == [], "it was not asked to run anything"


@pytest.mark.parametrize("task", ["review", "compact", "steer"])
async def test_other_tasks_are_refused_for_a_runner_of_the_specification(tmp_path: Path, task: str) -> None:
    async with seed_only() as (url, bodies), server(url, tmp_path) as house:
        thread = await created(house)
        target = ReviewTarget(kind="uncommittedChanges")
        match task:
            case "review":
                command: Any = StartReview(thread_id=thread.id, target=target)
            case "compact":
                command = CompactThread(thread_id=thread.id)
            case _:
                command = SteerTurn(thread_id=thread.id, content=(HELLO,))
        with pytest.raises(HarnessError):
            await house.execute(command)
        assert bodies == []


async def test_a_history_that_a_runner_cannot_take_is_refused_in_words(tmp_path: Path) -> None:
    async with seed_only() as (url, bodies), server(url, tmp_path, memory=tmp_path / "memory") as house:
        thread = await created(house)
        await ended(house, prompt(thread))
        fork = await house.execute(ForkThread(thread_id=thread.id))
        assert isinstance(fork, ThreadState)
        turn = await ended(house, prompt(fork))
        assert turn.error is not None
        assert "start a new thread" in turn.error.message
        assert len(bodies) == 1


async def test_what_a_schema_asks_is_asked_of_a_runner_of_the_specification(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with seed_only() as (url, bodies), server(url, tmp_path) as house:
        turn = await ended(house, prompt(await created(house), schema=schema))
    assert turn.status == "failed", "its answer is no JSON, twice"
    assert '"integer"' in bodies[0]["prompt"]


async def test_a_runner_that_never_asks_is_said_so(tmp_path: Path) -> None:
    async with seed_only() as (url, _), server(url, tmp_path) as house:
        thread = await created(house, approval_policy="unlessTrusted")
        heard = await changes(house, prompt(thread))
    assert ["never asks" in one.notice.message for one in heard[-1].after.warnings] == [True]


async def test_an_interrupt_here_ends_the_run_there(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with runner(model) as there, server(there.url, tmp_path) as house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await house.execute(prompt(thread))
        with anyio.fail_after(60):
            await model.hanging.wait()
        await house.execute(InterruptTurn(thread_id=thread.id))
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "interrupted"
        with anyio.fail_after(60):
            while model.open_streams:
                await anyio.sleep(0.01)  # until the runner has noticed


async def test_a_thread_with_a_model_of_this_machine_moves_to_the_runner(tmp_path: Path) -> None:
    here = ScriptedModel([say("Noted.")], [say("From here.")])
    there_model = ScriptedModel([say("It is 4711.")])

    def store() -> JsonlStore:
        return JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))

    async with engine(here, clock=SystemClock(), cwd=tmp_path, store=store(), policy="never") as local:
        thread = await created(local)
        await ended(local, prompt(thread, TextInput(text="My number is 4711")))
    async with runner(there_model) as there, server(there.url, tmp_path, store=store()) as house:
        with pytest.raises(InvalidCommand, match="runner"):
            await house.execute(ChangeSettings(thread_id=thread.id, overrides=Overrides(model=thread.settings.model)))
        turn = await ended(house, prompt(thread, TextInput(text="Which number?")))
        assert turn.status == "completed", turn.error
        state = await house.execute(ReadThread(thread_id=ThreadId(thread.id)))
        assert isinstance(state, ThreadState)
        assert state.settings.model == "runner/default"
        assert "runner/default" in state.warnings[-1].notice.message
    assert spoken(there_model) == ["My number is 4711", "Noted.", "Which number?"]
    assert len(here.requests) == 1


def test_an_announcement_is_read_member_by_member() -> None:
    said = {"can": ["images"], "models": [{"id": "a/b"}, 7], "approvalPolicy": "never", "new": 1}
    read = read_announcement(msgspec.json.encode(said))
    assert (read.can, read.models, read.approval_policy) == (frozenset({"images"}), (), "never")
    assert read_announcement(b"\xff") == NOTHING_ANNOUNCED
