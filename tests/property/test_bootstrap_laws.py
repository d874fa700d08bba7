"""The laws of bootstrap: it can tell every history, live or from the log, and leaves nothing open."""

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hames.domain.errors import HarnessError, InvalidCommand
from hames.domain.events import ItemDelta, ItemStarted, Record
from hames.protocols.bootstrap import errors, inbound, messages, outbound
from hames.protocols.bootstrap.inbound import decode
from hames.protocols.rpc_session import Notify
from hames.testing.generators.histories import changes, check_each_item_once, cut_histories, histories, kept
from hames.testing.generators.values import json_values, values


def told(history: list[Record]) -> list[dict[str, Any]]:
    """As events: each notification with its method as `type`."""
    return [json.loads(event) for event in map(bytes, outbound.kept_events(list(changes(history))))]


def item_ids(method: str) -> Any:
    return lambda said: [said.params.item_id] if said.method == method else []


@pytest.mark.spec("bootstrap/notify-item-started", "bootstrap/notify-item-completed", "bootstrap/item-tool-log")
@given(histories())
def test_every_item_is_started_once_and_completed_once(history: list[Record]) -> None:
    check_each_item_once(
        history, outbound.project, started=item_ids("item.started"), completed=item_ids("item.completed")
    )


@given(histories(), st.data())
def test_a_log_that_lost_deltas_and_starts_is_still_told_item_by_item(
    history: list[Record], data: st.DataObject
) -> None:
    """A crash may cost deltas, a damaged log the start of an item; a delta may say nothing."""
    damaged: list[Record] = []
    for record in history:
        event = record.event
        if isinstance(event, ItemDelta | ItemStarted) and data.draw(st.booleans()):
            continue
        if isinstance(event, ItemDelta) and data.draw(st.booleans()):
            event = replace(event, text="")
        damaged.append(replace(record, event=event))
    check_each_item_once(
        damaged, outbound.project, started=item_ids("item.started"), completed=item_ids("item.completed")
    )


@given(histories())
def test_every_started_turn_ends_exactly_once(history: list[Record]) -> None:
    events = told(history)
    started = [event["turnId"] for event in events if event["type"] == "turn.started"]
    ended = [event["turnId"] for event in events if event["type"] in ("turn.completed", "turn.error")]
    assert started == ended
    assert len(set(started)) == len(started)


@pytest.mark.spec("bootstrap/notify-item-delta")
@given(histories())
def test_deltas_added_to_the_started_item_give_the_completed_one(history: list[Record]) -> None:
    texts: dict[tuple[str, str], str] = {}
    for event in told(history):
        if event["type"] == "item.delta":
            key = (event["itemId"], event["field"])
            texts[key] = texts.get(key, "") + event["delta"]
        if event["type"] == "item.completed":
            for field in ("text", "summary", "output"):
                key = (event["itemId"], field)
                if key in texts:
                    assert event["item"]["data"][field] == texts.pop(key)
    assert not texts


@pytest.mark.spec("bootstrap/thread-get-full-history")
@given(cut_histories())
def test_the_kept_history_says_what_live_clients_heard(history: list[Record]) -> None:
    """Only the pieces of a bundle come together."""
    joined: list[dict[str, Any]] = []
    for event in told(history):
        last = joined[-1] if joined else {}
        if event["type"] == last.get("type") == "item.delta" and event["seq"] == last["seq"]:
            joined[-1] = {**last, "delta": last["delta"] + event["delta"]}
        else:
            joined.append(event)
    assert told(kept(history)) == joined


@given(histories())
def test_every_notification_fits_its_message_type(history: list[Record]) -> None:
    for change in changes(history):
        for said in outbound.project(change):
            wire = json.loads(msgspec.json.encode(said.params))
            assert msgspec.convert(wire, messages.NOTIFICATIONS[said.method]) == said.params


@given(cut_histories())
def test_pending_approvals_are_repeated_as_they_were_asked(history: list[Record]) -> None:
    all_changes = list(changes(history))
    asked: list[Notify] = [
        said for change in all_changes for said in outbound.project(change) if said.method == "approval.requested"
    ]
    pending = {approval.id for approval in all_changes[-1].after.approvals}
    assert outbound.pending_approvals(all_changes) == [said for said in asked if said.params.request_id in pending]


@given(st.sampled_from(sorted(messages.REQUESTS)), st.dictionaries(st.text(max_size=9), json_values(), max_size=4))
def test_decoding_raises_invalid_command_and_nothing_else(method: str, params: dict[str, Any]) -> None:
    with suppress(InvalidCommand):
        decode(method, params)


@st.composite
def almost_right(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Parameters of the right type, one of them replaced by anything."""
    method = draw(st.sampled_from(sorted(messages.REQUESTS)))
    params = msgspec.to_builtins(draw(values(messages.REQUESTS[method][0])))
    if params and draw(st.booleans()):
        params[draw(st.sampled_from(sorted(params)))] = draw(json_values())
    return method, params


@given(almost_right())
def test_decoding_what_is_almost_right_raises_invalid_command_and_nothing_else(
    message: tuple[str, dict[str, Any]],
) -> None:
    try:
        inbound.decode(*message)
    except HarnessError as error:
        assert errors.code(error) == -32602
