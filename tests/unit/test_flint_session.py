"""Clients of one flint server: their settings, their approvals, and what a client hears that joins late."""

from typing import Any

import anyio
import pytest

from flint_sessions import TEXT, decided
from flint_support import Talk, talking
from hames.domain.commands import ResolveApproval
from hames.domain.ids import ApprovalId
from hames.domain.options import Choice, Selector
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say, wait_for
from support import ASKING, engine


async def config(talk: Talk, **params: Any) -> dict[str, str]:
    read = await talk.call("config/read", **params)
    return {option["id"]: option["value"] for option in read["options"]}


async def test_a_turns_own_config_beats_what_was_set_before_and_is_not_undone_by_it() -> None:
    effort = Selector(
        id="effort", name="E", choices=tuple(Choice(id=w, name=w) for w in ("low", "mid", "high")), default="low"
    )
    model = ScriptedModel([say("1")], [say("2")], [say("3")])
    async with engine(OneModel(model, selectors=(effort,))) as the_engine, talking(the_engine) as talk:
        thread_id = await talk.start()
        await talk.call("config/set", id="effort", value="mid")
        assert (await config(talk))["effort"] == "mid"
        await talk.prompt(thread_id)
        await talk.call("config/set", id="effort", value="low")
        await talk.prompt(thread_id, config={"effort": "high"})
        await talk.prompt(thread_id)
        assert (await config(talk))["effort"] == "high"
    assert [request.options["effort"] for request in model.requests] == ["mid", "high", "high"]


async def test_a_choice_survives_a_turn_that_was_refused() -> None:
    effort = Selector(
        id="effort", name="E", choices=(Choice(id="low", name="L"), Choice(id="high", name="H")), default="low"
    )
    model = ScriptedModel([say("1")])
    async with engine(OneModel(model, selectors=(effort,))) as the_engine, talking(the_engine) as talk:
        thread_id = await talk.start()
        await talk.call("config/set", id="effort", value="high")
        assert await talk.refused("turn/start", threadId=thread_id, input=TEXT, model="no-such-model") == -32602
        await talk.prompt(thread_id)
    assert model.requests[0].options == {"effort": "high"}


async def test_a_client_is_spared_what_it_does_not_want_to_hear() -> None:
    unwanted = ["thread/status/changed", "thread/started", "item/agentMessage/delta"]
    model = ScriptedModel([say("Hello.")])
    async with engine(model) as the_engine, talking(the_engine, optOutNotificationMethods=unwanted) as talk:
        opened = await talk.call("thread/start")
        await talk.prompt(opened["thread"]["id"])
    assert "turn/completed" in talk.methods()
    assert not set(unwanted) & set(talk.methods())


async def test_config_read_tells_of_the_thread_opened_last() -> None:
    async with engine(ScriptedModel()) as the_engine, talking(the_engine) as talk:
        assert (await talk.call("config/read"))["approvalPolicy"] == "unlessTrusted"
        thread_id = await talk.start(approvalPolicy="always", sandbox={"type": "readOnly"})
        read = await talk.call("config/read")
        assert (read["approvalPolicy"], read["sandboxPolicy"]) == ("always", {"type": "readOnly"})
        await talk.call("thread/settings/update", threadId=thread_id, approvalPolicy="never")
        await talk.until("thread/settings/updated")
        assert (await talk.call("config/read"))["approvalPolicy"] == "never"


@pytest.mark.parametrize(
    ("result", "decision"),
    [
        ({"decision": "accept"}, "once"),
        ({"decision": "acceptForSession"}, "always"),
        ({"decision": "decline"}, "reject"),
        ({"decision": "Accept"}, "reject"),
        ({"decision": " accept"}, "reject"),
        ({"decision": True}, "reject"),
        ({"decision": ["accept"]}, "reject"),
        ({"decision": {"accept": {}}}, "reject"),
        ({"decision": None}, "reject"),
        ({"accept": True}, "reject"),
        ("accept", "reject"),
        (["accept"], "reject"),
        (None, "reject"),
    ],
)
def test_only_the_exact_word_agrees(result: Any, decision: str) -> None:
    approval_id = ApprovalId("apr_1")
    assert decided(result=result) == [ResolveApproval(approval_id=approval_id, decision=decision)]
    assert decided(result=result, error={"code": 1}) == [ResolveApproval(approval_id=approval_id, decision="reject")]


async def test_cancel_declines_and_stops_the_turn() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("never said")])
    async with engine(model, ASKING) as the_engine, talking(the_engine) as talk:
        thread_id = await talk.start()
        await talk.call("turn/start", threadId=thread_id, input=TEXT)
        question = await talk.until("item/toolCall/requestApproval")
        await talk.say({"id": question["id"], "result": {"decision": "cancel"}})
        ended = await talk.until("turn/completed")
    assert ended["params"]["turn"]["status"] == "interrupted"
    assert ended["params"]["turn"]["items"][-1]["status"] == "declined"


async def test_every_client_is_asked_the_first_answer_counts_and_the_others_are_told() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("Done.")])
    async with engine(model, ASKING) as the_engine, talking(the_engine) as one, talking(the_engine) as two:
        thread_id = await one.start()
        await two.call("thread/resume", threadId=thread_id)
        await one.call("turn/start", threadId=thread_id, input=TEXT)
        asked = [await talk.until("item/toolCall/requestApproval") for talk in (one, two)]
        assert asked[0] == asked[1]
        await two.say({"id": asked[1]["id"], "result": {"decision": "decline"}})
        for talk in (one, two):
            settled = await talk.until("serverRequest/resolved")
            assert settled["params"] == {"threadId": thread_id, "requestId": asked[0]["id"]}
        await one.say({"id": asked[0]["id"], "result": {"decision": "accept"}})
        ended = [await talk.until("turn/completed") for talk in (one, two)]
    assert ended[0] == ended[1]
    assert [item["status"] for item in ended[0]["params"]["turn"]["items"] if "status" in item] == ["declined"]


async def test_a_client_that_comes_back_is_asked_again() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("Done.")])
    async with engine(model, ASKING) as the_engine:
        async with talking(the_engine) as talk:
            thread_id = await talk.start()
            await talk.call("turn/start", threadId=thread_id, input=TEXT)
            first = await talk.until("item/toolCall/requestApproval")
        async with talking(the_engine) as talk:
            await talk.call("thread/resume", threadId=thread_id)
            again = await talk.until("item/toolCall/requestApproval")
            assert again["id"] == first["id"]
            await talk.call("thread/resume", threadId=thread_id)  # the question stands: it is not asked twice
            await talk.say({"id": again["id"], "result": {"decision": "accept"}})
            ended = await talk.until("turn/completed")
            assert talk.methods().count("item/toolCall/requestApproval") == 1
    assert ended["params"]["turn"]["items"][1]["status"] == "completed"


async def test_a_client_that_joins_in_the_middle_of_a_text_hears_the_rest_and_nothing_twice() -> None:
    more = anyio.Event()
    model = ScriptedModel([say("One two ", cut=True), wait_for(more), say("three four")])
    async with engine(model) as the_engine, talking(the_engine) as one, talking(the_engine) as two:
        thread_id = await one.start()
        await one.call("turn/start", threadId=thread_id, input=TEXT)
        await one.until("item/agentMessage/delta")
        await one.until("item/agentMessage/delta")
        opened = await two.call("thread/resume", threadId=thread_id)
        (message,) = [item for item in opened["thread"]["turns"][0]["items"] if item["type"] == "agentMessage"]
        assert message["text"] == "One two "
        more.set()
        ended = (await two.until("turn/completed"))["params"]["turn"]
    heard = {message["id"]: message["text"]}
    for delta in two.params("item/agentMessage/delta"):
        heard[delta["itemId"]] = heard.get(delta["itemId"], "") + delta["delta"]
    assert heard == {item["id"]: item["text"] for item in ended["items"] if item["type"] == "agentMessage"}
