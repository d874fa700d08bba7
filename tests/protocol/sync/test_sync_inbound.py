"""What clients of sync may say. A message is understood whole, or not at all."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.domain.json import Json
from hames.domain.policy import ReadOnly, WorkspaceWrite
from hames.protocols.sync import messages as m
from hames.protocols.sync.inbound import MAX_COMMANDS, Refused, decode
from hames.testing.generators.values import json_values


def said(*commands: Json) -> bytes:
    return msgspec.json.encode({"type": "commands", "commands": list(commands)})


@pytest.mark.spec(
    "sync/client-commands-message", "sync/command-submit", "sync/command-cancel", "sync/client-sends-commands"
)
def test_the_two_commands_of_the_specification() -> None:
    assert decode(said({"type": "submit", "prompt": "Hello"}, {"type": "cancel"})) == [
        m.Submit(prompt="Hello"),
        m.Cancel(),
    ]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (
            {"type": "submit", "prompt": "", "id": "p-1_A", "attachments": [{"type": "image", "id": "u"}]},
            m.Submit(prompt="", id="p-1_A", attachments=(m.ImageAttachment(id="u"),)),
        ),
        ({"type": "steer", "prompt": "x"}, m.Steer(prompt="x")),
        ({"type": "approve", "id": "a", "decision": "once"}, m.Approve(id="a", decision="once")),
        (
            {"type": "configure", "model": "x", "sandbox": {"type": "readOnly"}, "options": {"a": "b"}},
            m.Configure(model="x", sandbox=ReadOnly(), options={"a": "b"}),
        ),
        (
            {"type": "configure", "sandbox": {"type": "workspaceWrite", "networkAccess": True}},
            m.Configure(sandbox=WorkspaceWrite(network_access=True)),
        ),
        ({"type": "dequeue", "id": "p"}, m.Dequeue(id="p")),
        ({"type": "rename", "title": "T"}, m.Rename(title="T")),
        ({"type": "compact"}, m.Compact()),
        (
            {"type": "review", "target": {"kind": "commit", "text": "abc"}},
            m.Review(target=m.ReviewTarget(kind="commit", text="abc")),
        ),
        ({"type": "cancel", "unknown": 1, "_meta": {}}, m.Cancel()),
    ],
)
def test_a_command_means_what_it_says(given: Json, meant: m.SyncCommand) -> None:
    assert decode(said(given)) == [meant]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"type":"commands"}',
        b'{"type":"command","commands":[]}',
        b'{"type":"commands","commands":{}}',
        b'{"type":"commands","commands":[1]}',
        b'{"type":"commands","commands":[{"type":"sudo"}]}',
        b'{"type":"commands","commands":[{"type":"submit"}]}',
        b'{"type":"commands","commands":[{"type":"submit","prompt":1}]}',
        b'{"type":"commands","commands":[{"type":"submit","prompt":"  "}]}',
        b'{"type":"commands","commands":[{"type":"submit","prompt":"x","id":"a b"}]}',
        b'{"type":"commands","commands":[{"type":"submit","prompt":"x","id":""}]}',
        b'{"type":"commands","commands":[{"type":"approve","id":"a","decision":"void"}]}',
        b'{"type":"commands","commands":[{"type":"approve","id":"a","decision":"once","decision":"reject"}]}',
        b'{"type":"commands","commands":[{"type":"cancel"}],"commands":[]}',
        b"\xff\xfe",
        b"[" * 100_000,
        b"NaN",
    ],
)
def test_what_is_not_understood_is_refused_with_a_sentence(text: bytes) -> None:
    with pytest.raises(Refused) as caught:
        decode(text)
    assert str(caught.value)


def test_one_bad_command_refuses_the_message() -> None:
    with pytest.raises(Refused):
        decode(said({"type": "submit", "prompt": "x"}, {"type": "sudo"}))


def test_a_refused_submit_is_named() -> None:
    with pytest.raises(Refused) as caught:
        decode(said({"type": "submit", "prompt": 7, "id": "p1"}))
    assert caught.value.submit_id == "p1"


def test_a_message_of_too_many_commands_is_refused() -> None:
    assert len(decode(said(*[{"type": "cancel"}] * MAX_COMMANDS))) == MAX_COMMANDS
    with pytest.raises(Refused):
        decode(said(*[{"type": "cancel"}] * (MAX_COMMANDS + 1)))


def test_lone_surrogates_are_mended_before_they_are_kept() -> None:
    [command] = decode(b'{"type":"commands","commands":[{"type":"submit","prompt":"a\\ud800b"}]}')
    assert command == m.Submit(prompt="a\ufffdb")


@given(
    st.binary(max_size=200) | json_values().map(msgspec.json.encode) | st.lists(json_values()).map(lambda v: said(*v))
)
def test_nothing_but_a_refusal_ever_comes_out(text: bytes) -> None:
    with suppress(Refused):
        decode(text)
