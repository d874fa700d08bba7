"""What Codex's clients send with `thread/start` and `turn/start` arrives somewhere, or is refused in words."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from codex_members import ELSEWHERE, THREAD_START, TURN_START, Reaches, Refused
from flint_support import SELECTORS, Talk, talking
from hames.core.engine import Engine
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.state import ThreadState
from hames.testing.fakes.model import OneModel, ScriptedModel, say
from support import engine

TEXT = [{"type": "text", "text": "go"}]


@asynccontextmanager
async def client(model: ScriptedModel) -> AsyncGenerator[tuple[Engine, Talk]]:
    models = OneModel(model, selectors=SELECTORS)
    async with engine(models) as the_engine, talking(the_engine, "codex_client") as talk:
        yield the_engine, talk


def the_thread(the_engine: Engine) -> ThreadState:
    (state,) = [loaded.thread.state for loaded in the_engine._threads.loaded.values()]
    return state


def rows(table: dict[str, Any], kind: Any) -> list[Any]:
    return [pytest.param(name, row, id=name) for name, row in table.items() if isinstance(row, kind)]


@pytest.mark.parametrize(("member", "row"), rows(THREAD_START, Reaches))
async def test_a_member_of_thread_start_reaches_the_thread(member: str, row: Reaches) -> None:
    async with client(ScriptedModel()) as (the_engine, talk):
        await talk.call("thread/start", **row.beside, **{member: row.value})
        assert row.find(the_thread(the_engine)) == row.found


@pytest.mark.parametrize(("member", "row"), rows(TURN_START, Reaches))
async def test_a_member_of_turn_start_reaches_the_turn(member: str, row: Reaches) -> None:
    async with client(ScriptedModel([say("Done.")])) as (the_engine, talk):
        params = {"threadId": await talk.start(), "input": TEXT, **row.beside}
        await talk.call("turn/start", **params if member == "threadId" else {**params, member: row.value})
        await talk.until("turn/completed")
        assert row.find(the_thread(the_engine)) == row.found


@pytest.mark.parametrize(("member", "row"), rows(THREAD_START, Refused))
async def test_a_member_of_thread_start_that_nothing_can_be_done_with_is_refused(member: str, row: Refused) -> None:
    async with client(ScriptedModel()) as (the_engine, talk):
        answer = await talk.answer("thread/start", **{member: row.value})
        assert answer["error"]["message"].startswith(f"{member}: ")
        assert row.sentence in answer["error"]["message"]
        assert not the_engine._threads.loaded
        for harmless in (None, *row.harmless):
            await talk.call("thread/start", **{member: harmless})


@pytest.mark.parametrize(("member", "row"), rows(TURN_START, Refused))
async def test_a_member_of_turn_start_that_nothing_can_be_done_with_is_refused(member: str, row: Refused) -> None:
    values = (None, *row.harmless)
    async with client(ScriptedModel(*([say("Done.")] for _ in values))) as (the_engine, talk):
        thread_id = await talk.start()
        answer = await talk.answer("turn/start", threadId=thread_id, input=TEXT, **{member: row.value})
        assert answer["error"]["message"].startswith(f"{member}: ")
        assert row.sentence in answer["error"]["message"]
        assert the_thread(the_engine).turns == ()
        for harmless in values:
            await talk.prompt(thread_id, **{member: harmless})


def test_every_row_says_where_the_member_goes() -> None:
    for table in (THREAD_START, TURN_START):
        assert all(isinstance(row, Reaches | Refused) or row == ELSEWHERE for row in table.values())


@pytest.mark.parametrize(
    ("method", "params", "sentence"),
    [
        ("thread/start", {"modelProvider": "openai"}, "modelProvider: 'scripted/test' is not a model of 'openai'"),
        ("thread/start", {"modelProvider": "openai", "model": "scripted/test"}, "is not a model of 'openai'"),
        ("thread/start", {"model": "model-of-nobody"}, "no model 'model-of-nobody'"),
        ("thread/start", {"runtimeWorkspaceRoots": ["tmp"], "sandbox": "workspace-write"}, "must be absolute paths"),
        ("thread/start", {"permissions": ":workspace", "sandbox": "read-only"}, "cannot be combined with sandbox"),
        ("thread/resume", {"threadId": "t", "history": []}, "history: is not supported"),
        ("thread/resume", {"threadId": "t", "path": "/x"}, "path: is not supported"),
        ("thread/fork", {"threadId": "t", "beforeTurnId": "t1"}, "name the last turn to keep with lastTurnId"),
        ("thread/fork", {"threadId": "t", "attachToSource": True}, "forks cannot be attached"),
        ("turn/start", {"sandboxPolicy": {"type": "readOnly", "networkAccess": True}}, "has no network here"),
        ("turn/start", {"sandboxPolicy": {"type": "workspaceWrite", "excludeSlashTmp": True}}, "a /tmp of their own"),
        ("turn/start", {"collaborationMode": {"mode": "swarm", "settings": {}}}, "there is no mode 'swarm'"),
        ("turn/start", {"summary": "long"}, "summary: "),
        ("turn/start", {"effort": 3}, "effort: "),
        ("turn/start", {"input": [{"type": "image", "url": "data:image/x", "detail": "high"}]}, "only 'auto'"),
        ("turn/start", {"input": [{"type": "audio", "url": "data:x"}]}, "input[0]"),
        ("turn/start", {"input": [{"type": "image", "fileId": "f1"}]}, "input[0]"),
    ],
)
async def test_what_makes_no_sense_here_is_refused_with_a_sentence(
    method: str, params: dict[str, Any], sentence: str
) -> None:
    async with client(ScriptedModel()) as (_, talk):
        also = {"threadId": await talk.start(), "input": TEXT} if method == "turn/start" else {}
        answer = await talk.answer(method, **{**also, **params})
        assert sentence in answer["error"]["message"]


@pytest.mark.parametrize(
    ("sandbox", "found"),
    [
        ("workspace-write", WorkspaceWrite(writable_roots=("/tmp",))),
        ("read-only", ReadOnly()),
        ("danger-full-access", DangerFullAccess()),
    ],
)
async def test_workspace_roots_extend_the_sandbox_that_the_thread_has(sandbox: str, found: SandboxPolicy) -> None:
    """Codex's terminal names them with a side conversation, and neither a directory nor a sandbox beside them."""
    async with client(ScriptedModel()) as (the_engine, talk):
        thread_id = await talk.start(sandbox=sandbox)
        thread = the_thread(the_engine)
        cwd = thread.settings.cwd
        forked = await talk.call("thread/fork", threadId=thread_id, runtimeWorkspaceRoots=[cwd, "/tmp"], ephemeral=True)
        answer = await talk.call("thread/fork", threadId=thread_id, runtimeWorkspaceRoots=[cwd], ephemeral=True)
        await talk.call("thread/settings/update", threadId=thread_id, runtimeWorkspaceRoots=[cwd, "/tmp"])
        assert the_engine._threads.loaded[thread.id].thread.state.settings.sandbox == found
    assert forked["sandbox"].get("writableRoots", []) == list(getattr(found, "writable_roots", ()))
    assert answer["sandbox"].get("writableRoots", []) == []


async def test_an_option_that_the_model_does_not_have_is_reported_once() -> None:
    async with client(ScriptedModel([say("One.")], [say("Two.")])) as (_, talk):
        thread_id = await talk.start()
        for _ in range(2):
            await talk.prompt(thread_id, effort="enormous")
        (warning,) = talk.params("warning")
    assert warning == {
        "threadId": thread_id,
        "message": "the model does not offer 'enormous' as reasoning_effort; its default is used",
    }


async def test_marks_on_the_text_come_back_with_it() -> None:
    marks = [{"byteRange": {"start": 0, "end": 2}, "placeholder": "@file"}]
    async with client(ScriptedModel([say("Done.")])) as (_, talk):
        thread_id = await talk.start()
        await talk.call(
            "turn/start", threadId=thread_id, input=[{"type": "text", "text": "go", "text_elements": marks}]
        )
        await talk.until("turn/completed")
        read = await talk.call("thread/read", threadId=thread_id, includeTurns=True)
    assert read["thread"]["turns"][0]["items"][0]["content"] == [{"type": "text", "text": "go", "text_elements": marks}]


async def test_a_page_of_turns_comes_with_a_resumed_thread_if_it_is_asked_for() -> None:
    async with client(ScriptedModel([say("One.")], [say("Two.")])) as (_, talk):
        thread_id = await talk.start()
        turns = [(await talk.prompt(thread_id))["turn"]["id"] for _ in range(2)]
        opened = await talk.call("thread/resume", threadId=thread_id, excludeTurns=True, initialTurnsPage={"limit": 1})
    assert opened["thread"]["turns"] == []
    assert [turn["id"] for turn in opened["initialTurnsPage"]["data"]] == [turns[1]]
