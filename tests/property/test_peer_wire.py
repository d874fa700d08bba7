"""What one process says to another is what the other one reads."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hames.domain import errors
from hames.domain.commands import Command
from hames.domain.errors import HarnessError
from hames.ports import PeerAnswer
from hames.server.peers import wire
from hames.testing.generators.values import values

ERRORS = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, HarnessError)]


@given(st.one_of([values(kind) for kind in get_args(Command)]))
def test_a_command_arrives_as_it_was_sent(command: Command) -> None:
    line = wire.encode_line(wire.command_request(7, command, "key", 3))
    assert line.count(b"\n") == 1
    request = wire.decode_line(line)
    assert isinstance(request, wire.PeerRequest)
    assert (request.id, request.key, request.seen) == (7, "key", 3)
    assert wire.decode_command(request) == command


@settings(max_examples=20)
@given(values(PeerAnswer))
def test_an_answer_arrives_as_it_was_given(answer: PeerAnswer) -> None:
    reply = wire.decode_line(wire.encode_line(wire.PeerReply(id=7, answer=answer)))
    assert reply == wire.PeerReply(id=7, answer=answer)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_a_refusal_keeps_its_type_and_its_words(kind: type[HarnessError]) -> None:
    reply = wire.decode_line(wire.encode_line(wire.refusal(7, kind("because of 'this'"))))
    assert isinstance(reply, wire.PeerReply)
    error = wire.raised(reply)
    assert (type(error), str(error)) == (kind, "because of 'this'")


@given(st.binary(max_size=200))
def test_noise_is_no_message(noise: bytes) -> None:
    assert wire.decode_line(noise) is None or noise.lstrip().startswith(b"{")


def test_a_command_of_another_version_is_refused_in_words() -> None:
    for name, body in (("Unheard", b"{}"), ("RenameThread", b'{"title":7}'), ("", b"null")):
        line = b'{"do":"execute","id":1,"command":"%b","body":%b}' % (name.encode(), body)
        request = wire.decode_line(line)
        assert isinstance(request, wire.PeerRequest)
        with pytest.raises(HarnessError, match="of another version"):
            wire.decode_command(request)
