"""The sandbox runner: an agent elsewhere, told here as if it ran here. And what happens when it does not."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from hypothesis import given

from hames.agents.runner.agent import RunnerAgent
from hames.agents.runner.events import EVENT_BYTES, EventParser
from hames.clock_and_ids import SystemClock
from hames.codecs.sse import EventTooLong
from hames.domain.errors import Misconfigured, UnknownModel
from hames.domain.events import Record
from hames.domain.items import ToolCall
from hames.domain.json import Json
from hames.protocols.runner import messages as m
from hames.protocols.runner.outbound import frame, project
from hames.providers.catalogue import Catalogue
from hames.server.listener import Address, RunningServer
from hames.server.runner import running as runner_running
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import ScriptedModel, call, fail, hang, say, think, usage
from hames.testing.generators.histories import changes, check_each_item_once, histories
from runner_turns import RUNNER_MODELS, STREAM, event, front, settled, stranger, telling
from server_support import SyncFollower, http
from support import BROKEN, ECHO, STUCK, created, engine, started, turn_end


@asynccontextmanager
async def runner(
    model: ScriptedModel, *, token: str | None = None, compacts: bool = True
) -> AsyncGenerator[RunningServer]:
    async with (
        engine(model, ECHO, BROKEN, STUCK, clock=SystemClock(), policy="never", compacts=compacts) as house,
        runner_running(house, Address(port=0), version="0", token=token) as its_runner,
    ):
        yield its_runner


async def submit(client: SyncFollower, prompt: str = "go") -> Json:
    """The state when the run is over."""
    before = len(client.state["messages"])
    await client.send({"type": "submit", "prompt": prompt})
    return await client.until(lambda state: settled(state) and len(state["messages"]) > before)


@pytest.mark.spec("sync/runner-sse")
async def test_a_run_elsewhere_looks_like_a_turn_here(tmp_path: Path) -> None:
    model = ScriptedModel(
        [think("Hm."), say("Let me see.", pieces=3), call("echo", text="x"), usage(input_tokens=5, output_tokens=2)],
        [say("Done."), usage(input_tokens=6, output_tokens=1)],
    )
    async with runner(model) as there, front(there.url, tmp_path) as client:
        state = await submit(client, "Hi")
        prompt, looking, done = state["messages"]
        assert (prompt["role"], prompt["content"], prompt["status"]) == ("user", "Hi", "complete")
        assert (looking["reasoning"], looking["content"]) == ("Hm.", "Let me see.")
        [tool] = looking["toolCalls"]
        assert (tool["name"], tool["status"], tool["input"]) == ("echo", "complete", {"text": "x"})
        assert tool["output"] == "{'text': 'x'}"
        assert (done["content"], done["status"], done["stopReason"]) == ("Done.", "complete", "end")
        assert (state["status"], state["error"]) == ("idle", "")
        assert (state["usage"]["inputTokens"], state["usage"]["outputTokens"]) == (11, 3)
        appended = [o for heard in client.heard[1:] for o in heard["operations"] if o["type"] == "append-text"]
        assert appended, "it streamed"


@pytest.mark.spec(
    "sync/runner-sse",
    "sync/runner-run-started",
    "sync/runner-assistant-delta",
    "sync/runner-tool-started",
    "sync/runner-run-completed",
)
async def test_each_event_of_a_runner_is_told_as_it_comes(tmp_path: Path) -> None:
    turns: list[anyio.Event] = []

    async def serve(stream: anyio.abc.SocketStream) -> None:
        said = [
            event("run.started", prompt="go"),
            event("assistant.delta", text="Look"),
            event("assistant.delta", text="ing"),
            event("tool.started", id="t1", name="grep"),
            event("run.completed"),
        ]

        async def paced() -> None:
            turns.extend(anyio.Event() for _ in said)
            for chunk, turn in zip(said, turns, strict=True):
                await turn.wait()
                await stream.send(chunk)

        await telling(STREAM, then=paced)(stream)

    def shape(state: Json) -> tuple[str, list[tuple[str, str, str, list[tuple[str, str]]]]]:
        return state["status"], [
            (one["role"], one["content"], one["status"], [(tool["name"], tool["status"]) for tool in one["toolCalls"]])
            for one in state["messages"]
        ]

    prompt = ("user", "go", "complete", [])
    async with stranger(serve) as url, front(url, tmp_path) as client:
        await client.send({"type": "submit", "prompt": "go"})
        for number, (status, answer) in enumerate(
            [
                ("running", ("assistant", "", "pending", [])),
                ("running", ("assistant", "Look", "streaming", [])),
                ("running", ("assistant", "Looking", "streaming", [])),
                ("running", ("assistant", "Looking", "streaming", [("grep", "running")])),
                ("idle", ("assistant", "Looking", "complete", [("grep", "complete")])),
            ]
        ):
            with anyio.fail_after(60):
                while len(turns) <= number:
                    await anyio.sleep(0.01)  # until the request has come
                turns[number].set()
                await client.until(lambda state, now=(status, [prompt, answer]): shape(state) == now)


async def test_runs_of_one_thread_share_a_conversation(tmp_path: Path) -> None:
    model = ScriptedModel([say("One.")], [say("Two.")])
    async with runner(model) as there, front(there.url, tmp_path) as client:
        await submit(client, "first")
        await submit(client, "second")
        spoken = [block.text for message in model.requests[1].messages for block in message.blocks]
        assert spoken == ["first", "One.", "second"]


async def test_a_tool_that_failed_elsewhere_failed_here(tmp_path: Path) -> None:
    model = ScriptedModel([call("broken")], [say("Hm.")])
    async with runner(model) as there, front(there.url, tmp_path) as client:
        state = await submit(client)
        [tool] = state["messages"][1]["toolCalls"]
        assert (tool["status"], tool["outcome"]) == ("error", "failed")
        assert "it broke" in tool["output"]


@pytest.mark.parametrize(
    ("name", "members", "status"),
    [
        ("tool.completed", {"result": "fine"}, "completed"),
        ("tool.failed", {"error": {"message": "it broke"}}, "failed"),
        ("tool.failed", {"error": "no", "outcome": "declined"}, "declined"),
        ("tool.failed", {"error": "late", "outcome": "skipped"}, "skipped"),
    ],
)
async def test_what_became_of_a_tool_is_what_our_model_reads_later(
    tmp_path: Path, name: str, members: dict[str, Json], status: str
) -> None:
    said = [event("tool.started", id="t", name="grep"), event(name, id="t", **members), event("run.completed")]
    models = Catalogue({}, clock=SystemClock(), default="runner/default", sources=[RUNNER_MODELS])
    async with stranger(telling(STREAM, *said)) as url:
        agent = RunnerAgent(url, stall_s=5.0)
        async with engine(models, clock=SystemClock(), cwd=tmp_path, agents={agent.name: agent}) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            _, tool = (await turn_end(watcher))[-1].after.turns[-1].items
        await agent.aclose()
    assert isinstance(tool, ToolCall)
    assert tool.result is not None
    assert (tool.status, tool.result.failed) == (status, status != "completed")


@pytest.mark.spec("sync/runner-run-error")
async def test_a_run_that_fails_there_fails_here(tmp_path: Path) -> None:
    async with runner(ScriptedModel([say("Half"), fail("no credit")])) as there, front(there.url, tmp_path) as client:
        state = await submit(client)
        assert (state["status"], state["error"]) == ("error", "the runner failed: no credit")
        assert state["messages"][1]["content"] == "Half"
        assert state["messages"][1]["status"] == "error"


async def test_a_cancel_here_stops_the_run_there(tmp_path: Path) -> None:
    model = ScriptedModel([say("Half", cut=True), hang()], [say("Next.")])
    async with runner(model) as there, front(there.url, tmp_path) as client:
        await client.send({"type": "submit", "prompt": "go"})
        with anyio.fail_after(60):
            await model.hanging.wait()
        await client.until(lambda state: len(state["messages"]) > 1 and state["messages"][1]["content"] == "Half")
        await client.send({"type": "cancel"})
        state = await client.until(settled)
        assert (state["status"], state["messages"][1]["stopReason"]) == ("idle", "cancelled")
        with anyio.fail_after(60):
            while model.open_streams:
                await anyio.sleep(0.01)  # until the runner has noticed
        state = await submit(client, "again")
        assert state["messages"][-1]["content"] == "Next."


async def test_a_runner_of_the_specification_alone_is_understood(tmp_path: Path) -> None:
    """It knows no tool.completed, and sends what we never heard of."""
    said = [
        event("run.started", prompt="go"),
        event("assistant.delta", delta="Looking"),
        event("tool.started", id="t1", name="grep"),
        event("something.new", x=1),
        b": a comment\n\n",
        event("tool.started", id="t2", name="read", input={"path": "a"}),
        event("tool.started", name="glob"),
        event("tool.started", name="list"),
        event("assistant.delta", text="Found."),
        event("tool.started", id="t1", name="grep"),
        event("run.completed"),
    ]
    whole = b"".join(said)
    pieces = [whole[start : start + 7] for start in range(0, len(whole), 7)]
    async with stranger(telling(STREAM, *pieces)) as url, front(url, tmp_path) as client:
        state = await submit(client)
        first, second = state["messages"][1:]
        assert (first["content"], second["content"]) == ("Looking", "Found.")
        assert [(tool["name"], tool["status"]) for tool in first["toolCalls"]] == [
            ("grep", "complete"),
            ("read", "complete"),
            ("glob", "complete"),
            ("list", "complete"),
        ]
        assert [tool["name"] for tool in second["toolCalls"]] == ["grep"]
        assert state["status"] == "idle"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ([STREAM, event("assistant.delta", text="Half")], "closed the connection before the run ended"),
        ([STREAM], "closed the connection before the run ended"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf"], "was lost"),
        ([b"HTTP/1.1 503 Down\r\nContent-Length: 4\r\n\r\ndown"], "refused the run (503): down"),
        (
            [b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"],
            "refused the run (302)",
        ),
        ([b"nonsense\r\n\r\n"], "was lost"),
        ([STREAM, b"data: " + b"x" * (EVENT_BYTES + 1)], "was lost"),
        ([STREAM, event("run.error", message="sorry")], "the runner failed: sorry"),
        ([STREAM, event("run.error", error={"message": "sorry"})], "the runner failed: sorry"),
        ([STREAM, event("run.error")], "no reason given"),
    ],
)
async def test_a_runner_that_dies_ends_the_run_with_a_clear_error(
    tmp_path: Path, said: list[bytes], error: str
) -> None:
    async with stranger(telling(*said)) as url, front(url, tmp_path) as client:
        state = await submit(client)
        assert state["status"] == "error"
        assert error in state["error"]
        assert all(message["status"] in ("complete", "error") for message in state["messages"])


async def test_a_runner_that_stalls_ends_the_run_with_a_clear_error(tmp_path: Path) -> None:
    said = [STREAM, event("assistant.delta", text="Half"), event("tool.started", id="t", name="shell", command="ls")]
    async with (
        stranger(telling(*said, then=anyio.sleep_forever)) as url,
        front(url, tmp_path, stall_s=0.3) as client,
    ):
        state = await submit(client)
        assert (state["status"], state["error"]) == (
            "error",
            "the runner sent nothing for 0.3 s, so the run was stopped",
        )
        assert [(tool["status"], tool["outcome"]) for tool in state["messages"][1]["toolCalls"]] == [
            ("error", "interrupted")
        ]


async def test_a_runner_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    async with front("http://127.0.0.1:9", tmp_path) as client:
        state = await submit(client)
        assert "cannot be reached" in state["error"]


async def test_a_runner_asks_for_its_token(tmp_path: Path) -> None:
    token = "a-token-that-nobody-guesses"
    directory = tmp_path / "again"
    directory.mkdir()
    async with runner(ScriptedModel([say("Hi.")]), token=token) as there:
        async with front(there.url, tmp_path) as client:
            assert "refused the run (401)" in (await submit(client))["error"]
        async with front(there.url, directory, token=token) as client:
            assert (await submit(client))["messages"][1]["content"] == "Hi."


async def test_a_runner_refuses_strangers_pages_and_a_second_run_at_once(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with runner(model) as there, http(there) as client:
        body = {"prompt": "go", "thread": "t"}
        assert (await client.post("/runs", json=body, headers={"origin": "https://evil.example"})).status_code == 403
        assert (await client.post("/runs", content=b"{}", headers={"content-type": "text/plain"})).status_code == 415
        assert (await client.post("/runs", json={"prompt": " "})).status_code == 400
        async with client.stream("POST", "/runs", json=body) as first:
            assert first.status_code == 200
            with anyio.fail_after(60):
                await model.hanging.wait()
            assert (await client.post("/runs", json=body)).status_code == 409


async def test_a_runner_that_stops_tells_its_runs(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with runner(model) as there, http(there) as client:
        async with client.stream("POST", "/runs", json={"prompt": "go"}) as run:
            with anyio.fail_after(60):
                await model.hanging.wait()
                there.stop()
                told = await run.aread()
        assert b"event: run.started\n" in told
        assert told.rstrip().endswith(b'data: {"message":"the server is restarting","info":"Other"}')


async def test_a_conversation_is_found_again_after_a_restart(tmp_path: Path) -> None:
    seen: list[int] = []
    for words in ("One.", "Two."):
        model = ScriptedModel([say(words, pieces=1)])
        store = JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))
        async with (
            engine(model, ECHO, clock=SystemClock(), policy="never", store=store, cwd=tmp_path) as house,
            runner_running(house, Address(port=0), version="0") as there,
            http(there) as client,
        ):
            answer = await client.post("/runs", json={"prompt": "hi", "thread": "ses_front"})
            assert words in answer.text
            seen.append(len(model.requests[0].messages))
    assert seen == [1, 3]


@given(histories())
def test_a_runner_can_tell_every_history_each_tool_once(history: list[Record]) -> None:
    check_each_item_once(
        history,
        project,
        started=lambda told: [told.id] if isinstance(told, m.ToolStarted) else [],
        completed=lambda told: [told.id] if isinstance(told, m.ToolCompleted | m.ToolFailed) else [],
        shown=lambda item: type(item).__name__ not in ("UserMessage", "AgentMessage", "Reasoning"),
    )


@given(histories())
def test_what_a_runner_says_is_read_as_it_was_said(history: list[Record]) -> None:
    said = [told for change in changes(history) for told in project(change)]
    heard = list(EventParser().feed(b"".join(map(frame, said))))
    assert [name for name, _ in heard] == [m.NAMES[type(told)] for told in said]
    texts = [told.text for told in said if isinstance(told, m.AssistantDelta | m.ReasoningDelta | m.ToolOutput)]
    assert [told.text for name, told in heard if name.endswith(("delta", "output"))] == texts


def test_members_of_the_wrong_type_are_missing_and_the_rest_counts() -> None:
    stream = event("tool.completed", id="t", result={"a": 1}, exitCode="zero", durationMs=5, changes="none")
    [(_, told)] = EventParser().feed(stream)
    assert (told.id, told.exit_code, told.duration_ms, told.changes) == ("t", None, 5, ())
    assert list(EventParser().feed(b"data: [1]\n\ndata: {\n\ndata: \xff\n\nid: 1\n\n")) == []
    [(name, _)] = EventParser().feed(b'data: {"type": "run.completed"}\r\n\r\n')
    assert name == "run.completed"


def test_an_event_that_never_ends_is_given_up() -> None:
    parser = EventParser()
    with pytest.raises(EventTooLong):
        for _ in range(10):
            list(parser.feed(b"x" * (EVENT_BYTES // 4)))


def test_the_runners_model_is_one_that_nobody_can_ask() -> None:
    shelf = RUNNER_MODELS
    [card] = shelf.cards()
    assert card.id == "runner/default"
    with pytest.raises(Misconfigured):
        shelf.provider(card)
    with pytest.raises(UnknownModel):
        shelf.named("other")
