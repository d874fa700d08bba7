"""What is published of sync, of SSE and of the runner is what travels, and the TypeScript client has no other types."""

import json
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hames.codecs.jsontext import encode
from hames.domain.events import Record
from hames.domain.state import summary
from hames.protocols.runner import messages as runner
from hames.protocols.runner.outbound import project as run_events
from hames.protocols.runner.published import PUBLISHED as RUNNER
from hames.protocols.schema import Published, json_schema
from hames.protocols.sse.outbound import project as sse_events
from hames.protocols.sse.published import PUBLISHED as SSE
from hames.protocols.sync import messages as m
from hames.protocols.sync import pages
from hames.protocols.sync.outbound import Projector, snapshot
from hames.protocols.sync.published import PUBLISHED as SYNC
from hames.protocols.sync.view import Offer
from hames.testing.fakes.model import OneModel, ScriptedModel
from hames.testing.generators.histories import changes, histories
from hames.testing.generators.values import values

OFFER = Offer(models=OneModel(ScriptedModel([])), listed=())


def validator(published: Published, name: str) -> Any:
    defs = json_schema(published)["$defs"]
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": defs})


@pytest.mark.parametrize("published", [SYNC, SSE, RUNNER], ids=lambda one: one.name)
def test_the_schema_is_a_schema(published: Published) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(published))


@settings(max_examples=15)
@given(histories(max_turns=2))
def test_whatever_is_told_fits_the_schema(history: list[Record]) -> None:
    message, event, projector = validator(SYNC, "ServerMessage"), validator(SSE, "Event"), Projector(OFFER)
    happenings = {kind: validator(RUNNER, kind.__name__) for kind in runner.NAMES}
    for change in changes(history):
        told: list[Any] = [
            snapshot(change.after, OFFER),
            m.DeltaMessage(operations=tuple(projector.project(change)), rev=change.record.seq),
            pages.ThreadsMessage(threads=(pages.row(summary(change.after), change.after),)),
        ]
        for one in told:
            message.validate(json.loads(encode(one)))
        for one in sse_events(change):
            event.validate(json.loads(encode(one)))
        for one in run_events(change):
            happenings[type(one)].validate(json.loads(encode(one)))


@settings(max_examples=30)
@given(st.data())
def test_every_command_fits_the_schema(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(SYNC.unions["HarnessCommand"]))
    command = json.loads(msgspec.json.encode(data.draw(values(kind))))
    validator(SYNC, "ClientMessage").validate({"type": "commands", "commands": [command]})


def test_a_server_that_knows_only_the_specification_fits() -> None:
    call = {"id": "c1", "name": "shell", "status": "running"}
    said = {"id": "m1", "role": "assistant", "content": "", "status": "streaming", "toolCalls": [call]}
    validator(SYNC, "ServerMessage").validate({"type": "state", "state": {"status": "running", "messages": [said]}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "state", "state": {"messages": []}},
        {"type": "delta", "operations": [{"type": "remove", "path": []}]},
        {"type": "error"},
        {"type": "news"},
    ],
)
def test_what_is_wrong_does_not_fit(wrong: dict[str, Any]) -> None:
    assert not validator(SYNC, "ServerMessage").is_valid(wrong)
