"""flint's published types are those we use, and its union of items is open."""

import json
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hames.domain.events import Record
from hames.protocols.flint import greeting, inbound
from hames.protocols.flint import messages as m
from hames.protocols.flint.dialect import About, FlintDialect
from hames.protocols.flint.outbound import project
from hames.protocols.flint.published import NOTIFICATIONS, PUBLISHED, REQUESTS
from hames.protocols.rpc_session import Ask, Notify
from hames.protocols.schema import json_schema
from hames.testing.generators.histories import changes, histories

SHAPE = FlintDialect(About(version="1", provider="anthropic", home="/h"), lambda _: 200_000)
SCHEMA = json_schema(PUBLISHED)


def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def item_started(item: dict[str, Any]) -> dict[str, Any]:
    return {"method": "item/started", "params": {"threadId": "t", "turnId": "u", "item": item}}


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("method", REQUESTS)
def test_null_counts_as_left_out_wherever_a_parameter_may_be_left_out(method: str) -> None:
    shape = REQUESTS[method][0]
    for field in msgspec.structs.fields(shape):
        if not field.required:
            msgspec.convert(None, field.type)  # raises where null is refused


@pytest.mark.spec("flint/open-item-union")
@pytest.mark.parametrize(
    ("item", "fits"),
    [
        ({"type": "agentMessage", "id": "i", "text": "Hello"}, True),
        ({"type": "agentMessage", "id": "i", "text": "Hello", "_meta": [1], "extra": {"a": None}}, True),
        ({"type": "hologram", "id": "i", "depth": 3}, True),
        ({"type": "agentMessage", "id": "i"}, False),
        ({"id": "i", "text": "Hello"}, False),
    ],
    ids=["known", "known, with more", "unknown", "known, with less", "without a type"],
)
def test_an_item_of_an_unknown_type_fits_and_a_broken_one_of_a_known_type_does_not(
    item: dict[str, Any], *, fits: bool
) -> None:
    assert validator("Notification").is_valid(item_started(item)) is fits


@settings(max_examples=25)
@given(histories(max_turns=2))
def test_whatever_is_told_fits_the_schema(history: list[Record]) -> None:
    notification, ask = validator("Notification"), validator("Ask")
    for change in changes(history):
        for message in project(change, SHAPE):
            if isinstance(message, Ask):
                told = {"id": message.approval_id, "method": message.method, "params": message.params}
                ask.validate(json.loads(msgspec.json.encode(told)))
            elif isinstance(message, Notify) and message.method in NOTIFICATIONS:
                told = {"method": message.method, "params": message.params}
                notification.validate(json.loads(msgspec.json.encode(told)))
            elif isinstance(message, Notify):
                assert message.method.startswith("hames/")


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 1, "method": "turn/start", "params": {"threadId": "t"}},
        {"id": 1, "method": "turn/start", "params": {"threadId": "t", "input": []}},
        {"id": 1, "method": "thread/list", "params": {"limit": 0}},
        {"id": 1, "method": "thread/start", "params": {"sandbox": "readOnly"}},
        {"method": "thread/list", "params": {}},
    ],
)
def test_what_is_wrong_does_not_fit_the_schema(wrong: dict[str, Any]) -> None:
    assert not validator("Request").is_valid(wrong)


def test_every_request_we_offer_is_published() -> None:
    assert REQUESTS.keys() == inbound.ROUTES.keys()
    assert set(greeting.METHODS) == inbound.ADDED.keys()


def test_the_first_answer_fits_its_type() -> None:
    """It is written out by hand, because it is given before any type is imported."""
    told = greeting.result(version="1", provider="p", home="/h", options=True, reasoning=False)
    assert msgspec.to_builtins(msgspec.convert(told, m.InitializeResult)) == told


@given(st.sampled_from(sorted(REQUESTS)))
def test_a_request_without_parameters_fits_exactly_where_we_accept_it(method: str) -> None:
    message = {"id": 1, "method": method}
    try:
        inbound.decode(method, {})
    except inbound.InvalidCommand:
        assert not validator("Request").is_valid(message)
    else:
        assert validator("Request").is_valid(message)
