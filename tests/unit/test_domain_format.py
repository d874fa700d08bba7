"""A log of format 1 stays readable. `format-1.jsonl` is what version 0.1 wrote: lines are added, never changed."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from hames.domain.approvals import Elicit, Harmless, Intent
from hames.domain.events import FORMAT, Event, Record
from hames.domain.items import Item, UserInput
from hames.domain.policy import Grant, SandboxPolicy

LINES = Path(__file__).with_name("format-1.jsonl").read_bytes().splitlines()
NEVER_LOGGED = {Harmless}


@pytest.mark.parametrize("line", LINES, ids=lambda line: msgspec.json.decode(line)["event"]["type"])
def test_a_line_of_old_means_what_it_meant(line: bytes) -> None:
    record = msgspec.json.decode(line, type=Record)
    written = msgspec.json.decode(msgspec.json.encode(record))
    assert _contains(written, msgspec.json.decode(line))


def _contains(new: Any, old: Any) -> bool:
    """Members may have been added since, and none lost or changed."""
    match new, old:
        case dict(), dict():
            return all(name in new and _contains(new[name], old[name]) for name in old)
        case list(), list():
            return len(new) == len(old) and all(map(_contains, new, old))
        case _:
            return new == old and type(new) is type(old)


def test_every_word_a_log_can_hold_is_in_the_sample() -> None:
    seen: set[type] = set()
    for line in LINES:
        _collect(msgspec.json.decode(line, type=Record), seen)
    words = {kind for union in (Event, Item, UserInput, Intent, Grant, SandboxPolicy) for kind in get_args(union)}
    words |= {Elicit}
    assert words - NEVER_LOGGED <= seen


def _collect(value: Any, seen: set[type]) -> None:
    if isinstance(value, msgspec.Struct):
        seen.add(type(value))
        for name in value.__struct_fields__:
            _collect(getattr(value, name), seen)
    elif isinstance(value, tuple):
        for inner in value:
            _collect(inner, seen)


def test_the_sample_is_of_format_1_and_later_ones_have_the_same_words() -> None:
    """Format 2 has seals and format 3 has others, which are no part of a record."""
    assert msgspec.json.decode(LINES[0], type=Record).event.format == 1
    assert FORMAT == 3


@pytest.mark.parametrize(
    "line", [b'{"seq":1}', b"[]", b'{"seq":1,"at_ms":1,"thread_id":"t","event":{"type":"from_1"}}']
)
def test_a_line_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(line, type=Record)
