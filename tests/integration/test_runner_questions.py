"""Questions that a run at a runner asks are asked here, and the answers go back."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from hames.agents.runner.agent import RunnerAgent
from hames.clock_and_ids import SystemClock
from hames.domain.approvals import Elicit
from hames.domain.commands import CompactThread, ReviewTarget, StartReview
from hames.domain.errors import InvalidCommand
from hames.domain.json import Json
from hames.ports import Job, Tell, Work
from hames.providers.catalogue import Catalogue
from hames.server.listener import Address, RunningServer
from hames.server.runner import running as runner_running
from hames.testing.fakes.model import ScriptedModel, Step, call, say
from runner_turns import RUNNER_MODELS, STREAM, event, front, settled, stranger, telling
from server_support import SyncFollower, following, http, running
from support import ASKING, PlainTool, created, echo, engine


@asynccontextmanager
async def asking(
    directory: Path, *replies: list[Step], tool: PlainTool = ASKING
) -> AsyncGenerator[tuple[SyncFollower, RunningServer]]:
    """A runner whose tool is asked about, and a client of the server in front of it, whose policy says so."""
    agent_models = Catalogue({}, clock=SystemClock(), default="runner/default", sources=[RUNNER_MODELS])
    async with (
        engine(ScriptedModel(*replies), tool, clock=SystemClock(), policy="never") as there,
        runner_running(there, Address(port=0), version="0") as its_runner,
    ):
        agent = RunnerAgent(its_runner.url, stall_s=5)
        async with (
            engine(
                agent_models, clock=SystemClock(), cwd=directory, policy="always", agents={agent.name: agent}
            ) as house,
            running(house, directory / "data") as server,
            following(server) as client,
        ):
            await client.hear()
            yield client, its_runner
        await agent.aclose()


@pytest.mark.parametrize(("decision", "status"), [("once", "complete"), ("reject", "error")])
async def test_what_a_run_asks_is_asked_here_and_the_answer_goes_back(
    tmp_path: Path, decision: str, status: str
) -> None:
    replies: list[list[Step]] = [[call("asking", text="x")], [say("Done.")]]
    async with asking(tmp_path, *replies) as (client, _):
        await client.send({"type": "submit", "prompt": "go"})
        state = await client.until(lambda state: bool(state["approvals"]))
        [approval] = state["approvals"]
        assert "asking" in msgspec.json.encode(approval).decode()
        await client.send({"type": "approve", "id": approval["id"], "decision": decision})
        state = await client.until(settled)
        [tool] = state["messages"][1]["toolCalls"]
        assert (tool["status"], state["messages"][-1]["content"]) == (status, "Done.")
        assert not state["approvals"]


async def test_a_runner_that_stops_while_a_person_thinks_ends_the_run(tmp_path: Path) -> None:
    async with asking(tmp_path, [call("asking", text="x")]) as (client, its_runner):
        await client.send({"type": "submit", "prompt": "go"})
        await client.until(lambda state: bool(state["approvals"]))
        its_runner.stop()
        state = await client.until(settled)
        assert state["status"] == "error"
        assert "runner" in state["error"]
        assert not state["approvals"]


async def test_the_runners_own_policy_is_the_last_word(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Done.")])
    async with (
        engine(model, ASKING, clock=SystemClock(), policy="never") as house,
        runner_running(house, Address(port=0), version="0", asks=False) as there,
        http(there) as client,  # pyright: ignore[reportArgumentType] - it has a URL
    ):
        told = await client.post("/runs", json={"prompt": "go", "approvalPolicy": "always"})
        assert b"tool.completed" in told.content
        assert b"approval.requested" not in told.content


async def test_a_word_in_between_is_refused_where_nobody_would_hear_it(tmp_path: Path) -> None:
    said = [STREAM, event("run.started", prompt="go"), event("assistant.delta", text="Half")]
    async with (
        stranger(telling(*said, then=anyio.sleep_forever)) as url,
        front(url, tmp_path) as client,
    ):
        await client.send({"type": "submit", "prompt": "go"})
        await client.until(lambda state: len(state["messages"]) > 1 and state["messages"][1]["content"] == "Half")
        await client.send({"type": "steer", "prompt": "psst"})
        while not client.errors:
            await client.hear()
        assert "queue" in client.errors[0]["message"]
        await client.send({"type": "cancel"})
        assert len((await client.until(settled))["messages"]) == 2


@pytest.mark.parametrize("task", ["review", "compact"])
async def test_a_runner_is_asked_for_prompts_alone(tmp_path: Path, task: str) -> None:
    agent = RunnerAgent("http://127.0.0.1:1")
    models = Catalogue({}, clock=SystemClock(), default="runner/default", sources=[RUNNER_MODELS])
    async with engine(models, cwd=tmp_path, agents={agent.name: agent}) as house:
        thread = await created(house)
        target = ReviewTarget(kind="uncommittedChanges")
        review, compact = StartReview(thread_id=thread.id, target=target), CompactThread(thread_id=thread.id)
        with pytest.raises(InvalidCommand, match="the agent of this thread"):
            await house.execute(review if task == "review" else compact)


class Curious(PlainTool):
    """A tool that asks for a name while it runs."""

    async def prepare(self, job: Job) -> Work:
        asking_for = Elicit(
            server="names", message="Who?", schema={"type": "object", "properties": {"name": {"type": "string"}}}
        )

        async def run(arguments: Json, tell: Tell) -> str:
            assert job.ask is not None
            answer = await job.ask(asking_for)
            return f"{answer.decision} {answer.content}"

        return await PlainTool("curious", run).prepare(job)


async def test_a_form_is_filled_in_here_and_handed_in_there(tmp_path: Path) -> None:
    replies: list[list[Step]] = [[call("curious")], [say("Done.")]]
    async with asking(tmp_path, *replies, tool=Curious("curious", echo)) as (client, _):
        await client.send({"type": "submit", "prompt": "go"})
        state = await client.until(lambda state: bool(state["approvals"]))
        [form] = state["approvals"]
        assert form["kind"] == "elicitation"
        await client.send({"type": "approve", "id": form["id"], "decision": "once", "content": {"name": "Ada"}})
        state = await client.until(settled)
        [tool] = state["messages"][1]["toolCalls"]
        assert tool["output"] == "once {'name': 'Ada'}"
