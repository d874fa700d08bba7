"""What holds for flint whatever happens: every history can be told in both dialects, and no message crashes it."""

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.client.appserver.events import ItemCompleted, ItemDelta, ItemStarted, Unknown, read_event
from hames.domain.errors import InvalidCommand, UnknownMethod
from hames.domain.events import Record
from hames.domain.items import Item, Plan
from hames.domain.json import NOTHING
from hames.domain.state import Change
from hames.protocols.flint import inbound
from hames.protocols.flint.codex import inbound as codex_inbound
from hames.protocols.flint.codex.dialect import CodexDialect
from hames.protocols.flint.dialect import About, FlintDialect
from hames.protocols.flint.items import AgentMessageItem, CommandExecutionItem, PlanItem, ReasoningItem, UnknownItem
from hames.protocols.flint.outbound import project
from hames.protocols.rpc_session import Ask, Notify, Outgoing, Settled
from hames.testing.generators.histories import changes, check_each_item_once, cut_histories, histories
from hames.testing.generators.values import json_values

ABOUT = About(version="1", provider="anthropic", home="/h")
SEED = FlintDialect(ABOUT, lambda _: 200_000)
CODEX = CodexDialect(ABOUT, lambda _: None)


def told(history: Iterable[Record], dialect: FlintDialect) -> list[Outgoing]:
    return [message for change in changes(history) for message in project(change, dialect)]


def wire(message: Outgoing) -> Any:
    """As a client reads it."""
    assert isinstance(message, Notify | Ask)
    return msgspec.json.decode(msgspec.json.encode(message.params))


def items_of(method: str, message: Outgoing) -> list[str]:
    return [wire(message)["item"]["id"]] if isinstance(message, Notify) and message.method == method else []


@pytest.mark.parametrize("dialect", [SEED, CODEX], ids=["seed", "codex"])
@pytest.mark.spec("flint/item-lifecycle")
@given(history=histories())
def test_any_history_is_told_each_item_started_once_and_completed_once(
    history: list[Record], dialect: FlintDialect
) -> None:
    def shown(item: Item) -> bool:
        return dialect is SEED or not isinstance(item, Plan)  # Codex tells a plan in another way

    def tell(change: Change) -> list[Outgoing]:
        return project(change, dialect)

    check_each_item_once(
        history,
        tell,
        started=partial(items_of, "item/started"),
        completed=partial(items_of, "item/completed"),
        shown=shown,
    )


@given(history=cut_histories())
def test_every_turn_that_ended_was_told_as_started_and_then_as_completed(history: list[Record]) -> None:
    seen: dict[str, list[str]] = defaultdict(list)
    for message in told(history, SEED):
        if isinstance(message, Notify) and message.method in ("turn/started", "turn/completed"):
            seen[wire(message)["turn"]["id"]].append(message.method)
    for methods in seen.values():
        assert methods in (["turn/started"], ["turn/started", "turn/completed"])


@pytest.mark.spec("flint/item-completed-authoritative", "flint/item-started-full")
@given(history=histories())
def test_the_pieces_a_client_hears_add_up_to_the_item_it_is_given_in_the_end(history: list[Record]) -> None:
    heard: dict[tuple[str, str], str] = defaultdict(str)
    for message in told(history, SEED):
        if not isinstance(message, Notify):
            continue
        match read_event(message.method, wire(message)):
            case ItemDelta(item_id=item_id, channel=channel, text=text):
                heard[item_id, channel] += text
            case ItemCompleted(item=AgentMessageItem(id=item_id, text=text)):
                assert text == heard[item_id, "agentMessage/delta"]
            case ItemCompleted(item=PlanItem(id=item_id, text=text)):
                assert text == heard[item_id, "plan/delta"]
            case ItemCompleted(item=ReasoningItem(id=item_id, content=content, summary=summary)):
                assert (content or "") == heard[item_id, "reasoning/textDelta"]
                assert (summary or "") == heard[item_id, "reasoning/summaryTextDelta"]
            case ItemCompleted(item=CommandExecutionItem(id=item_id, aggregated_output=output)):
                assert (output or "") == heard[item_id, "commandExecution/outputDelta"]
            case _:
                pass


@pytest.mark.spec("flint/plan-shared-types", "flint/plan-sdk-events")
@given(history=histories())
def test_our_client_understands_everything_our_server_says(history: list[Record]) -> None:
    for message in told(history, SEED):
        if not isinstance(message, Notify):
            continue
        event = read_event(message.method, wire(message))
        if isinstance(event, ItemStarted | ItemCompleted):
            assert not isinstance(event.item, UnknownItem)
        assert not isinstance(event, Unknown) or message.method.startswith("hames/")


@given(history=histories())
def test_every_question_is_settled_once(history: list[Record]) -> None:
    asked: list[str] = []
    settled: list[str] = []
    for message in told(history, SEED):
        match message:
            case Ask(approval_id=approval_id):
                asked.append(approval_id)
            case Settled(approval_id=approval_id):
                settled.append(approval_id)
            case Notify():
                pass
    assert sorted(asked) == sorted(settled)
    assert len(set(asked)) == len(asked)


METHODS = sorted({*inbound.ROUTES, *codex_inbound.ROUTES, *codex_inbound.FIXED})
MEMBERS = [
    "threadId",
    "input",
    "cwd",
    "model",
    "sandbox",
    "sandboxPolicy",
    "approvalPolicy",
    "config",
    "limit",
    "target",
]


@given(
    method=st.sampled_from(METHODS),
    params=st.dictionaries(st.sampled_from(MEMBERS) | st.text(max_size=6), json_values(), max_size=5),
)
def test_no_parameters_make_the_door_raise_anything_but_a_refusal(method: str, params: dict[str, Any]) -> None:
    for decode in (inbound.decode, codex_inbound.decode):
        try:
            decode(method, params)
        except (InvalidCommand, UnknownMethod) as refusal:
            assert str(refusal)


@pytest.mark.spec("flint/meta-anywhere", "flint/meta-no-assumptions")
@given(meta=json_values())
def test_meta_of_any_shape_on_any_object_changes_nothing(meta: Any) -> None:
    part = {"type": "text", "text": "hi"}
    plain: dict[str, Any] = {"threadId": "t", "input": [part], "sandboxPolicy": {"type": "workspaceWrite"}}
    marked = {
        **plain,
        "_meta": meta,
        "input": [{**part, "_meta": meta}],
        "sandboxPolicy": {"type": "workspaceWrite", "_meta": meta},
    }
    expected = inbound.decode("turn/start", plain)
    got = inbound.decode("turn/start", marked)
    assert (got.meta, got.content[0].meta) == (meta, meta)  # carried through, untouched
    bare = msgspec.structs.replace(got, meta=NOTHING, content=(msgspec.structs.replace(got.content[0], meta=NOTHING),))
    assert bare == expected


@given(st.text(min_size=1), json_values())
@pytest.mark.spec("flint/client-ignores-unknown-notifications")
def test_our_client_reads_any_notification_and_loses_none(method: str, params: Any) -> None:
    event = read_event(method, params)
    if isinstance(event, Unknown):
        assert (event.method, event.params) == (method, params)
