"""ACP, both versions: every history can be told, live and to a client that comes later, in messages of the schema."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from acp_schema import check_message
from hames.codecs.jsontext import encode
from hames.domain.errors import InvalidCommand
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.domain.items import AgentMessage, Compaction, Item, Plan, Reasoning, UserMessage
from hames.domain.state import Change, blank
from hames.protocols.acp import inbound
from hames.protocols.acp.outbound import Outbound
from hames.protocols.acp.session import AcpSession
from hames.protocols.session import Follow
from hames.testing.checks.session import receive
from hames.testing.fakes.model import OneModel, ScriptedModel
from hames.testing.generators.histories import changes, check_each_item_once, cut_histories, folded, histories
from hames.testing.generators.story import THREAD
from hames.testing.generators.values import json_values

CAPABILITIES = {
    1: {"session": {"notices": {}, "compaction": {}}, "elicitation": {"form": {}, "url": {}}},
    2: {"elicitation": {"form": {}, "url": {}}},
}


def opened(version: int, *, rich: bool = True) -> AcpSession:
    settings = replace(blank(ThreadId("t")).settings, model="scripted")
    session = AcpSession(OneModel(ScriptedModel()), settings)
    member = "clientCapabilities" if version == 1 else "capabilities"
    params = {"protocolVersion": version, member: CAPABILITIES[version] if rich else {}}
    receive(session, json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode())
    return session


def outbound(session: AcpSession) -> Outbound:
    out = session._out
    assert out is not None
    return out


def told(session: AcpSession, history: Iterable[Change]) -> list[Any]:
    messages: list[Any] = []
    for change in history:
        session.tell([change], 0.0)
        messages += [json.loads(line) for line in session.take_output().splitlines()]
    return messages


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("rich", [True, False])
@settings(max_examples=10)
@given(history=histories(max_turns=2))
def test_every_message_of_every_history_is_in_the_published_schema(
    version: int, rich: bool, history: list[Record]
) -> None:
    session = opened(version, rich=rich)
    session.followed(Follow(thread_id=THREAD), blank(THREAD), (), 0.0)
    for message in told(session, changes(history)):
        check_message(version, message)


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=10)
@given(history=cut_histories(max_turns=2))
def test_any_state_can_be_loaded_and_is_in_the_published_schema(version: int, history: list[Record]) -> None:
    session = opened(version)
    method = "session/load" if version == 1 else "session/resume"
    params = {"sessionId": THREAD, "cwd": "/w", "mcpServers": [], "replayFrom": {"type": "start"}}
    request = {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}
    [follow], _ = receive(session, json.dumps(request).encode())
    assert isinstance(follow, Follow)
    session.followed(follow, folded(history), (), 0.0)
    messages = [json.loads(line) for line in session.take_output().splitlines()]
    for message in messages:
        check_message(version, message, method)
    answers = [index for index, message in enumerate(messages) if message.get("id") == 5 and "result" in message]
    assert len(answers) == 1
    replayed = {one["params"]["update"]["sessionUpdate"] for one in messages[answers[0] :] if "update" in str(one)}
    assert not replayed & {"user_message_chunk", "agent_message_chunk", "user_message", "tool_call"}


FINAL = ("completed", "failed", "cancelled")


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=25)
@given(history=histories(max_turns=2))
def test_each_tool_call_starts_once_and_ends_once(version: int, history: list[Record]) -> None:
    out = outbound(opened(version))
    seen: set[str] = set()

    def updates(change: Change) -> list[Any]:
        return [json.loads(encode(update)) for update in out.project(change)]

    def started(update: Any) -> list[str]:
        if update["sessionUpdate"] not in ("tool_call", "tool_call_update") or update["toolCallId"] in seen:
            return []
        seen.add(update["toolCallId"])
        return [update["toolCallId"]]

    def completed(update: Any) -> list[str]:
        of_tool = update["sessionUpdate"] in ("tool_call", "tool_call_update")
        return [update["toolCallId"]] if of_tool and update.get("status") in FINAL else []

    def shown(item: Item) -> bool:
        return not isinstance(item, UserMessage | AgentMessage | Reasoning | Plan | Compaction)

    check_each_item_once(history, updates, started=started, completed=completed, shown=shown)


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=25)
@given(history=histories(max_turns=2))
def test_a_client_that_listens_hears_every_word_of_the_model_once(version: int, history: list[Record]) -> None:
    out = outbound(opened(version))
    texts: dict[str, str] = {}
    for change in changes(history):
        for update in (json.loads(encode(one)) for one in out.project(change)):
            match update["sessionUpdate"]:
                case "agent_message_chunk":
                    name = update["messageId"]
                    texts[name] = texts.get(name, "") + update["content"]["text"]
                case "agent_message":
                    texts[update["messageId"]] = "".join(block["text"] for block in update["content"])
                case _:
                    pass
    turns = folded(history).turns
    said = {item.id: item.text for turn in turns for item in turn.items if isinstance(item, AgentMessage) and item.text}
    assert texts == said


@given(
    params=st.dictionaries(
        st.sampled_from(["sessionId", "cwd", "prompt", "mcpServers", "cursor", "value"]), json_values()
    )
)
def test_parameters_of_any_shape_are_decoded_or_refused(params: dict[str, Any]) -> None:
    readers = (
        inbound.new_session,
        inbound.fork_session,
        lambda given: inbound.open_session(given, replay=True),
        inbound.list_sessions,
        inbound.prompt,
        inbound.config_choice,
        inbound.protocol_version,
    )
    for read in readers:
        try:
            read(params)
        except InvalidCommand as refused:
            assert str(refused)
    for version in (1, 2):
        inbound.client_features({"clientCapabilities": params.get("cwd")}, version)
