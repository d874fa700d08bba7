"""The published types are those we use."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hames.cli import schema
from hames.cli.main import main
from hames.domain.events import Record
from hames.protocols.bootstrap import messages, outbound
from hames.protocols.bootstrap.greeting import RESULT
from hames.protocols.schema import json_schema
from hames.testing.generators.histories import changes, histories
from hames.testing.generators.values import values

COMMITTED = Path(__file__).resolve().parents[2] / "schemas"


def validator(name: str) -> Any:
    published = json_schema(messages.PUBLISHED)
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": published["$defs"]})


def test_the_committed_schemas_are_the_generated_ones() -> None:
    for name, text in schema.files().items():
        assert (COMMITTED / name).read_text(encoding="utf-8") == text, "run `hames schema --out schemas`"


def test_the_command_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--out", str(tmp_path / "new")]) == 0
    written = {str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*.*")}
    assert written == set(schema.files())
    assert "schema.json" in capsys.readouterr().out


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(messages.PUBLISHED))


@settings(max_examples=15)
@given(histories(max_turns=2))
def test_every_event_fits_the_schema(history: list[Record]) -> None:
    check = validator("Event")
    for event in outbound.kept_events(list(changes(history))):
        check.validate(json.loads(bytes(event)))


@settings(max_examples=30)
@given(st.data())
def test_what_fits_the_type_fits_the_schema(data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(sorted(messages.REQUESTS)))
    params = data.draw(values(messages.REQUESTS[method][0]))
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": json.loads(msgspec.json.encode(params))}
    validator("Request").validate(message)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 1, "method": "thread.list"},
        {"jsonrpc": "2.0", "id": 1, "method": "thread.get"},
        {"jsonrpc": "2.0", "id": 1, "method": "no.such", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "turn.start", "params": {"threadId": "t", "input": [{"type": "video"}]}},
        {"jsonrpc": "2.0", "id": 1, "method": "approval.respond", "params": {"requestId": "r", "decision": "Once"}},
    ],
)
def test_what_is_wrong_does_not_fit_the_schema(wrong: dict[str, Any]) -> None:
    assert not validator("Request").is_valid(wrong)


def test_the_first_answer_fits_its_type() -> None:
    """It is written out by hand, because it is given before any type is imported."""
    assert msgspec.to_builtins(msgspec.convert(RESULT, messages.InitializeResult)) == RESULT
