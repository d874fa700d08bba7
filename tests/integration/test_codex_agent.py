"""Codex as the agent, against what a real `codex app-server` said. The live proof is in tests/clients."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from codex_tasks import run_other_tasks
from hames.agents.codex.agent import CUT_OFF, CodexAgent, CodexThread
from hames.agents.codex.history import told
from hames.agents.codex.items import changes, completed_item
from hames.agents.codex.models import CodexModels
from hames.agents.codex.requests import opening, sandbox, thread_settings
from hames.app import open_engine
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.commands import CreateThread, ForkThread, InterruptTurn, ResolveApproval, ReviewTarget
from hames.domain.errors import InvalidCommand, ProviderError, UnknownModel
from hames.domain.events import ApprovalRequested, ItemDelta, TurnEnded, UsageReported
from hames.domain.ids import CallId, ItemId, ThreadId, TurnId
from hames.domain.items import (
    AgentMessage,
    CommandExecution,
    FileInput,
    McpToolCall,
    Reasoning,
    TextInput,
    ToolResult,
    UserMessage,
)
from hames.domain.options import Settings, ThreadServer
from hames.domain.policy import Decision, ExternalSandbox
from hames.domain.state import Change, ThreadState, Turn
from hames.ports import Compact, Prompt, Review, Task
from hames.testing.fakes.turn import FakeTurn
from support import events, started

MESSAGE = UserMessage(id=ItemId("i"), step=0, content=(TextInput(text="hi"),))
PLAYER = Path(__file__).parent / "codex" / "player.py"


@asynccontextmanager
async def codex(tmp_path: Path, player: str = str(PLAYER), recordings: str = "") -> AsyncGenerator[Engine]:
    (tmp_path / "work").mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "HAMES_STATE": str(tmp_path / "state"),
        "HAMES_CODEX": player,
        "CODEX_PLAYER": str(tmp_path / "played"),
        **({"CODEX_RECORDINGS": str(PLAYER.parent / recordings)} if recordings else {}),
    }
    flags = {"cwd": str(tmp_path / "work"), "model": "codex/default", "sandbox": "dangerFullAccess"}
    async with open_engine(load({**flags, "approval_policy": "always"}, environment)) as engine:
        yield engine


async def turn(
    engine: Engine, thread_id: ThreadId, text: str = "go", *, decision: Decision = "once", interrupt: bool = False
) -> list[Change]:
    watcher = await engine.watch(thread_id)
    await started(engine, thread_id, text)
    heard: list[Change] = []
    with anyio.fail_after(60):
        while True:
            for change in await watcher.next():
                heard.append(change)
                event = change.record.event
                if isinstance(event, ApprovalRequested):
                    await engine.execute(ResolveApproval(approval_id=event.approval.id, decision=decision))
                if interrupt and isinstance(event, ItemDelta):
                    interrupt = False
                    await engine.execute(InterruptTurn(thread_id=thread_id))
                if isinstance(event, TurnEnded):
                    return heard


@pytest.mark.spec("flint/plan-codex-adapter")
async def test_codex_runs_the_turns_and_the_thread_is_ours(tmp_path: Path) -> None:
    async with codex(tmp_path) as engine:
        thread = await engine.execute(CreateThread())
        assert isinstance(thread, ThreadState)
        first = (await turn(engine, thread.id))[-1].after.turns[-1]
        assert first.status == "completed"
        assert [type(item) for item in first.items] == [UserMessage, Reasoning, AgentMessage]
        assert isinstance(first.items[2], AgentMessage)
        assert first.items[2].text == "tok tok tok "

        second = await turn(engine, thread.id)
        asked = next(e for e in events(second) if isinstance(e, ApprovalRequested))
        command = second[-1].after.turns[-1].items[1]
        assert isinstance(command, CommandExecution)
        assert (command.status, command.exit_code, command.output) == ("completed", 0, "hi\n")
        assert asked.approval.intent.command == command.command  # type: ignore[union-attr]
        told = "".join(e.text for e in events(second) if isinstance(e, ItemDelta) and e.item_id == command.id)
        assert told == command.output, "what Codex did not stream is told before the item completes"
        assert len([e for e in events(second) if isinstance(e, UsageReported)]) == 2

        third = (await turn(engine, thread.id, decision="reject"))[-1].after.turns[-1]
        assert third.items[1].status == "declined"

    async with codex(tmp_path) as engine:  # its threads are found again after a restart
        fourth = (await turn(engine, thread.id, interrupt=True))[-1].after.turns[-1]
        assert fourth.status == "interrupted"
        assert fourth.items[1].status == "interrupted"


async def forked(engine: Engine) -> None:
    """A thread, a fork of its first turn, and both go on."""
    thread = await engine.execute(CreateThread())
    assert isinstance(thread, ThreadState)
    first = (await turn(engine, thread.id, "The first thing"))[-1].after.turns[-1]
    await turn(engine, thread.id, "The second thing")
    fork = await engine.execute(ForkThread(thread_id=thread.id, last_turn_id=first.id))
    assert isinstance(fork, ThreadState)
    for thread_id, words in ((fork.id, "The other thing"), (thread.id, "The third thing")):
        ended = (await turn(engine, thread_id, words))[-1].after.turns[-1]
        assert ended.status == "completed", ended.error


async def test_a_fork_is_a_fork_of_codexs_thread_at_the_same_turn(tmp_path: Path) -> None:
    async with codex(tmp_path, recordings="fork") as engine:
        await forked(engine)  # the player answers only who names the right thread and turn


async def test_a_codex_that_ends_as_it_starts_is_started_again(tmp_path: Path) -> None:
    """Two that start at once in a new home get in each other's way."""
    stumbling = tmp_path / "codex"
    stumbling.write_text(f'#!/bin/sh\nmkdir "{tmp_path}/stumbled" && exit 1\nexec "{PLAYER}" "$@"\n')
    stumbling.chmod(0o755)
    async with codex(tmp_path, str(stumbling)) as engine:
        thread = await engine.execute(CreateThread())
        assert isinstance(thread, ThreadState)
        assert (await turn(engine, thread.id))[-1].after.turns[-1].status == "completed"
    assert (tmp_path / "stumbled").is_dir()


async def test_a_turn_that_others_ran_is_told_to_codex_before_its_own(tmp_path: Path) -> None:
    turns = [
        Turn(
            id=TurnId("t"),
            started_at_ms=0,
            status="completed",
            items=(
                UserMessage(id=ItemId("1"), step=0, content=(TextInput(text="Do it"),)),
                Reasoning(id=ItemId("2"), step=1, text="Hm."),
                CommandExecution(
                    id=ItemId("3"),
                    step=1,
                    call_id=CallId("c"),
                    command="make",
                    cwd="/w",
                    status="failed",
                    result=ToolResult(text="x" * 5000, failed=True),
                ),
                AgentMessage(id=ItemId("4"), step=2, text="It failed."),
            ),
        )
    ]
    said, did, answered = told(turns)
    assert said == {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it"}]}
    assert did["content"][0]["text"].startswith("[ran 'make' in /w; failed: xxxx")
    assert did["content"][0]["text"].endswith(" … (1000 more characters)]")
    assert answered["content"] == [{"type": "output_text", "text": "It failed."}]


async def test_codexs_list_of_models_is_kept_and_offered(tmp_path: Path) -> None:
    async with codex(tmp_path, recordings="matrix") as engine:
        thread = await engine.execute(CreateThread())
        assert isinstance(thread, ThreadState)
        await turn(engine, thread.id, "Say hello")
    kept = next(tmp_path.rglob("models/codex-*.json"))
    shelf = CodexModels(["codex"], models=kept, environment={})
    assert {"codex/default", "codex/gpt-5.5"} <= {card.id for card in shelf.cards()}
    efforts = {
        model: [choice.id for choice in selector.choices]
        for selector in shelf.selectors()
        if selector.id == "reasoning_effort"
        for model in selector.models
    }
    assert efforts["codex/gpt-5.5"] == ["default", "low", "medium", "high", "xhigh"]
    assert efforts["codex/gpt-6-luna"] == ["default", "low", "medium", "high", "xhigh", "max"]
    assert shelf.named("gpt-5.5").display_name == "Codex with GPT-5.5"
    assert shelf.named("of-tomorrow").id == "codex/of-tomorrow"


@pytest.mark.parametrize(
    ("program", "words"),
    [("/no/such/codex", "cannot start Codex"), ("/bin/true", "ended"), ("/bin/false", "ended")],
)
async def test_a_codex_that_does_not_work_fails_the_turn_with_a_sentence(
    tmp_path: Path, program: str, words: str
) -> None:
    async with codex(tmp_path, program) as engine:
        thread = await engine.execute(CreateThread())
        assert isinstance(thread, ThreadState)
        ended = (await turn(engine, thread.id))[-1].after.turns[-1]
    assert ended.status == "failed"
    assert ended.error is not None
    assert words in ended.error.message


async def test_without_codex_there_is_no_such_model(tmp_path: Path) -> None:
    options = load({"cwd": str(tmp_path), "model": "codex/default"}, {"HOME": str(tmp_path), "PATH": "/nowhere"})
    with pytest.raises(UnknownModel):
        async with open_engine(options):
            pass


def requests(task: Task | None = None, model: str = "codex/default", **options: str) -> list[tuple[str, Any]]:
    settings = Settings(model=model, cwd="/w", options=options)
    return list(opening(task or Prompt(message=MESSAGE), settings, "their-thread", "their-model"))


@pytest.mark.spec(
    "flint/config-codex-personality", "flint/config-codex-collaboration-mode", "flint/config-codex-reasoning-effort"
)
def test_what_codex_lets_people_choose_reaches_its_turn(tmp_path: Path) -> None:
    shelf = CodexModels(["codex"], models=tmp_path / "none", environment={})
    choices = {selector.id: [choice.id for choice in selector.choices] for selector in shelf.selectors()}
    assert choices["reasoning_effort"] == ["default", "low", "medium", "high"]
    assert choices["personality"] == ["default", "pragmatic", "friendly"]
    assert choices["collaboration_mode"] == ["default", "review", "plan"]

    chosen = {"personality": "friendly", "collaboration_mode": "plan", "reasoning_effort": "high"}
    ((method, asked),) = requests(model="codex/a-model", **chosen)
    assert (method, asked["model"], asked["personality"]) == ("turn/start", "a-model", "friendly")
    settings = {"model": "a-model", "reasoning_effort": "high"}
    assert asked["collaborationMode"] == {"mode": "plan", "settings": settings}


def test_instructions_servers_and_a_schema_of_a_client_are_codexs() -> None:
    server = ThreadServer(
        name="docs",
        command="docs-server",
        args=("-v",),
        env={"KEY": "secret"},
        start_seconds=5,
        enabled_tools=("find",),
    )
    web = ThreadServer(name="web", url="http://127.0.0.1:1/mcp", headers={"X-Key": "k"}, env_headers={"X-Env": "VAR"})
    settings = Settings(
        model="codex/default",
        cwd="/w",
        instructions="Be brief.",
        base_instructions="You are a poet.",
        mode_instructions="Plan first.",
        personality="friendly",
    )
    thread = thread_settings(settings, (server, web))
    assert (thread["developerInstructions"], thread["baseInstructions"]) == ("Be brief.", "You are a poet.")
    assert thread["config"]["mcp_servers"] == {
        "docs": {
            "command": "docs-server",
            "args": ["-v"],
            "env": {"KEY": "secret"},
            "startup_timeout_sec": 5,
            "required": True,
            "enabled_tools": ["find"],
        },
        "web": {
            "url": "http://127.0.0.1:1/mcp",
            "http_headers": {"X-Key": "k"},
            "env_http_headers": {"X-Env": "VAR"},
            "required": True,
        },
    }
    schema = {"type": "object"}
    ((_, asked),) = opening(Prompt(message=MESSAGE, output_schema=schema), settings, "their-thread", "their-model")
    assert (asked["outputSchema"], asked["personality"]) == (schema, "friendly")
    assert asked["collaborationMode"]["settings"]["developer_instructions"] == "Plan first."
    assert "config" not in asked


def test_a_server_whose_secrets_are_gone_is_refused_in_words() -> None:
    server = ThreadServer(name="docs", command="docs-server", env={"KEY": None})
    with pytest.raises(InvalidCommand, match="send them again"):
        thread_settings(Settings(model="codex/default", cwd="/w"), (server,))


def test_an_attached_file_is_text_for_codex() -> None:
    message = UserMessage(
        id=ItemId("i"), step=0, content=(TextInput(text="look"), FileInput(path="a.txt")), attachments=("a note",)
    )
    ((_, asked),) = requests(Prompt(message=message))
    assert [part["type"] for part in asked["input"]] == ["text", "text"]
    assert "a note" in asked["input"][1]["text"]


def test_what_was_chosen_once_can_be_taken_back() -> None:
    ((_, asked),) = requests(personality="default", collaboration_mode="default", reasoning_effort="default")
    assert "model" not in asked
    assert asked["personality"] == "none"
    settings = {"model": "their-model", "reasoning_effort": None}
    assert asked["collaborationMode"] == {"mode": "default", "settings": settings}


def test_a_review_is_asked_for_as_one() -> None:
    (first, settings), (second, asked) = requests(collaboration_mode="review", reasoning_effort="low")
    assert (first, second) == ("thread/settings/update", "review/start")
    assert settings["collaborationMode"]["settings"]["reasoning_effort"] == "low"
    assert asked == {"threadId": "their-thread", "target": {"type": "custom", "instructions": "hi"}}


@pytest.mark.parametrize(
    ("target", "theirs"),
    [
        (ReviewTarget(kind="uncommittedChanges"), {"type": "uncommittedChanges"}),
        (ReviewTarget(kind="baseBranch", text=" main "), {"type": "baseBranch", "branch": "main"}),
        (ReviewTarget(kind="commit", text="abc123"), {"type": "commit", "sha": "abc123"}),
        (ReviewTarget(kind="custom", text="the tests"), {"type": "custom", "instructions": "the tests"}),
    ],
)
def test_a_review_names_its_target_in_codexs_words_and_may_only_read(target: ReviewTarget, theirs: object) -> None:
    (first, settings), (second, asked) = requests(Review(target=target, message=MESSAGE))
    assert (first, settings["sandboxPolicy"]) == ("thread/settings/update", {"type": "readOnly"})
    assert (second, asked) == ("review/start", {"threadId": "their-thread", "target": theirs})


def test_a_turn_that_was_cut_off_is_a_new_prompt_that_says_so(tmp_path: Path) -> None:
    agent = CodexAgent(["codex"], memory=lambda: tmp_path, model_list=tmp_path / "models", environment={})
    thread, task = CodexThread(agent), Prompt(message=MESSAGE)
    cut_off = FakeTurn(ThreadState(id=ThreadId("ses_1"), settings=Settings(model="codex/default", cwd="/")), task)
    cut_off.continued = True
    assert thread.task(task, cut_off) is task, "Codex never heard of it"
    agent.threads.keep(cut_off.thread_id, "theirs", {cut_off.turn_id: "t"})
    asked = thread.task(task, cut_off)
    assert isinstance(asked, Prompt)
    assert asked.message.content == (TextInput(text=CUT_OFF), TextInput(text="hi"))
    with pytest.raises(ProviderError, match="cannot continue a review or a compaction"):
        thread.task(Compact(), cut_off)


def test_a_summary_is_asked_for_with_the_settings_of_the_thread() -> None:
    (first, settings), (second, asked) = requests(Compact())
    assert (first, settings["sandboxPolicy"]["type"]) == ("thread/settings/update", "workspaceWrite")
    assert (second, asked) == ("thread/compact/start", {"threadId": "their-thread"})


async def test_codex_summarises_reviews_and_is_steered(tmp_path: Path) -> None:
    async with codex(tmp_path, recordings="tasks") as engine:
        await run_other_tasks(engine)


@pytest.mark.parametrize(("network", "word"), [(False, "restricted"), (True, "enabled")])
def test_somebody_elses_walls_are_described_in_codexs_words(network: bool, word: str) -> None:
    assert sandbox(ExternalSandbox(network_access=network)) == {"type": "externalSandbox", "networkAccess": word}


def test_what_codex_tells_of_a_file_becomes_a_diff() -> None:
    told = [
        {"path": "/w/new.txt", "kind": {"type": "add"}, "diff": "a\nb\n"},
        {"path": "/w/cut.txt", "kind": {"type": "add"}, "diff": "a"},
        {"path": "/w/void.txt", "kind": {"type": "add"}, "diff": ""},
        {"path": "/w/old.txt", "kind": {"type": "delete"}, "diff": "a\n"},
        {"path": "/else/x", "kind": {"type": "update", "move_path": None}, "diff": "@@ -1 +1 @@\n-a\n+b\n"},
    ]
    assert [(one.kind, one.diff) for one in changes({"changes": told}, "/w")] == [
        ("add", "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n"),
        ("add", "--- /dev/null\n+++ b/cut.txt\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n"),
        ("add", "--- /dev/null\n+++ b/void.txt\n"),
        ("delete", "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
        ("modify", "--- a/else/x\n+++ b/else/x\n@@ -1 +1 @@\n-a\n+b\n"),
    ]


@pytest.mark.parametrize(
    ("told", "text", "structured"),
    [
        ({"result": {"content": [{"type": "text", "text": "3"}], "structuredContent": {"n": 3}}}, "3", {"n": 3}),
        ({"result": {"content": [], "structuredContent": {"n": 3}}}, '{"n":3}', {"n": 3}),
        ({"result": {"content": [{"type": "image", "data": "…"}]}}, "[image]", None),
        ({"result": None, "error": {"message": "it broke"}, "status": "failed"}, "it broke", None),
    ],
)
def test_what_an_mcp_tool_returned_is_read(told: dict[str, object], text: str, structured: object) -> None:
    item = McpToolCall(id=ItemId("i"), step=1, call_id=CallId("c"), server="s", tool="t")
    done, _, _ = completed_item({"status": "completed", **told}, item)
    assert isinstance(done, McpToolCall)
    assert done.result is not None
    assert (done.result.text, done.structured) == (text, structured)


def test_an_agent_is_chosen_by_a_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from argparse import ArgumentParser

    from hames.cli import flags
    from hames.domain.errors import Misconfigured

    parser = ArgumentParser()
    flags.add_shared(parser)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("HAMES_CODEX", raising=False)
    for name, words in (("codex", "not installed"), ("nobody", "there is: codex")):
        with pytest.raises(Misconfigured, match=words):
            flags.options(parser.parse_args(["--cwd", str(tmp_path), "--agent", name]))
    monkeypatch.setenv("HAMES_CODEX", str(PLAYER))
    assert flags.options(parser.parse_args(["--cwd", str(tmp_path), "--agent", "codex"])).model == "codex/default"
    words = ["--cwd", str(tmp_path), "--agent", "codex", "--model", "gpt-6"]
    assert flags.options(parser.parse_args(words)).model == "codex/gpt-6"
