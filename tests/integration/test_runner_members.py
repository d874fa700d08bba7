"""What travels between a server and its runner beyond the specification; and what a runner that knows only the
specification is never asked."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from test_server_runner import runner

from hames.app import open_engine
from hames.clock_and_ids import SystemClock
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.commands import (
    CompactThread,
    ForkThread,
    ListThreads,
    ReadThread,
    ReviewTarget,
    StartReview,
    SteerTurn,
    ThreadPage,
)
from hames.domain.errors import InvalidCommand
from hames.domain.events import UsageReported
from hames.domain.items import (
    AgentMessage,
    Compaction,
    FileInput,
    McpToolCall,
    Plan,
    Reasoning,
    TextInput,
    UserMessage,
    WebSearch,
)
from hames.domain.options import Settings, ThreadServer
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.request import PictureBlock, ReasoningEnded, SummaryDelta, TextBlock
from hames.domain.state import ThreadState
from hames.protocols.runner.inbound import allowed_sandbox
from hames.server.listener import Address
from hames.server.runner import running as runner_running
from hames.store.memory import MemoryStore
from hames.testing.fakes.model import ScriptedModel, call, fail, notice, say, search, tell, usage
from hames.tools.plan import PlanTool
from runner_support import HELLO, IMAGE, changes, ended, prompt, seed_only, server, spoken
from server_support import http
from support import ECHO, created, engine, turn_end

SERVER = Path(__file__).parent / "mcp_server.py"


async def test_an_image_reaches_the_runners_model(tmp_path: Path) -> None:
    model = ScriptedModel([say("A dot.")])
    (tmp_path / "note.txt").write_text("a note")
    async with runner(model) as there, server(there.url, tmp_path) as house:
        thread = await created(house)
        turn = await ended(house, prompt(thread, HELLO, IMAGE, FileInput(path="note.txt")))
    assert turn.status == "completed", turn.error
    blocks = model.requests[0].messages[0].blocks
    assert [type(block) for block in blocks] == [TextBlock, PictureBlock, TextBlock]
    assert "a note" in blocks[2].text


async def test_an_attached_file_reaches_a_runner_of_the_specification(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a note")
    async with seed_only() as (url, bodies), server(url, tmp_path) as house:
        thread = await created(house)
        assert (await ended(house, prompt(thread, HELLO, FileInput(path="note.txt")))).status == "completed"
    assert "a note" in bodies[0]["prompt"]


async def test_a_fork_keeps_its_history_at_the_runner(tmp_path: Path) -> None:
    model = ScriptedModel([say("Noted.")], [say("Second.")], [say("It is 4711.")], [say("Again.")])
    async with runner(model) as there, server(there.url, tmp_path) as house:
        thread = await created(house)
        first = await ended(house, prompt(thread, TextInput(text="My number is 4711"), IMAGE))
        await ended(house, prompt(thread, TextInput(text="Something else")))
        fork = await house.execute(ForkThread(thread_id=thread.id, last_turn_id=first.id))
        assert isinstance(fork, ThreadState)
        await ended(house, prompt(fork, TextInput(text="Which number?")))
        assert spoken(model) == ["My number is 4711", "Noted.", "Which number?"]
        assert isinstance(model.requests[-1].messages[0].blocks[1], PictureBlock)
        await ended(house, prompt(fork, TextInput(text="Really?")))
        asked = ["My number is 4711", "Noted.", "Which number?", "It is 4711.", "Really?"]
        assert spoken(model) == asked, "it is told once"


async def test_a_long_history_fits_into_a_run(tmp_path: Path) -> None:
    model = ScriptedModel([say("Noted.")], [say("Yes.")])
    async with runner(model, compacts=False) as there, server(there.url, tmp_path) as house:
        thread = await created(house)
        await ended(house, prompt(thread, TextInput(text="x" * (3 << 20))))
        fork = await house.execute(ForkThread(thread_id=thread.id))
        assert isinstance(fork, ThreadState)
        turn = await ended(house, prompt(fork))
    assert turn.status == "completed", turn.error
    assert [len(text) for text in spoken(model)] == [3 << 20, len("Noted."), len("Hello")]


async def test_a_runner_that_lost_the_thread_is_told_again(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    kept = MemoryStore()
    thread: ThreadState | None = None
    for words in ("One", "Two"):
        model = ScriptedModel([say(f"{words}, noted.")])
        async with runner(model) as there, server(there.url, tmp_path, store=kept) as house:
            thread = thread or await created(house)
            await ended(house, prompt(thread, TextInput(text=words)))
        seen.append(spoken(model))
    assert seen == [["One"], ["One", "One, noted.", "Two"]]


async def test_steering_reaches_the_running_turn_at_the_runner(tmp_path: Path) -> None:
    go_on = anyio.Event()

    async def wait(arguments: dict[str, object], tell_: Any) -> str:
        await tell_("waiting")
        await go_on.wait()
        return "waited"

    from support import PlainTool

    model = ScriptedModel([call("wait")], [say("Quickly done.")])
    async with (
        engine(model, PlainTool("wait", wait), clock=SystemClock(), policy="never") as elsewhere,
        runner_running(elsewhere, Address(port=0), version="0") as there,
        server(there.url, tmp_path) as house,
    ):
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await house.execute(prompt(thread))
        with anyio.fail_after(60):
            while not any("waiting" in repr(change.record.event) for change in await watcher.next()):
                pass
        await house.execute(SteerTurn(thread_id=thread.id, content=(TextInput(text="And be quick"),)))
        go_on.set()
        turn = (await turn_end(watcher))[-1].after.turns[-1]
    assert "And be quick" in spoken(model)
    said = [item for item in turn.items if isinstance(item, UserMessage)]
    assert len(said) == 2
    assert turn.status == "completed"


async def test_a_plan_at_the_runner_is_a_plan_here(tmp_path: Path) -> None:
    entries = [{"step": "Look", "status": "inProgress"}, {"step": "Fix", "status": "pending"}]
    model = ScriptedModel([call("plan", entries=entries, explanation="Two steps")], [say("Go.")])
    async with (
        engine(model, PlanTool(), clock=SystemClock(), policy="never") as elsewhere,
        runner_running(elsewhere, Address(port=0), version="0") as there,
        server(there.url, tmp_path) as house,
    ):
        turn = await ended(house, prompt(await created(house)))
    [plan] = [item for item in turn.items if isinstance(item, Plan)]
    assert [(entry.step, entry.status) for entry in plan.entries] == [("Look", "inProgress"), ("Fix", "pending")]
    assert plan.text.startswith("Two steps")
    assert plan.status == "completed"


async def test_reasoning_summaries_and_searches_arrive(tmp_path: Path) -> None:
    thought = [tell(SummaryDelta(block=0, text="In short.")), tell(ReasoningEnded(block=0, opaque="x"))]
    model = ScriptedModel([*thought, search("weather"), say("Sunny.")])
    async with runner(model) as there, server(there.url, tmp_path) as house:
        turn = await ended(house, prompt(await created(house)))
    [reasoning] = [item for item in turn.items if isinstance(item, Reasoning)]
    assert (reasoning.summary, reasoning.text) == ("In short.", "")
    [found] = [item for item in turn.items if isinstance(item, WebSearch)]
    assert (found.query, found.opaque) == ("weather", None)


async def test_the_kind_of_an_error_arrives(tmp_path: Path) -> None:
    model = ScriptedModel([fail("bad key", status=401, info="Unauthorized")])
    async with runner(model) as there, server(there.url, tmp_path) as house:
        turn = await ended(house, prompt(await created(house)))
    assert turn.error is not None
    assert (turn.error.info, turn.error.http_status) == ("Unauthorized", 401)
    assert "bad key" in turn.error.message


async def test_each_model_call_is_counted_once(tmp_path: Path) -> None:
    model = ScriptedModel(
        [call("echo"), usage(input_tokens=5, output_tokens=2)], [say("Done."), usage(input_tokens=9, output_tokens=1)]
    )
    async with runner(model) as there, server(there.url, tmp_path) as house:
        heard = await changes(house, prompt(await created(house)))
    counted = [one.record.event for one in heard if isinstance(one.record.event, UsageReported)]
    assert [(one.usage.input_tokens, one.usage.output_tokens) for one in counted] == [(5, 2), (9, 1)]
    assert heard[-1].after.last_usage.input_tokens == 9, "the context meter shows one call, not the sum"


async def test_a_notice_of_the_runner_arrives(tmp_path: Path) -> None:
    model = ScriptedModel([notice("rate_limit", "slow down"), say("Done.")])
    async with runner(model) as there, server(there.url, tmp_path) as house:
        heard = await changes(house, prompt(await created(house)))
    assert any("slow down" in repr(one.record.event) for one in heard)


async def test_a_review_and_a_summary_are_made_by_the_runner(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hi.")], [say("We said hello.")], [say("No mistakes.")], [say("Yes.")])
    async with runner(model) as there, server(there.url, tmp_path) as house:
        thread = await created(house)
        await ended(house, prompt(thread))
        compacted = await ended(house, CompactThread(thread_id=thread.id))
        assert compacted.kind == "compact"
        [item] = [item for item in compacted.items if isinstance(item, Compaction)]
        assert (item.status, item.summary) == ("completed", "We said hello.")
        target = ReviewTarget(kind="custom", text="Look for mistakes")
        review = await ended(house, StartReview(thread_id=thread.id, target=target))
        assert [item.text for item in review.items if isinstance(item, AgentMessage)] == ["No mistakes."]
        assert "reviewing" in model.requests[2].system
        await ended(house, prompt(thread))
        assert "Hello" in spoken(model)
        shown = spoken(model)
        assert sum("We said hello." in text for text in shown) == 1, "it goes on from the summary"
        assert sum("Hi." in text for text in shown) == 1, "the last answer is kept, and told once"


async def test_instructions_reach_the_runners_model_and_can_be_taken_back(tmp_path: Path) -> None:
    model = ScriptedModel([say("1")], [say("2")], [say("3")])
    async with runner(model) as there, server(there.url, tmp_path) as house:
        thread = await created(house, instructions="Answer in French.")
        await ended(house, prompt(thread))
        await ended(house, prompt(thread, instructions="", base_instructions="You are a poet."))
        await ended(house, prompt(thread, base_instructions=""))
    first, second, third = (request.system for request in model.requests)
    assert "Answer in French." in first
    assert "Answer in French." not in second
    assert "You are a poet." in second
    assert "You are a coding agent" not in second
    assert "You are a coding agent" in third
    assert "poet" not in third


async def test_an_answer_matches_the_schema_also_at_the_runner(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    model = ScriptedModel([say("seven")], [say('{"n": 7}')])
    async with runner(model) as there, server(there.url, tmp_path) as house:
        turn = await ended(house, prompt(await created(house), schema=schema))
    assert turn.status == "completed", turn.error
    said = [item.text for item in turn.items if isinstance(item, AgentMessage)]
    assert msgspec.json.decode(said[-1]) == {"n": 7}


@pytest.mark.needs("bwrap")
async def test_an_mcp_server_of_a_client_starts_at_the_runner(tmp_path: Path) -> None:
    proof = tmp_path / "environment"
    program = f"import os; open({str(proof)!r}, 'w').write(os.environ['KEY']); exec(open({str(SERVER)!r}).read())"
    server_ = ThreadServer(name="adder", command=sys.executable, args=("-c", program), env={"KEY": "a-secret"})
    script = tmp_path / "script.json"
    script.write_text(json.dumps([[{"call": "mcp__adder__add", "with": {"a": 40, "b": 2}}], "It is forty-two."]))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HAMES_STATE": str(tmp_path / "state")}
    (tmp_path / "there").mkdir()
    flags = {"cwd": str(tmp_path / "there"), "model": f"scripted/{script}", "approval_policy": "never"}
    async with (
        open_engine(load(flags, environment)) as elsewhere,
        runner_running(elsewhere, Address(port=0), version="0", starts_servers=True) as there,
        server(there.url, tmp_path) as house,
    ):
        thread = await created(house, mcp_servers=(server_,))
        watcher = await house.watch(thread.id)
        await house.execute(prompt(thread))
        with anyio.fail_after(60):
            while (await house.execute(ReadThread(thread_id=thread.id))).turns[-1].status == "running":  # type: ignore[union-attr]
                await watcher.next()
        state = await house.execute(ReadThread(thread_id=thread.id))
    assert isinstance(state, ThreadState)
    [called] = [item for item in state.turns[-1].items if isinstance(item, McpToolCall)]
    assert (called.server, called.tool, called.arguments) == ("adder", "add", {"a": 40, "b": 2})
    assert called.result is not None
    assert called.result.text == "42"
    assert proof.read_text() == "a-secret"


async def test_what_leads_out_of_the_runners_sandbox_is_refused_in_words(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (work, outside):
        folder.mkdir()
    (work / "link").symlink_to(outside)
    proof = ThreadServer(name="proof", command="/bin/sh", args=("-c", f"touch {outside}/started"))
    model = ScriptedModel()
    async with (
        engine(model, ECHO, clock=SystemClock(), policy="never", cwd=work) as elsewhere,
        runner_running(elsewhere, Address(port=0), version="0") as there,
        http(there) as client,  # pyright: ignore[reportArgumentType] - it has a URL
        server(there.url, work) as house,
    ):
        with pytest.raises(InvalidCommand, match="MCP servers"):
            await house.execute(prompt(await created(house, mcp_servers=(proof,))))
        for cwd in (str(outside), f"{work}/../outside", f"{work}/link", "/", "relative"):
            answer = await client.post("/runs", json={"prompt": "go", "cwd": cwd})
            assert answer.status_code == 400, cwd
        answer = await client.post("/runs", json={"prompt": "go", "mcpServers": [msgspec.to_builtins(proof)]})
        assert answer.status_code == 400
        assert "--allow-mcp-servers" in answer.text
    assert not model.requests
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("policy", ["never", "onRequest", "unlessTrusted", "always"])
async def test_settings_of_the_thread_are_those_of_the_run(tmp_path: Path, policy: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    model = ScriptedModel([say("1")], [say("2")])
    async with (
        engine(model, ECHO, clock=SystemClock(), policy="never", cwd=tmp_path) as elsewhere,
        runner_running(elsewhere, Address(port=0), version="0") as there,
        server(there.url, tmp_path) as house,
    ):
        thread = await created(house)
        chosen = {"approval_policy": policy, "sandbox": ReadOnly(), "agent": "plan", "cwd": str(other)}
        await ended(house, prompt(thread, **chosen))
        settings = await settings_there(elsewhere)
        assert (settings.approval_policy, settings.sandbox, settings.agent) == (policy, ReadOnly(), "plan")
        assert settings.cwd == str(other)
        back = {"approval_policy": "never", "sandbox": WorkspaceWrite(), "agent": "code", "cwd": str(tmp_path)}
        await ended(house, prompt(thread, **back))
        settings = await settings_there(elsewhere)
        assert (settings.approval_policy, settings.sandbox, settings.agent) == ("never", WorkspaceWrite(), "code")
        assert settings.cwd == str(tmp_path)


async def settings_there(elsewhere: Engine) -> Settings:
    page = await elsewhere.execute(ListThreads())
    assert isinstance(page, ThreadPage)
    state = await elsewhere.execute(ReadThread(thread_id=page.threads[0].id))
    assert isinstance(state, ThreadState)
    return state.settings


async def test_a_directory_that_the_runner_does_not_have_is_refused_in_words(tmp_path: Path) -> None:
    elsewhere, here = tmp_path / "there", tmp_path / "here"
    for folder in (elsewhere, here):
        folder.mkdir()
    model = ScriptedModel([say("1")])
    async with (
        engine(model, ECHO, clock=SystemClock(), policy="never", cwd=elsewhere) as other,
        runner_running(other, Address(port=0), version="0") as there,
        server(there.url, here) as house,
    ):
        gone = here / "gone"
        gone.mkdir()
        thread = await created(house, cwd=str(gone))
        gone.rmdir()
        turn = await ended(house, prompt(thread))
    assert turn.error is not None
    assert "gone" in turn.error.message
    assert not model.requests


FULL, EXTERNAL = DangerFullAccess(), ExternalSandbox()


WIDE = WorkspaceWrite(writable_roots=("/data",), network_access=True)


@pytest.mark.parametrize(
    ("wanted", "most", "given"),
    [
        (None, WIDE, WIDE),
        (ReadOnly(), FULL, ReadOnly()),
        (ReadOnly(), EXTERNAL, ReadOnly()),
        (WorkspaceWrite(), FULL, WorkspaceWrite()),
        (WorkspaceWrite(), WIDE, WorkspaceWrite()),
        (WorkspaceWrite(), EXTERNAL, EXTERNAL),
        (WIDE, WIDE, WIDE),
        (FULL, FULL, FULL),
        (EXTERNAL, FULL, EXTERNAL),
        (FULL, WorkspaceWrite(), None),
        (EXTERNAL, WorkspaceWrite(), None),
        (WIDE, WorkspaceWrite(), None),
        (WorkspaceWrite(network_access=True), WorkspaceWrite(), None),
        (WorkspaceWrite(), ReadOnly(), None),
        (FULL, ReadOnly(), None),
    ],
)
def test_a_runner_gives_as_much_freedom_as_it_has(
    wanted: SandboxPolicy | None, most: SandboxPolicy, given: SandboxPolicy | None
) -> None:
    if given is not None:
        assert allowed_sandbox(wanted, most) == given
        return
    with pytest.raises(InvalidCommand, match="this runner allows"):
        allowed_sandbox(wanted, most)
