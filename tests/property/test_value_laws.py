"""What is written is what is read, for every word of the domain."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hames.domain.approvals import Approval, Intent
from hames.domain.commands import Command, ThreadPage
from hames.domain.events import Event, Record
from hames.domain.items import Item, UserInput
from hames.domain.models import ModelCard
from hames.domain.options import Selector, Settings
from hames.domain.policy import Grant, SandboxPolicy
from hames.domain.request import Block, ModelRequest
from hames.domain.state import ThreadState
from hames.ports import Launch
from hames.testing.generators.values import json_values, values

UNIONS = (Event, Item, UserInput, Intent, Grant, SandboxPolicy, Block)
KINDS = [
    *(kind for union in (*UNIONS, Command) for kind in get_args(union)),
    *(Record, ThreadState, Approval, Settings, Selector, ThreadPage, ModelCard, ModelRequest, Launch),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=settings().max_examples // 6)  # of each of 80 kinds
@given(st.data())
def test_a_value_survives_being_written(kind: Any, data: st.DataObject) -> None:
    value = data.draw(values(kind))
    assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value


@pytest.mark.parametrize("union", UNIONS, ids=lambda union: get_args(union)[0].__name__)
@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_a_value_is_read_as_the_variant_it_was(union: Any, data: st.DataObject) -> None:
    value = data.draw(values(union))
    read = msgspec.json.decode(msgspec.json.encode(value), type=union)
    assert type(read) is type(value)
    assert read == value


@given(values(Record), st.dictionaries(st.text(min_size=1), json_values()))
def test_a_reader_ignores_members_it_does_not_know(record: Record, extra: dict[str, Any]) -> None:
    known = msgspec.to_builtins(record)
    richer = {**{f"x-{name}": value for name, value in extra.items()}, **known}
    assert msgspec.json.decode(msgspec.json.encode(richer), type=Record) == record
