"""MCP, AG-UI and OpenAI's APIs keep the session contract, and can tell every history."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from hames.codecs.sse import SseDecoder
from hames.domain.events import Record, TurnStarted
from hames.domain.ids import ThreadId
from hames.domain.state import Change, blank
from hames.protocols.agui.session import AguiSession
from hames.protocols.mcp.session import McpServerSession
from hames.protocols.openai.chat import ChatSession
from hames.protocols.openai.responses import ResponsesSession
from hames.protocols.openai.session import ApiSession
from hames.protocols.run_session import KnownThreads, RunSession
from hames.protocols.session import Session
from hames.testing.checks.session import check_session, receive
from hames.testing.generators.histories import changes, histories
from hames.testing.generators.story import THREAD

AGUI = {"threadId": "mine", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "go"}]}
CHAT = {"messages": [{"role": "user", "content": "go"}], "stream": True}
RESPONSES = {"input": "go", "stream": True}


class AdoptsTurns:
    """Takes every turn of the thread for its own, and asks again as soon as it was answered."""

    def tell(self, given: Sequence[Change], now: float) -> None:
        assert isinstance(self, RunSession)
        for change in given:
            event = change.record.event
            self.state = change.after
            if isinstance(event, TurnStarted) or (self.turn_id is not None and not self.has_open_request):
                turn = change.after.turns[-1]
                self.has_open_request = True
                self.turn_id, self.first_item = turn.id, len(turn.items)
                if isinstance(self, ApiSession):
                    self.reset()
                self.begun(turn, 0)
            RunSession.tell(self, [change], now)


class TellingAgui(AdoptsTurns, AguiSession):
    pass


class TellingChat(AdoptsTurns, ChatSession):
    pass


class TellingResponses(AdoptsTurns, ResponsesSession):
    pass


def opened(kind: type[RunSession], body: Any) -> RunSession:
    session = kind(KnownThreads())
    receive(session, json.dumps(body).encode())
    session.take_output()
    return session


def mcp() -> Session:
    session = McpServerSession(blank(ThreadId("t")).settings)
    for number, (method, params) in enumerate(
        (
            ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}),
            ("resources/subscribe", {"uri": f"hames://threads/{THREAD}"}),
        )
    ):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        actions, _ = receive(session, json.dumps(message).encode())
        for action in actions:
            session.followed(action, blank(THREAD), (), 0.0)  # type: ignore[arg-type]
    session.take_output()
    return session


def calls(*pairs: tuple[str, Any]) -> list[bytes]:
    return [
        json.dumps({"jsonrpc": "2.0", "id": f"c{number}", "method": method, "params": params}).encode()
        for number, (method, params) in enumerate(pairs)
    ]


def tool(name: str, **arguments: Any) -> tuple[str, Any]:
    return "tools/call", {"name": name, "arguments": arguments, "_meta": {"progressToken": name}}


MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
PROTOCOLS: dict[str, tuple[Any, list[bytes]]] = {
    "mcp": (
        mcp,
        calls(
            ("ping", {}),
            ("server/discover", {"_meta": MODERN}),
            ("tools/list", {}),
            ("resources/list", {}),
            ("resources/templates/list", {}),
            ("resources/read", {"uri": "hames://threads/ses_1"}),
            ("resources/subscribe", {"uri": "hames://threads/ses_1"}),
            ("resources/unsubscribe", {"uri": "hames://threads/ses_1"}),
            tool("hames", prompt="go"),
            tool("hames-reply", threadId="ses_1", prompt="go"),
            tool("hames-status", threadId="ses_1"),
            tool("hames-answer", threadId="ses_1", approvalId="a", decision="once"),
            tool("hames-interrupt", threadId="ses_1"),
            tool("hames-threads"),
            tool("hames"),
            tool("no-such-tool"),
        ),
    ),
    "agui": (
        lambda: opened(TellingAgui, AGUI),
        [json.dumps(one).encode() for one in (AGUI, {**AGUI, "resume": [{"interruptId": "a", "status": "resolved"}]})],
    ),
    "chat": (
        lambda: opened(TellingChat, CHAT),
        [json.dumps(one).encode() for one in (CHAT, {**CHAT, "stream": False}, {"messages": "x"})],
    ),
    "responses": (
        lambda: opened(TellingResponses, RESPONSES),
        [
            json.dumps(one).encode()
            for one in (RESPONSES, {"input": "go", "previous_response_id": "resp_a.b.0"}, {"input": 1})
        ],
    ),
}


@pytest.mark.parametrize("name", PROTOCOLS)
@settings(max_examples=8)
@given(history=histories(max_turns=2).filter(lambda history: any("text" in str(one.event) for one in history)))
def test_protocols_of_requests_keep_the_session_contract(name: str, history: list[Record]) -> None:
    open_session, messages = PROTOCOLS[name]
    check_session(open_session, messages, list(changes(history)))


@settings(max_examples=12)
@given(history=histories(max_turns=3))
def test_every_history_is_told_over_agui_in_the_order_that_the_protocol_demands(history: list[Record]) -> None:
    session = opened(TellingAgui, AGUI)
    for change in changes(history):
        session.tell([change], 0.0)
    session.lost(THREAD, "the thread was closed")
    decoder = SseDecoder()
    run: list[dict[str, Any]] = []
    for _, data in decoder.feed(session.take_output()):
        run.append(json.loads(data))
        if run[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR"):
            check_run(run)
            run = []
    assert not run or run[0]["type"] == "RUN_STARTED"


def check_run(run: list[dict[str, Any]]) -> None:
    kinds = [one["type"] for one in run]
    assert kinds.count("RUN_STARTED") == 1
    assert kinds[0] == "RUN_STARTED"
    open_messages: set[tuple[str, str]] = set()
    for one in run:
        head, _, how = one["type"].rpartition("_")
        name = (head, one.get("toolCallId") or one.get("messageId"))
        if how == "START" and head != "RUN":
            assert name not in open_messages, run
            open_messages.add(name)
        elif how in ("CONTENT", "ARGS"):
            assert name in open_messages, run
        elif how == "END":
            open_messages.remove(name)


@settings(max_examples=12)
@given(history=histories(max_turns=3))
def test_every_history_is_told_over_responses_with_each_item_added_and_done_once(history: list[Record]) -> None:
    session = opened(TellingResponses, RESPONSES)
    for change in changes(history):
        session.tell([change], 0.0)
    added: set[int] = set()
    done: set[int] = set()
    for name, data in SseDecoder().feed(session.take_output()):
        one = json.loads(data)
        assert name.decode() == one["type"]
        match one["type"]:
            case "response.created":
                added, done = set(), set()
                assert one["sequence_number"] == 0
            case "response.output_item.added":
                assert one["output_index"] not in added
                added.add(one["output_index"])
            case "response.output_item.done":
                assert one["output_index"] in added - done
                done.add(one["output_index"])
            case "response.completed":
                assert len(one["response"]["output"]) == len(added)
            case _:
                pass
