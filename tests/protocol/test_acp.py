"""ACP on a real engine: sessions, prompts, permissions, cancels, and several clients of one thread."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_support import AcpClient, acp_desk
from hames.domain.models import ModelCard
from hames.domain.options import Choice, Selector
from hames.testing.fakes.model import OneModel, ScriptedModel, call, fail, hang, say, stop, think, wait_for

pytestmark = pytest.mark.parametrize("version", [1, 2])

ASKS = ([say("Let me try."), call("shell", command="touch made && echo done")], [say("It is made.")])
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_a_turn_streams_and_ends(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel([think("Hm."), say("Hello there.", pieces=4)]), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        assert await client.turn(session, "Say hello") == "end_turn"
        assert client.said() == "Hello there."
        assert client.said("agent_thought") == "Hm."
        assert all(one["messageId"] for one in client.updates("agent_message_chunk"))
        usage = await client.update("usage_update")
        assert usage["used"] == 15
        assert (await client.update("session_info_update"))["title"] == "Say hello"
        if version == 1:
            assert client.said("user_message") == "", "a client shows its own prompts itself"
        else:
            assert client.said("user_message") == "Say hello"
            states = [one["state"] for one in client.updates("state_update")]
            assert states == ["running", "idle"]


async def test_a_command_is_asked_about_runs_and_is_shown(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel(*ASKS), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        assert await client.turn(session, "make it") == "end_turn"
        [question] = await client.asked()
        kinds = [option["kind"] for option in question["params"]["options"]]
        assert kinds == ["allow_once", "allow_always", "reject_once"]
        assert (desk.work / "made").exists()
        calls = client.updates("tool_call", "tool_call_update")
        assert calls[0]["kind"] == "execute"
        assert calls[0]["title"] == "touch made && echo done"
        assert calls[-1]["status"] == "completed"
        if version == 1:
            assert "done" in calls[-1]["content"][0]["content"]["text"]
        else:
            assert question["params"]["subject"]["command"] == "touch made && echo done"
            ended = [one for one in client.updates("terminal_update") if "exitStatus" in one]
            assert ended[-1]["exitStatus"] == {"exitCode": 0}
            states = [one["state"] for one in client.updates("state_update")]
            assert states == ["running", "requires_action", "running", "idle"]


@pytest.mark.parametrize(
    "result",
    [
        {"outcome": {"outcome": "selected", "optionId": "reject_once"}},
        {"outcome": {"outcome": "selected", "optionId": "no such option"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": "allow_once"},
        {},
        None,
        "allow_once",
    ],
)
async def test_only_an_option_that_was_offered_allows(tmp_path: Path, version: int, result: Any) -> None:
    async with acp_desk(tmp_path, ScriptedModel(ASKS[0], [say("Then not.")]), version) as desk:
        client = await desk.client(answer=None)
        session = await client.new(desk.work)
        number = await client.prompt(session, "make it")
        [question] = await client.asked()
        await client.send(id=question["id"], result=result)
        assert await client.ended(session, number) == "end_turn"
        assert not (desk.work / "made").exists()


async def test_an_error_as_answer_to_a_permission_rejects(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel(ASKS[0], [say("Then not.")]), version) as desk:
        client = await desk.client(answer=None)
        session = await client.new(desk.work)
        number = await client.prompt(session, "make it")
        [question] = await client.asked()
        await client.send(id=question["id"], error={"code": -32601, "message": "no such method"})
        assert await client.ended(session, number) == "end_turn"
        assert not (desk.work / "made").exists()


async def test_a_file_change_has_a_diff_and_a_place(tmp_path: Path, version: int) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\ntwo\n")
    script = [call("edit", path="a.txt", old_string="two", new_string="three")], [say("Done.")]
    async with acp_desk(tmp_path, ScriptedModel(*script), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        assert await client.turn(session, "edit it") == "end_turn"
        assert (desk.work / "a.txt").read_text() == "one\nthree\n"
        first = client.updates("tool_call", "tool_call_update")[0]
        assert first["kind"] == "edit"
        assert first["locations"][0]["path"] == str(desk.work / "a.txt")
        [diff] = [one for one in first["content"] if one["type"] == "diff"]
        if version == 1:
            assert (diff["oldText"], diff["newText"]) == ("one\ntwo\n", "one\nthree\n")
        else:
            assert diff["changes"] == [{"operation": "modify", "path": str(desk.work / "a.txt")}]
            assert "+three" in diff["patch"]["text"]


async def test_a_plan_is_told_as_a_plan(tmp_path: Path, version: int) -> None:
    steps = [{"step": "look", "status": "completed"}, {"step": "mend", "status": "inProgress"}]
    async with acp_desk(tmp_path, ScriptedModel([call("plan", entries=steps)], [say("So.")]), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        assert await client.turn(session, "plan it") == "end_turn"
        plan = client.updates("plan", "plan_update")[-1]
        entries = plan["entries"] if version == 1 else plan["plan"]["entries"]
        assert [one["content"] for one in entries] == ["look", "mend"]


async def test_load_replays_everything_before_the_answer_and_resume_nothing(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel(*ASKS, [say("More.")]), version) as desk:
        first = await desk.client()
        session = await first.new(desk.work)
        await first.turn(session, "make it")
        await first.hang_up()
        second, third = await desk.client(), await desk.client()
        await second.open(session, desk.work)
        assert second.said("user_message") == "make it"
        assert second.said() == "Let me try.It is made."
        answers = [index for index, one in enumerate(second.messages) if "configOptions" in str(one.get("result"))]
        later = [one for one in second.messages[answers[-1] :] if "agent_message" in str(one)]
        assert not later, "history comes before the answer"
        await third.open(session, desk.work, replay=False)
        assert not third.updates("agent_message_chunk", "agent_message", "user_message", "tool_call")
        assert await second.turn(session, "more") == "end_turn"
        await third.until(lambda _: third.said() == "More.")


async def test_attach_to_a_running_turn_gives_history_and_then_the_live_stream(tmp_path: Path, version: int) -> None:
    goes_on = anyio.Event()
    words = " ".join(f"word{number}" for number in range(200))
    script = [say("Before. ", cut=True), wait_for(goes_on), say(words, pieces=100)]
    async with acp_desk(tmp_path, ScriptedModel(script), version) as desk:
        first = await desk.client()
        session = await first.new(desk.work)
        number = await first.prompt(session, "talk")
        await first.until(lambda _: first.said() == "Before. ")
        late = [await desk.client(version=1), await desk.client(version=2)]
        for client in late:
            await client.open(session, desk.work)
            assert client.said() == "Before. "
            assert client.said("user_message") == "talk"
        assert [one["state"] for one in late[1].updates("state_update")] == ["running"]
        goes_on.set()
        assert await first.ended(session, number) == "end_turn"
        for client in late:
            await client.until(lambda _, c=client: c.said() == first.said())


async def test_the_first_answer_to_a_permission_wins_everywhere(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel(*ASKS), version) as desk:
        first = await desk.client(answer=None)
        session = await first.new(desk.work)
        number = await first.prompt(session, "make it")
        [question] = await first.asked()
        second = await desk.client(answer=None)
        await second.open(session, desk.work)
        [same] = await second.asked()
        assert same["id"] == question["id"]
        await second.select(same, "allow_once")
        withdrawn = await first.until(lambda one: one.get("method") == "$/cancel_request")
        assert withdrawn["params"]["requestId"] == question["id"]
        await first.select(question, "reject_once")  # too late
        assert await first.ended(session, number) == "end_turn"
        assert (desk.work / "made").exists()
        assert not [one for one in second.messages if one.get("method") == "$/cancel_request"]
        for client in (first, second):
            [ended] = approval_ends(client)
            assert (ended["id"], ended["decision"], ended["ended"]) == (question["id"], "once", "answered")


def approval_ends(client: AcpClient) -> list[dict[str, Any]]:
    """How each approval ended, as the client was told."""
    told = [one.get("_meta") or {} for one in client.updates("tool_call_update")]
    return [meta["_hames/approval"] for meta in told if "_hames/approval" in meta]


async def test_a_rejected_and_a_cancelled_permission_are_told_with_how_they_ended(tmp_path: Path, version: int) -> None:
    asks = [call("shell", command="touch made")]
    async with acp_desk(tmp_path, ScriptedModel(asks, asks, [say("A.")]), version) as desk:
        client = await desk.client(answer=None)
        session = await client.new(desk.work)
        number = await client.prompt(session, "go")
        [question] = await client.asked()
        await client.select(question, "reject_once")
        await client.asked(2)
        await client.notify("session/cancel", sessionId=session)
        await client.ended(session, number)
        await client.until(lambda _: len(approval_ends(client)) == 2)
        assert [(one["decision"], one["ended"]) for one in approval_ends(client)] == [
            ("reject", "answered"),
            ("void", "turnEnded"),
        ]


async def test_two_permissions_of_two_sessions_are_open_at_once(tmp_path: Path, version: int) -> None:
    one = [call("shell", command="touch one")]
    async with acp_desk(tmp_path, ScriptedModel(one, one, [say("A.")], [say("B.")]), version) as desk:
        client = await desk.client(answer=None)
        sessions = [await client.new(desk.work), await client.new(desk.work)]
        numbers = [await client.prompt(session, "go") for session in sessions]
        questions = await client.asked(2)
        assert {question["params"]["sessionId"] for question in questions} == set(sessions)
        for question in reversed(questions):
            await client.select(question, "allow_once")
        for session, number in zip(sessions, numbers, strict=True):
            assert await client.ended(session, number) == "end_turn"


@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request", "cancelled outcome", "another client"])
async def test_cancel_while_a_permission_is_open(tmp_path: Path, version: int, how: str) -> None:
    async with acp_desk(tmp_path, ScriptedModel(ASKS[0], [say("Again.")]), version) as desk:
        client = await desk.client(answer=None)
        session = await client.new(desk.work)
        number = await client.prompt(session, "make it")
        [question] = await client.asked()
        match how:
            case "session/cancel":
                await client.notify("session/cancel", sessionId=session)
                await client.send(id=question["id"], result={"outcome": {"outcome": "cancelled"}})
            case "$/cancel_request":
                await client.notify("$/cancel_request", requestId=number)
            case "cancelled outcome":
                await client.send(id=question["id"], result={"outcome": {"outcome": "cancelled"}})
            case _:
                other = await desk.client(answer=None)
                await other.notify("session/cancel", sessionId=session)
        assert await client.ended(session, number) == "cancelled"
        assert not (desk.work / "made").exists()
        assert await client.turn(session, "again") == "end_turn", "the session is not left busy"


async def test_cancel_at_any_moment(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel([say("Again.")]), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        await client.notify("session/cancel", sessionId=session)  # nothing runs
        await client.notify("session/cancel", sessionId="no such session")
        number = await client.prompt(session, "go")
        await client.notify("session/cancel", sessionId=session)  # right behind the prompt
        assert await client.ended(session, number) == "cancelled"
        await client.notify("session/cancel", sessionId=session)  # it has ended already
        assert await client.turn(session, "again") == "end_turn"


async def test_a_prompt_behind_a_running_one_waits_and_cancel_ends_both(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel([hang()], [say("Third.")]), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        first = await client.prompt(session, "first")
        if version == 2:
            await client.result(first)
        second = await client.prompt(session, "second")
        await client.call("session/list")
        assert not [one for one in client.messages if one.get("id") == second]
        await client.notify("session/cancel", sessionId=session)
        assert await client.ended(session, first) == "cancelled"
        answer = await client.reply(second)
        if version == 1:
            assert answer["result"]["stopReason"] == "cancelled"
        else:
            assert answer["error"]["code"] == -32800
        assert await client.turn(session, "third") == "end_turn"
        assert client.said() == "Third."


async def test_a_failed_turn_is_an_error_that_says_why(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel([fail("no money")], [say("Better.")]), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        number = await client.prompt(session, "go")
        if version == 1:
            error = (await client.reply(number))["error"]
        else:
            assert await client.ended(session, number) == "error"
            error = (await client.update("state_update", stopReason="error"))["error"]
        assert "no money" in error["message"]
        assert error["code"] == -32603
        assert await client.turn(session, "again") == "end_turn"


async def test_a_wrong_key_asks_for_authentication(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel([fail("bad key", info="Unauthorized")]), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        number = await client.prompt(session, "go")
        if version == 1:
            assert (await client.reply(number))["error"]["code"] == -32000
        else:
            assert await client.ended(session, number) == "error"
            assert (await client.update("state_update", stopReason="error"))["error"]["code"] == -32000


async def test_a_reply_that_is_cut_off_says_so(tmp_path: Path, version: int) -> None:
    cut = [[say("long"), stop("length")] for _ in range(8)]
    async with acp_desk(tmp_path, ScriptedModel(*cut), version) as desk:
        client = await desk.client()
        assert await client.turn(await client.new(desk.work), "go") == "max_tokens"


async def test_content_of_a_prompt_reaches_the_model(tmp_path: Path, version: int) -> None:
    model = ScriptedModel([say("Seen.")])
    blocks = [
        {"type": "text", "text": "Look: "},
        {"type": "image", "mimeType": "image/png", "data": PIXEL},
        {"type": "resource_link", "uri": "file:///w/b.py", "name": "b.py"},
        {"type": "resource", "resource": {"uri": "file:///w/c.py", "text": "print(1)"}},
        {"type": "resource", "resource": {"uri": "file:///w/d.png", "blob": PIXEL, "mimeType": "image/png"}},
    ]
    async with acp_desk(tmp_path, model, version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        assert await client.turn(session, *blocks) == "end_turn"
        asked = str(model.requests[0])
        for part in ("Look: ", PIXEL, "[@b.py](file:///w/b.py)", "print(1)", "file:///w/c.py"):
            assert part in asked
        again = await desk.client()
        await again.open(session, desk.work)
        replayed = str(again.updates("user_message", "user_message_chunk"))
        assert "'type': 'resource_link'" in replayed
        assert PIXEL in replayed


async def test_list_fork_close_and_delete(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel([say("One.")], [say("Two.")]), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        await client.turn(session, "A title of sorts")
        forked = (await client.call("session/fork", sessionId=session, cwd=str(desk.work), mcpServers=[]))["sessionId"]
        assert forked != session
        listed = (await client.call("session/list", cwd=str(desk.work)))["sessions"]
        assert {one["sessionId"] for one in listed} == {session, forked}
        assert listed[0]["title"] == "A title of sorts"
        assert listed[0]["updatedAt"].endswith("Z")
        assert (await client.call("session/list", cwd="/elsewhere"))["sessions"] == []
        assert await client.turn(forked, "more") == "end_turn"
        await client.call("session/close", sessionId=forked)
        await client.call("session/close", sessionId=forked)
        await client.call("session/delete", sessionId=forked)
        listed = (await client.call("session/list"))["sessions"]
        assert [one["sessionId"] for one in listed] == [session]
        code, _ = await client.refusal("session/delete", sessionId=forked)
        assert code == -32002


async def test_close_cancels_the_turn_of_this_client_and_nothing_comes_after_it(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel([say("one ", cut=True), hang()]), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        number = await client.prompt(session, "go")
        await client.until(lambda _: client.said())
        await client.call("session/close", sessionId=session)
        assert await client.ended(session, number) == "cancelled"
        last = client.messages[-1]
        assert "method" not in last


async def test_close_leaves_the_turn_of_another_client_alone(tmp_path: Path, version: int) -> None:
    goes_on = anyio.Event()
    async with acp_desk(tmp_path, ScriptedModel([say("a"), wait_for(goes_on), say("b")]), version) as desk:
        first, second = await desk.client(), await desk.client()
        session = await first.new(desk.work)
        number = await first.prompt(session, "go")
        await second.open(session, desk.work)
        await second.call("session/close", sessionId=session)
        heard = len(second.messages)
        goes_on.set()
        assert await first.ended(session, number) == "end_turn"
        await second.call("session/list")
        assert len(second.messages) == heard + 1, "nothing more is told of a closed session"


async def test_modes_and_options_are_told_and_set(tmp_path: Path, version: int) -> None:
    effort = Selector(
        id="reasoning_effort",
        name="Effort",
        choices=(Choice(id="low", name="Low"), Choice(id="high", name="High")),
        default="low",
    )
    model = ScriptedModel([say("Hi.")])
    models = OneModel(model, selectors=(effort,))
    async with acp_desk(tmp_path, model, version, models=models) as desk:
        client, other = await desk.client(), await desk.client()
        key = "id" if version == 1 else "configId"
        opened = await client.call("session/new", cwd=str(desk.work), mcpServers=[])
        session = opened["sessionId"]
        await other.open(session, desk.work)
        options = {one[key]: one for one in opened["configOptions"]}
        assert {name: one["category"] for name, one in options.items()} == {
            "mode": "mode",
            "model": "model",
            "reasoning_effort": "thought_level",
        }
        assert options["reasoning_effort"]["currentValue"] == "low"
        typed = {"type": "id"} if version == 2 else {}
        answer = await client.call(
            "session/set_config_option", sessionId=session, configId="reasoning_effort", value="high", **typed
        )
        chosen = {one[key]: one["currentValue"] for one in answer["configOptions"]}
        assert chosen["reasoning_effort"] == "high"
        await other.update("config_option_update")
        if version == 1:
            await client.call("session/set_mode", sessionId=session, modeId="plan")
            assert (await other.update("current_mode_update"))["currentModeId"] == "plan"
        else:
            await client.call("session/set_config_option", sessionId=session, configId="mode", value="plan", **typed)
        assert await client.turn(session, "go") == "end_turn"
        assert "high" in str(model.requests[0])
        for wrong in ({"configId": "no"}, {"value": "no"}, {"value": 3}, {"value": True, "type": "boolean"}):
            params = {"sessionId": session, "configId": "mode", "value": "plan", **typed, **wrong}
            code, words = await client.refusal("session/set_config_option", **params)
            assert code == -32602, words
        # An option of a session that was not opened on this connection.
        third = await desk.client()
        answer = await third.call(
            "session/set_config_option", sessionId=session, configId="mode", value="always", **typed
        )
        assert {one[key]: one["currentValue"] for one in answer["configOptions"]}["mode"] == "always"


async def test_slash_commands(tmp_path: Path, version: int) -> None:
    model = ScriptedModel([say("One.")], [say("A summary.")], [say("Fine.")])
    async with acp_desk(tmp_path, model, version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        await client.turn(session, "go")
        assert await client.turn(session, "/compact") == "end_turn"
        ended = await client.update("compaction_update", status="completed")
        assert "A summary." in ended["summary"][0]["text"]
        assert await client.turn(session, "/review the tests") == "end_turn"
        assert "the tests" in str(model.requests[-1])


async def test_sign_out_and_in(tmp_path: Path, version: int) -> None:
    login, logout = ("authenticate", "logout") if version == 1 else ("auth/login", "auth/logout")
    async with acp_desk(tmp_path, ScriptedModel([say("Hi.")]), version) as desk:
        client = await desk.client()
        session = await client.new(desk.work)
        await client.call(logout)
        assert (await client.refusal("session/new", cwd=str(desk.work), mcpServers=[]))[0] == -32000
        number = await client.prompt(session, "go")
        assert (await client.reply(number))["error"]["code"] == -32000
        assert (await client.refusal(login, methodId="no such method"))[0] == -32602
        await client.call(login, methodId="api-key")
        assert await client.turn(session, "go") == "end_turn"


async def test_without_a_key_a_new_session_asks_for_authentication(tmp_path: Path, version: int) -> None:
    model = ScriptedModel()
    card = ModelCard(provider="scripted", model="test", display_name="Test", usable=False)
    async with acp_desk(tmp_path, model, version, models=OneModel(model, card)) as desk:
        client = await desk.client()
        code, words = await client.refusal("session/new", cwd=str(desk.work), mcpServers=[])
        assert code == -32000
        assert "hames setup" in words


async def test_a_client_that_comes_back_goes_on_where_it_was(tmp_path: Path, version: int) -> None:
    async with acp_desk(tmp_path, ScriptedModel([say("One.")], [say("Two.")]), version) as desk:
        first = await desk.client()
        session = await first.new(desk.work)
        number = await first.prompt(session, "first")
        await first.ended(session, number)
        known = await _position(first, number)
        await first.hang_up()
        other = await desk.client()
        await other.open(session, desk.work, replay=False)
        await other.turn(session, "second")
        back = await desk.client()
        meta = {"_hames/replayFrom": {"seq": known}}
        method = "session/load" if version == 1 else "session/resume"
        await back.call(method, sessionId=session, cwd=str(desk.work), mcpServers=[], _meta=meta)
        assert back.said() == "Two."
        assert back.said("user_message") == "second"


async def _position(client: AcpClient, number: int) -> int:
    if client.version == 1:
        return (await client.result(number))["_meta"]["_hames/replayFrom"]["seq"]
    return (await client.update("state_update", state="idle"))["_meta"]["_hames/replayFrom"]["seq"]
