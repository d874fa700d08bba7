"""flint's shapes and its session, piece by piece."""

from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flint_sessions import TEXT, decided, opened, result
from flint_support import talking
from hames.core.engine import Engine
from hames.domain.approvals import Approval, CallMcp, UseTool
from hames.domain.commands import InterruptTurn
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
from hames.protocols.rpc_session import Notify
from hames.providers.catalogue import Catalogue
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import OneModel, ScriptedModel, call, fail, hang, say, stop, tell
from support import ECHO, engine

ABOUT = About(version="1", provider="anthropic", home="/h")


SEED, CODEX = FlintDialect(ABOUT, lambda _: 200_000), CodexDialect(ABOUT, lambda _: None)


ITEM, CALL = ItemId("item_1"), CallId("call_1")


def wire(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


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
