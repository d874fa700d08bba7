"""sync against the real server: a state on connecting, deltas after it, and any number of clients."""

import random
from pathlib import Path

import anyio
import pytest

from hames.clock_and_ids import SystemClock
from hames.domain.approvals import RunCommand
from hames.testing.fakes.model import ScriptedModel, call, fail, hang, say, think, wait_for
from server_support import SyncFollower, following, http, running
from support import ECHO, STUCK, PlainTool, created, echo, engine
from sync_clients import settled, submit


@pytest.mark.spec("sync/message-tool-calls")
@pytest.mark.spec(
    "sync/websocket",
    "sync/snapshot-on-connect",
    "sync/server-sends-state",
    "sync/json-messages",
    "sync/type-field",
    "sync/server-delta-message",
    "sync/command-submit",
    "sync/flow-initial-idle",
    "sync/flow-status-running",
    "sync/flow-user-message-complete",
    "sync/flow-assistant-pending-streaming",
    "sync/flow-append-text",
    "sync/flow-tool-status",
    "sync/flow-assistant-complete",
    "sync/flow-status-idle",
)
async def test_the_typical_flow(tmp_path: Path) -> None:
    model = ScriptedModel([think("Hm."), say("Let me see.", pieces=4), call("echo", text="x")], [say("Done.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        first = await client.hear()
        assert (first["type"], first["state"]["status"], first["state"]["messages"]) == ("state", "idle", [])
        await submit(client, "Hi", id="p_1")
        state = await client.until(settled)
    prompt, looking, done = state["messages"]
    assert (prompt["id"], prompt["role"], prompt["content"], prompt["status"]) == ("p_1", "user", "Hi", "complete")
    assert (looking["reasoning"], looking["content"], looking["status"]) == ("Hm.", "Let me see.", "complete")
    assert [(tool["name"], tool["status"]) for tool in looking["toolCalls"]] == [("echo", "complete")]
    assert (done["content"], done["status"], done["stopReason"]) == ("Done.", "complete", "end")
    assert [message["type"] for message in client.heard] == ["state"] + ["delta"] * (len(client.heard) - 1)
    revisions = [message["rev"] for message in client.heard]
    assert revisions == sorted(revisions)
    assert told(client) == [
        ("set", "status", "running"),
        ("set", "messages.0", "user complete"),
        ("set", "messages.1", "assistant pending"),
        ("set", "messages.1.status", "streaming"),
        ("append-text", "messages.1.content", ""),
        ("set", "messages.1.toolCalls.0", "echo running"),
        ("set", "messages.1.toolCalls.0.status", "complete"),
        ("set", "messages.1.status", "complete"),
        ("set", "messages.2", "assistant pending"),
        ("set", "messages.2.status", "streaming"),
        ("append-text", "messages.2.content", ""),
        ("set", "messages.2.status", "complete"),
        ("set", "status", "idle"),
    ]


def told(client: SyncFollower) -> list[tuple[str, str, str]]:
    """The operations on what the specification knows, in their order; neighbouring appends count once."""
    found: list[tuple[str, str, str]] = []
    for operation in (one for message in client.heard[1:] for one in message["operations"]):
        kind, path, value = operation["type"], ".".join(operation["path"]), operation["value"]
        match value:
            case {"role": role, "status": status}:
                found.append((kind, path, f"{role} {status}"))
            case {"name": name, "status": status}:
                found.append((kind, path, f"{name} {status}"))
            case str() if path.endswith("content"):
                found += [(kind, path, "")] if found[-1][1] != path else []
            case str() if path.endswith("status"):
                found.append((kind, path, value))
            case _:
                pass
    return found


@pytest.mark.spec("sync/commands-any-time", "sync/submit-queues")
async def test_commands_are_taken_before_the_state_is_read_and_while_a_run_goes_on(tmp_path: Path) -> None:
    going = anyio.Event()
    model = ScriptedModel([wait_for(going), say("One.")], [say("Two.")], [hang()])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        await submit(client, "one")
        with anyio.fail_after(60):
            await model.asked(1)
        await submit(client, "two")
        await submit(client, "three")
        state = await client.until(lambda state: len(state["queue"]) == 2)
        assert [waiting["prompt"] for waiting in state["queue"]] == ["two", "three"]
        going.set()
        with anyio.fail_after(60):
            await model.hanging.wait()
        await client.send({"type": "cancel"})
        state = await client.until(lambda state: len(state["messages"]) == 6 and settled(state))
    assert [message["content"] for message in state["messages"]] == ["one", "One.", "two", "Two.", "three", ""]
    assert client.errors == []


@pytest.mark.spec(
    "sync/reconnect-snapshot",
    "sync/reconnect-no-handshake",
    "sync/state-on-reconnect",
    "sync/flow-initial-resumed",
)
async def test_a_client_that_comes_back_is_given_everything(tmp_path: Path) -> None:
    going = anyio.Event()
    model = ScriptedModel([say("Half", cut=True), wait_for(going), say(" and the rest.")])
    async with engine(model, clock=SystemClock()) as house, running(house, tmp_path / "data") as server:
        async with following(server) as client:
            await client.hear()
            await submit(client)
            before = await client.until(
                lambda state: len(state["messages"]) > 1 and bool(state["messages"][1]["content"])
            )
        assert before["status"] == "running"
        async with following(server) as again:
            first = await again.hear()
            assert (first["type"], first["state"]) == ("state", before)
            going.set()
            done = await again.until(settled)
        assert [message["content"] for message in done["messages"][1:]] == ["Half", " and the rest."]


@pytest.mark.spec("sync/deltas-reach-snapshot")
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_clients_that_come_and_go_all_end_with_the_same_state(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    replies = [[think("Hm."), say("word " * 40, pieces=40), call("echo", n=n)] for n in range(6)]
    model = ScriptedModel(*replies, [say("The end.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = (await created(house)).id
        states: list[object] = []

        async def come_and_go() -> None:
            while True:
                async with following(server, thread) as page:
                    await page.hear()
                    for _ in range(chance.randint(1, 6)):
                        if settled(page.state):
                            states.append(page.state)
                            return
                        await page.hear()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(come_and_go)
                await client.post("/prompt", params={"thread": thread}, json={"content": "go"})
        kept = (await client.get(f"/threads/{thread}")).json()["state"]
        assert states == [kept] * 8


async def test_a_disconnect_stops_nothing(tmp_path: Path) -> None:
    going = anyio.Event()
    model = ScriptedModel([wait_for(going), say("Done.")])
    async with engine(model, clock=SystemClock()) as house, running(house, tmp_path / "data") as server:
        async with following(server) as client:
            await client.hear()
            await submit(client)
            await client.until(lambda state: state["status"] == "running")
        going.set()
        async with following(server) as again:
            assert (await again.until(settled))["messages"][1]["content"] == "Done."


async def test_every_client_sees_the_same_and_any_may_steer_the_run(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as one,
        following(server) as other,
    ):
        await one.hear()
        await other.hear()
        await submit(one)
        with anyio.fail_after(60):
            await model.hanging.wait()
        await other.send({"type": "cancel"})
        assert await one.until(settled) == await other.until(settled)
        assert one.errors == other.errors == []


@pytest.mark.spec("sync/command-cancel", "sync/cancel-aborts")
async def test_a_cancel_stops_the_run_and_holds_the_queue(tmp_path: Path) -> None:
    model = ScriptedModel([say("Half", cut=True), hang()], [say("two")], [say("three")], [say("four")])
    async with (
        engine(model, STUCK, ECHO, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        await client.hear()
        await submit(client, "one")
        with anyio.fail_after(60):
            await model.hanging.wait()
        await submit(client, "two", id="p_2")
        await submit(client, "three", id="p_3")
        state = await client.until(lambda state: len(state["queue"]) == 2)
        assert [waiting["prompt"] for waiting in state["queue"]] == ["two", "three"]
        assert len(state["messages"]) == 2, "what waits is not in the conversation yet"

        await client.send({"type": "cancel"})
        state = await client.until(lambda state: state["queueHeld"])
        assert (state["status"], state["error"]) == ("idle", "")
        assert (state["messages"][1]["content"], state["messages"][1]["stopReason"]) == ("Half", "cancelled")

        await submit(client, "four", id="p_4")
        state = await client.until(lambda state: state["status"] == "idle" and len(state["messages"]) == 8)
        assert [message["content"] for message in state["messages"] if message["role"] == "user"] == [
            "one",
            "two",
            "three",
            "four",
        ]
        assert (state["queue"], state["queueHeld"]) == ([], False)


async def test_a_cancel_while_idle_gives_up_what_is_held(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        await client.hear()
        await client.send({"type": "cancel"})  # nothing runs, nothing waits: nothing happens
        await submit(client, "one")
        with anyio.fail_after(60):
            await model.hanging.wait()
        await submit(client, "two")
        await client.until(lambda state: len(state["queue"]) == 1)
        await client.send({"type": "cancel"})
        await client.until(lambda state: state["queueHeld"])
        await client.send({"type": "cancel"})
        state = await client.until(lambda state: not state["queue"])
        assert state["queueHeld"] is False
        assert client.errors == []


@pytest.mark.spec("sync/status-error", "sync/error-when-status-error")
async def test_a_failure_is_kept_until_the_next_run(tmp_path: Path) -> None:
    model = ScriptedModel([fail("no credit", info="UsageLimitExceeded")], [say("Better.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        await client.hear()
        await submit(client)
        state = await client.until(lambda state: state["status"] == "error")
        assert (state["error"], state["errorInfo"]) == ("no credit", "UsageLimitExceeded")
        assert state["messages"][1]["status"] == "error"
        async with following(server) as other:
            assert (await other.hear())["state"]["error"] == "no credit"
        await submit(client, "again")
        state = await client.until(lambda state: state["status"] == "idle")
        assert (state["error"], state["messages"][1]["error"]) == ("", "no credit")
        assert client.errors == [], "a run that fails is no refusal"


@pytest.mark.spec("sync/server-error-message")
async def test_a_refusal_goes_to_its_sender_and_leaves_the_state_alone(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as one,
        following(server) as other,
    ):
        before = (await one.hear())["state"]
        await other.hear()
        await one.socket.send("{")
        await one.socket.send(b"\x00binary")
        await one.send({"type": "submit", "prompt": "a"}, {"type": "nonsense"})
        for _ in range(3):
            assert (await one.hear())["type"] == "error"
        await one.send({"type": "rename", "title": "still here"})
        state = await one.until(lambda state: state["thread"]["title"] == "still here")
        assert state["messages"] == [], "a message is carried out whole, or not at all"
        await other.until(lambda state: state["thread"]["title"] == "still here")
        assert other.errors == []
        assert state["messages"] == before["messages"]


async def test_a_submit_that_is_sent_twice_counts_once(tmp_path: Path) -> None:
    model = ScriptedModel([say("One.")], [say("Two.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        await client.hear()
        await submit(client, id="p_1")
        await submit(client, id="p_1")
        await client.until(settled)
        await submit(client, id="p_1")
        await submit(client, "next", id="p_2")
        state = await client.until(lambda state: settled(state) and len(state["messages"]) == 4)
        assert [message["id"] for message in state["messages"] if message["role"] == "user"] == ["p_1", "p_2"]
        model.assert_finished()


async def test_a_question_is_shown_and_answered_by_anybody_once(tmp_path: Path) -> None:
    tool = PlainTool("danger", echo, intent=RunCommand(command="rm x", cwd="/w"))
    model = ScriptedModel([call("danger")], [say("Done.")])
    async with (
        engine(model, tool, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as one,
        following(server) as other,
    ):
        await one.hear()
        await submit(one)
        state = await other.until(lambda state: bool(state["approvals"]))
        [asked] = state["approvals"]
        assert (asked["kind"], asked["command"], asked["cwd"]) == ("command", "rm x", "/w")
        assert asked["toolCallId"] == state["messages"][1]["toolCalls"][0]["id"]
        await other.send({"type": "approve", "id": asked["id"], "decision": "once"})
        await one.until(settled)
        await one.send({"type": "approve", "id": asked["id"], "decision": "reject"})
        while not one.errors:
            await one.hear()
        assert asked["id"] in one.errors[0]["message"]
        assert one.state["approvals"] == []
        assert one.state["messages"][1]["toolCalls"][0]["status"] == "complete"


async def test_the_rest_of_the_commands(tmp_path: Path) -> None:
    going = anyio.Event()
    model = ScriptedModel([wait_for(going), call("echo")], [say("Both.")], [say("A summary.")])
    async with (
        engine(model, clock=SystemClock(), cwd=tmp_path) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        await client.hear()
        await client.send(
            {"type": "rename", "title": "T"},
            {"type": "configure", "approvalPolicy": "always", "sandbox": {"type": "readOnly"}, "agent": "plan"},
        )
        state = await client.until(lambda state: state["settings"]["agent"] == "plan")
        assert (state["thread"]["title"], state["settings"]["approvalPolicy"]) == ("T", "always")
        assert state["settings"]["sandbox"] == {"type": "readOnly"}
        await client.send({"type": "configure", "agent": "code", "approvalPolicy": "never"})
        await submit(client, "one", id="p_1")
        with anyio.fail_after(60):
            await model.asked(1)
        await client.send({"type": "steer", "prompt": "and this", "id": "s_1"})
        await submit(client, "later", id="p_2")
        await client.until(lambda state: len(state["queue"]) == 1)
        await client.send({"type": "dequeue", "id": "p_2"})
        await client.until(lambda state: state["queue"] == [])
        going.set()
        state = await client.until(settled)
        assert [message["id"] for message in state["messages"] if message["role"] == "user"] == ["p_1", "s_1"]
        await client.send({"type": "compact"})
        state = await client.until(lambda state: settled(state) and len(state["messages"]) > 4)
        assert state["messages"][-1]["toolCalls"][0]["kind"] == "compaction"
        await client.send({"type": "configure", "model": "nobody/knows"})
        while not client.errors:
            await client.hear()
        assert "nobody/knows" in client.errors[0]["message"]


async def test_a_steer_while_nothing_runs_is_a_prompt(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel([say("Hi.")]), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        await client.hear()
        await client.send({"type": "steer", "prompt": "hello", "id": "s_1"})
        state = await client.until(settled)
        assert state["messages"][0]["id"] == "s_1"
