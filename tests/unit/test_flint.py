"""flint's shapes and its session, piece by piece."""

from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flint_support import Talk, talking
from hames.core.engine import Engine
from hames.domain.approvals import Approval, CallMcp, UseTool
from hames.domain.commands import InterruptTurn, ResolveApproval
from hames.domain.errors import HarnessError, InvalidCommand, StorageFailed, ThreadNotFound, TurnBusy, UnknownModel
from hames.domain.events import ItemCompleted, ItemStarted, Record, TurnStarted
from hames.domain.ids import ApprovalId, CallId, ItemId, ThreadId, TurnId
from hames.domain.items import (
    AgentMessage,
    Artifact,
    CommandExecution,
    Compaction,
    McpToolCall,
    Plan,
    PlanEntry,
    Reasoning,
    ToolResult,
    WebSearch,
)
from hames.domain.models import ModelCard, Price
from hames.domain.options import Choice, Selector
from hames.domain.policy import DangerFullAccess, ReadOnly, WorkspaceWrite
from hames.domain.request import SummaryDelta
from hames.domain.state import Change, ThreadState, apply, blank
from hames.protocols.flint import errors, greeting
from hames.protocols.flint.codex import inbound as codex_inbound
from hames.protocols.flint.codex import uuids
from hames.protocols.flint.codex.dialect import CodexDialect
from hames.protocols.flint.dialect import About, FlintDialect
from hames.protocols.flint.outbound import project
from hames.protocols.flint.session import FlintSession
from hames.protocols.rpc_session import Ask, Notify
from hames.protocols.session import Execute
from hames.providers.catalogue import Catalogue
from hames.testing.checks.session import receive
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import OneModel, ScriptedModel, call, fail, hang, say, stop, tell, wait_for
from support import ASKING, ECHO, engine

ABOUT = About(version="1", provider="anthropic", home="/h")
SEED, CODEX = FlintDialect(ABOUT, lambda _: 200_000), CodexDialect(ABOUT, lambda _: None)
ITEM, CALL = ItemId("item_1"), CallId("call_1")
TEXT = [{"type": "text", "text": "go"}]


def wire(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def opened(models: Any) -> FlintSession:
    session = FlintSession(models, blank(ThreadId("t")).settings)
    result(session, "initialize", clientInfo={"name": "me", "version": "1"})
    return session


def result(session: FlintSession, method: str, **params: Any) -> Any:
    _, said = receive(session, msgspec.json.encode({"id": 1, "method": method, "params": params}))
    return msgspec.json.decode(said)["result"]


def decided(**answer: Any) -> list[Any]:
    """The commands that this answer to a question means."""
    session = opened(OneModel(ScriptedModel()))
    session.say([Ask(method="may/I", params={}, approval_id=ApprovalId("apr_1"))])
    actions, _ = receive(session, msgspec.json.encode({"id": "apr_1", **answer}))
    return [action.command for action in actions if isinstance(action, Execute)]


# --- items --------------------------------------------------------------------


@pytest.mark.spec("flint/mcp-type", "flint/mcp-id", "flint/mcp-server", "flint/mcp-tool", "flint/mcp-arguments")
@pytest.mark.spec("flint/mcp-status", "flint/mcp-result", "flint/mcp-error")
def test_an_mcp_call_has_its_server_its_tool_and_what_came_of_it() -> None:
    asked = McpToolCall(id=ITEM, step=1, call_id=CALL, server="files", tool="stat", arguments={"path": "/"})
    running = wire(SEED.item(asked))
    assert running == {
        "type": "mcpToolCall",
        "id": "item_1",
        "server": "files",
        "tool": "stat",
        "arguments": {"path": "/"},
        "status": "inProgress",
    }
    done = msgspec.structs.replace(asked, status="completed", structured={"size": 3}, result=ToolResult(text="3 bytes"))
    told = wire(SEED.item(done))
    assert told["status"] == "completed"
    assert told["result"] == {"content": [{"type": "text", "text": "3 bytes"}], "structuredContent": {"size": 3}}
    assert "error" not in told
    failed = msgspec.structs.replace(asked, status="failed", result=ToolResult(text="no such file", failed=True))
    told = wire(SEED.item(failed))
    assert (told["status"], told["error"]) == ("failed", "no such file")
    assert "result" not in told
    for status in ("declined", "interrupted"):
        stopped = wire(SEED.item(msgspec.structs.replace(asked, status=status)))
        assert (stopped["status"], stopped["error"]) == ("failed", status)


@pytest.mark.spec("flint/reasoning-summary", "flint/reasoning-summary-delta")
async def test_a_summary_of_reasoning_streams_beside_the_text() -> None:
    summary = [tell(SummaryDelta(block=0, text=text)) for text in ("In ", "short")]
    model = ScriptedModel([*summary, say("Done.")])
    async with engine(model) as the_engine, talking(the_engine) as talk:
        ended = await talk.prompt(await talk.start())
    deltas = talk.params("item/reasoning/summaryTextDelta")
    assert [delta["delta"] for delta in deltas] == ["In ", "short"]
    assert deltas[0].keys() == {"threadId", "turnId", "itemId", "delta"}
    (item,) = [item for item in ended["turn"]["items"] if item["type"] == "reasoning"]
    assert item["summary"] == "In short"
    assert "content" not in item


@pytest.mark.spec("flint/turn-status-failed", "flint/extension-notifications")
async def test_of_an_answer_that_is_not_asked_for_again_nobody_says_that_it_is() -> None:
    async with engine(ScriptedModel([say("I will"), stop("refusal")])) as the_engine, talking(the_engine) as talk:
        ended = await talk.prompt(await talk.start())
    (told,) = talk.params("hames/reply_voided")
    assert told["data"]["itemIds"] == [ended["turn"]["items"][-1]["id"]]
    assert "again" not in told["message"]
    assert ended["turn"]["error"]["errorInfo"] == "Refusal"
    assert "hames/retry" not in talk.methods()


async def test_a_reply_that_was_asked_for_again_is_marked_in_history() -> None:
    model = ScriptedModel([say("I wi", cut=True), fail("reset", retryable=True)], [say("I will.")])
    async with engine(model) as the_engine, talking(the_engine) as talk:
        thread_id = await talk.start()
        ended = await talk.prompt(thread_id)
        read = await talk.call("thread/read", threadId=thread_id, includeTurns=True)
    for turn in (ended["turn"], read["thread"]["turns"][0]):
        said = [(item["text"], item.get("voided")) for item in turn["items"] if item["type"] == "agentMessage"]
        assert said == [("I wi", True), ("I will.", None)]


def test_a_command_says_what_it_put_out_as_soon_as_there_is_something() -> None:
    begun = CommandExecution(id=ITEM, step=1, call_id=CALL, command="ls", cwd="/w")
    assert "aggregatedOutput" not in wire(SEED.item(begun))
    assert wire(SEED.item(msgspec.structs.replace(begun, output="a")))["aggregatedOutput"] == "a"
    ended = msgspec.structs.replace(begun, status="completed", exit_code=0, duration_ms=0)
    assert wire(SEED.item(ended))["aggregatedOutput"] == ""
    assert wire(SEED.item(ended))["exitCode"] == 0
    assert wire(SEED.item(msgspec.structs.replace(begun, status="interrupted")))["status"] == "failed"


def test_codexs_clients_get_lists_objects_and_nulls_where_they_expect_them() -> None:
    assert CODEX.item(Reasoning(id=ITEM, step=1, text="hm", summary="")) == {
        "type": "reasoning",
        "id": "item_1",
        "summary": [],
        "content": ["hm"],
    }
    assert CODEX.item(Plan(id=ITEM, step=1, call_id=CALL, entries=(PlanEntry(step="a"),))) is None
    artifact = CODEX.item(Artifact(id=ITEM, step=1, call_id=CALL, path="/w/out", result=ToolResult(text="ok")))
    assert artifact is not None
    assert (artifact["type"], artifact["tool"], artifact["success"]) == ("dynamicToolCall", "artifact", True)
    assert CODEX.item(WebSearch(id=ITEM, step=1, query="q")) is not None
    assert CODEX.item(Compaction(id=ITEM, step=1)) == {"type": "contextCompaction", "id": "item_1"}
    begun = CODEX.item(CommandExecution(id=ITEM, step=1, call_id=CALL, command="ls", cwd="/w"))
    assert begun is not None
    assert begun["exitCode"] is None


def test_an_item_whose_start_was_lost_is_told_as_started_before_it_is_completed() -> None:
    turn, message = TurnId("turn_1"), AgentMessage(id=ITEM, step=1, text="Hi")
    state, told = blank(ThreadId("ses_1")), list[str]()
    started, completed = ItemStarted(turn_id=turn, item=message), ItemCompleted(turn_id=turn, item=message)
    other = ItemCompleted(turn_id=turn, item=AgentMessage(id=ItemId("item_2"), step=1, text="Ho"))
    for seq, event in enumerate((TurnStarted(turn_id=turn), started, completed, other), 1):
        before = state
        record = Record(seq=seq, at_ms=1, thread_id=state.id, event=event)
        state = apply(state, record)
        for message in project(Change(record=record, before=before, after=state), SEED):
            if isinstance(message, Notify) and message.method.startswith("item/"):
                told.append(f"{message.method} {wire(message.params)['item']['id']}")
    assert told == ["item/started item_1", "item/completed item_1", "item/started item_2", "item/completed item_2"]


@pytest.mark.spec("flint/usage-updated")
async def test_usage_is_the_turns_and_the_total_is_the_threads() -> None:
    async with engine(ScriptedModel([say("one")], [say("two")])) as the_engine, talking(the_engine) as talk:
        thread_id = await talk.start()
        await talk.prompt(thread_id)
        await talk.prompt(thread_id)
    first, second = talk.params("thread/tokenUsage/updated")
    assert first["usage"] == second["usage"]
    assert second["tokenUsage"]["total"]["inputTokens"] == 2 * first["usage"]["inputTokens"]


@pytest.mark.parametrize(
    ("intent", "method", "member"),
    [
        (CallMcp(server="s", tool="t", arguments={"a": 1}), "item/mcpToolCall/requestApproval", "server"),
        (UseTool(name="n", arguments={"a": 1}), "item/toolCall/requestApproval", "name"),
    ],
)
def test_a_call_whose_effects_nobody_knows_is_asked_about_by_its_own_method(
    intent: CallMcp | UseTool, method: str, member: str
) -> None:
    approval = Approval(id=ApprovalId("apr_1"), turn_id=TurnId("turn_1"), item_id=ITEM, intent=intent)
    state = blank(ThreadId("ses_1"))
    asked, params = SEED.ask(state, approval, 5)
    assert asked == method
    assert wire(params)[member]
    asked, params = CODEX.ask(state, approval, 5)
    assert asked == "item/commandExecution/requestApproval"  # the only question that Codex's clients know for it
    assert '{"a":1}' in params["command"]


# --- models -------------------------------------------------------------------


@pytest.mark.spec("flint/plan-model-metadata", "flint/model-description", "flint/model-list-limit")
async def test_the_models_have_real_data() -> None:
    models = Catalogue({}, clock=FakeClock())
    session = opened(models)
    told = result(session, "model/list")["data"]
    claude = [model for model in told if model["id"].startswith("anthropic/")]
    assert len(claude) > 2
    for model in claude:
        assert model["displayName"]
        assert model["description"]
        assert model["meta"]["contextWindow"] >= 200_000
        assert model["meta"]["maxOutput"] > 0
    assert [model["isDefault"] for model in told].count(True) == 1
    assert len(result(session, "model/list", limit=1)["data"]) == 1
    assert not any(model["hidden"] for model in told)
    assert any(model["hidden"] for model in result(session, "model/list", includeHidden=True)["data"])


@pytest.mark.spec("flint/config-claude-reasoning-effort", "flint/config-claude-max-thinking-tokens")
async def test_claude_can_be_told_how_hard_to_think() -> None:
    models = Catalogue({}, clock=FakeClock())
    options = result(opened(models), "config/list")["options"]
    choices = {option["id"]: {choice["id"] for choice in option["options"]} for option in options}
    assert choices["reasoning_effort"] >= {"low", "medium", "high"}
    assert choices["max_thinking_tokens"] >= {"8000", "16000", "32000"}
    scoped = next(option for option in options if option["id"] == "reasoning_effort")["modelIds"]
    assert any(name.startswith("anthropic/") for name in scoped)
    assert not any(name.startswith("scripted/") for name in scoped)


def test_a_retired_model_is_hidden_and_a_plain_one_offers_no_effort() -> None:
    card = ModelCard(
        provider="p", model="m", display_name="M", images=False, price=Price(input=1, output=2), successor="n"
    )
    effort = Selector(
        id="reasoning_effort", name="E", choices=(Choice(id="low", name="L"),), default="low", models=("q/z",)
    )
    (told,) = wire(SEED.models([card], [effort], "p/other"))["data"]
    assert told["hidden"] is True
    assert told["isDefault"] is False
    assert told["inputModalities"] == ["text"]
    assert told["supportedReasoningEfforts"] == []
    assert told["meta"]["successor"] == "n"
    assert told["meta"]["price"]["output"] == 2


class TwoModels(OneModel):
    """Two models of one service."""

    def cards(self) -> list[ModelCard]:
        return [*super().cards(), ModelCard(provider="scripted", model="other", display_name="Other")]

    def find(self, name: str) -> ModelCard:
        return self.cards()[1] if name in ("other", "scripted/other") else super().find(name)


@pytest.mark.spec("flint/plan-model-wired", "flint/plan-overrides-wired", "flint/plan-config-wired")
@pytest.mark.spec("flint/thread-start-model", "flint/turn-start-model")
async def test_what_a_client_chooses_is_what_the_model_service_is_asked_for() -> None:
    effort = Selector(
        id="effort", name="E", choices=(Choice(id="low", name="L"), Choice(id="high", name="H")), default="low"
    )
    model = ScriptedModel([say("one")], [say("two")], [say("three")])
    async with engine(TwoModels(model, selectors=(effort,))) as the_engine, talking(the_engine) as talk:
        thread_id = await talk.start(model="other")
        await talk.prompt(thread_id)
        await talk.prompt(thread_id, model="test", config={"effort": "high"})
        await talk.prompt(thread_id)
    assert [request.model for request in model.requests] == ["other", "test", "test"]
    assert [request.options for request in model.requests] == [{}, {"effort": "high"}, {"effort": "high"}]


# --- the session --------------------------------------------------------------


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


# --- errors -------------------------------------------------------------------


@pytest.mark.spec("flint/error-internal")
@pytest.mark.parametrize(
    ("error", "seed", "codex"),
    [
        (HarnessError("x"), -32603, -32603),
        (StorageFailed("x"), -32603, -32603),
        (InvalidCommand("x"), -32602, -32600),
        (UnknownModel("x"), -32602, -32600),
        (ThreadNotFound("x"), -32001, -32600),
        (TurnBusy("x"), -32002, -32600),
    ],
)
def test_an_error_has_one_number_in_flint_and_another_for_codex(error: HarnessError, seed: int, codex: int) -> None:
    assert errors.code(error, errors.FLINT) == seed
    assert errors.code(error, errors.CODEX) == codex


@pytest.mark.spec("flint/error-internal")
async def test_a_fault_of_our_own_is_an_internal_error_and_the_connection_lives_on() -> None:
    class Faulty(OneModel):
        def cards(self) -> list[ModelCard]:
            raise ZeroDivisionError

    async with engine(Faulty(ScriptedModel())) as the_engine, talking(the_engine, None) as talk:
        given = {"clientInfo": {"name": "t", "version": "1"}}
        assert await talk.refused("initialize", **given) == -32603


# --- Codex's clients ----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "capabilities", "codex"),
    [
        ("codex-tui", {}, True),
        ("codex_python_sdk", {"experimentalApi": True}, True),
        ("@agentclientprotocol/codex-acp", {}, True),
        ("zed", {"experimentalApi": True, "requestAttestation": False}, True),
        ("flint-tui", {"experimentalApi": True}, False),
        ("flint-tui", {"optOutNotificationMethods": []}, False),
        ("flint-tui", None, False),
        ("flint-tui", [], False),
    ],
)
def test_codexs_clients_are_known_by_name_or_by_a_capability_of_theirs(
    name: str, capabilities: Any, *, codex: bool
) -> None:
    assert greeting.is_codex(name, capabilities) is codex


async def codex_thread(the_engine: Engine, **params: Any) -> ThreadState:
    command = codex_inbound.decode("thread/start", params)
    outcome = await the_engine.execute(command)  # pyright: ignore[reportArgumentType]
    assert isinstance(outcome, ThreadState)
    return outcome


@pytest.mark.parametrize(
    ("params", "policy", "sandbox"),
    [
        ({"approvalPolicy": "never", "sandbox": "danger-full-access"}, "never", DangerFullAccess()),
        ({"approvalPolicy": "on-request", "sandbox": "workspace-write"}, "onRequest", WorkspaceWrite()),
        ({"approvalPolicy": "untrusted", "permissions": ":read-only"}, "unlessTrusted", ReadOnly()),
        ({"approvalPolicy": {"granular": {}}, "permissions": ":workspace"}, "onRequest", WorkspaceWrite()),
        ({"approvalPolicy": None, "sandbox": None}, "unlessTrusted", WorkspaceWrite()),
    ],
)
async def test_codexs_words_for_policies_are_understood(params: dict[str, Any], policy: str, sandbox: Any) -> None:
    async with engine(ScriptedModel()) as the_engine:
        settings = (await codex_thread(the_engine, **params)).settings
    assert (settings.approval_policy, settings.sandbox) == (policy, sandbox)


@pytest.mark.parametrize(
    "params",
    [
        {"approvalPolicy": "sometimes"},
        {"approvalPolicy": 1},
        {"sandbox": "no-walls"},
        {"permissions": ":everything"},
        {"sandbox": {"type": "noWalls"}},
        {"cwd": "here"},
    ],
)
def test_what_codex_would_not_say_about_policies_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidCommand):
        codex_inbound.decode("thread/start", params)


async def test_a_codex_client_gets_codexs_shapes_and_numbers_on_the_same_thread() -> None:
    model = ScriptedModel([call("echo", x=1)], [say("Done.")])
    async with engine(model, ECHO) as the_engine, talking(the_engine) as one, talking(the_engine, "codex-tui") as two:
        thread_id = await one.start()
        opened = await two.call("thread/resume", threadId=thread_id, excludeTurns=True)
        assert (opened["approvalPolicy"], opened["sandbox"]["type"]) == ("untrusted", "workspaceWrite")
        assert (await two.call("config/read"))["config"]["approval_policy"] == "untrusted"
        assert await two.refused("thread/resume", threadId="ses_nobody") == -32600
        effort = {"effort": "enormous", "collaborationMode": {"mode": "plan", "settings": {}}}
        await two.call("turn/start", threadId=thread_id, input=TEXT, **effort)
        mine = (await one.until("turn/completed"))["params"]["turn"]
        theirs = (await two.until("turn/completed"))["params"]["turn"]
    assert [item["type"] for item in mine["items"]] == ["userMessage", "toolCall", "agentMessage"]
    assert [item["type"] for item in theirs["items"]] == ["agentMessage"]
    assert "error" not in mine
    assert theirs["error"] is None


def test_cancel_from_a_question_nobody_remembers_is_a_plain_decline() -> None:
    assert not any(isinstance(command, InterruptTurn) for command in decided(result={"decision": "cancel"}))


@given(st.integers(0, (1 << 115) - 1))
def test_a_threads_id_survives_being_spelled_as_a_uuid(number: int) -> None:
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    thread_id = ThreadId("ses_" + "".join(digits[number >> 5 * place & 31] for place in range(22, -1, -1)))
    spelled = uuids.to_uuid(thread_id)
    assert len(spelled) == 36
    assert spelled[14] == "8"  # the version
    assert spelled[19] in "89ab"  # the variant
    assert uuids.from_uuid(spelled) == thread_id


@given(st.text(max_size=40))
def test_a_name_that_is_no_id_of_ours_stays_as_it_is_or_means_one_thread(name: str) -> None:
    own = uuids.from_uuid(name)
    assert own == name or uuids.to_uuid(own) == name


async def test_a_turn_that_hangs_goes_on_when_its_client_leaves() -> None:
    model = ScriptedModel([say("Once", cut=True), hang()])
    async with engine(model) as the_engine:
        async with talking(the_engine) as talk:
            thread_id = await talk.start()
            await talk.call("turn/start", threadId=thread_id, input=TEXT)
            with anyio.fail_after(60):
                await model.hanging.wait()
        async with talking(the_engine) as talk:
            opened = await talk.call("thread/resume", threadId=thread_id)
    assert opened["thread"]["status"]["type"] == "active"
