"""Nothing that comes in raises, and every request with a readable id is answered exactly once.

A few thousand lines in every run, a million in `make fuzz`; `FUZZ_LINES` and `FUZZ_SEED` choose others.
"""

import json
import os
import random
from typing import Any

import pytest
from mutations import lines

from hames.cli import first_answer
from hames.codecs.jsonrpc_peer import JsonRpcPeer, JsonRpcRefusal, JsonRpcRequest
from hames.codecs.lines import LineDecoder
from hames.domain.errors import InvalidCommand
from hames.domain.options import Settings
from hames.protocols.acp.session import AcpSession
from hames.protocols.bootstrap import errors, inbound
from hames.protocols.bootstrap.session import METHODS, RULES, BootstrapSession
from hames.protocols.flint import session as flint
from hames.protocols.session import Crashed
from hames.testing.checks.session import receive
from hames.testing.fakes.model import OneModel, ScriptedModel

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
COUNT = int(os.environ.get("FUZZ_LINES", "1000000" if LONG else "4000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
CHUNK = 2000


def seeds() -> list[int]:
    return [SEED + number for number in range(max(1, COUNT // CHUNK))]


def serve(peer: JsonRpcPeer, line: bytes) -> bytes:
    """As a connection would, short of the engine."""
    out = b""
    for message in peer.receive(line):
        if isinstance(message, JsonRpcRefusal):
            out += message.line
        elif isinstance(message, JsonRpcRequest):
            try:
                inbound.decode(message.method, message.params)
                out += peer.result(message, {})
            except InvalidCommand as error:
                code = errors.code(error)
                assert code != -32603, f"{line!r}: {error}"
                out += peer.error(message, code, str(error))
    return out


def readable(line: bytes) -> tuple[bool, list[Any]]:
    """By the standard library alone: whether this is JSON, and the ids of the requests in it."""
    try:
        text = line.decode()
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse, parse_int=_integer)
    except (ValueError, RecursionError):
        return False, []
    messages = value if isinstance(value, list) else [value]
    ids = [
        message["id"]
        for message in messages
        if isinstance(message, dict) and "id" in message and isinstance(message.get("method"), str)
    ]
    return True, [one for one in ids if isinstance(one, str | int | float) and not isinstance(one, bool)]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def _integer(text: str) -> float:
    """Near enough, and no limit of digits."""
    return float(text)


def _refuse(word: str) -> None:
    raise ValueError(word)


def answers(out: bytes) -> list[Any]:
    """Flat, each of them strict JSON on a line of its own."""
    found: list[Any] = []
    for text in out.decode().split("\n")[:-1]:
        value = json.loads(text, parse_constant=_refuse, parse_int=_integer)
        found += value if isinstance(value, list) else [value]
    return found


@pytest.mark.parametrize("seed", seeds())
def test_every_readable_request_is_answered_exactly_once(seed: int) -> None:
    peer = JsonRpcPeer(RULES, METHODS)
    for line in lines(seed, CHUNK):
        said = answers(serve(peer, line))
        is_json, ids = readable(line)
        for answer in said:
            assert answer["jsonrpc"] == "2.0"
            assert ("result" in answer) != ("error" in answer)
        if not is_json and line.strip(b" \t\r"):
            assert len(said) <= 1, line
        if is_json:
            answered = [answer["id"] for answer in said if answer["id"] is not None]
            missing = [one for one in ids if one not in answered]
            assert not missing or said[0]["error"]["code"] in (-32700, -32600), (line, said)
            assert len(answered) <= len(ids) + line.count(b'"id"'), (line, said)


@pytest.mark.parametrize("seed", seeds())
def test_nothing_raises_with_the_rules_of_flint_either(seed: int) -> None:
    peer = JsonRpcPeer(flint.RULES, flint.METHODS)
    for line in lines(seed, CHUNK):
        for message in peer.receive(line):
            if isinstance(message, JsonRpcRequest):
                assert message.method in flint.METHODS
                peer.result(message, {})


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", seeds())
def test_a_session_of_acp_answers_or_acts_and_never_crashes(seed: int, version: int) -> None:
    session = AcpSession(OneModel(ScriptedModel()), Settings(model="scripted/test", cwd="/w"))
    receive(session, b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%d}}' % version)
    for line in lines(seed, CHUNK):
        actions, out = receive(session, line)
        assert not any(isinstance(action, Crashed) for action in actions), line
        answers(out)
        is_json, ids = readable(line)
        assert out or actions or not is_json or not ids, line


@pytest.mark.parametrize("seed", seeds())
def test_the_first_line_is_answered_early_only_as_it_would_be_answered_late(seed: int) -> None:
    for line in lines(seed, CHUNK):
        early = first_answer._answer("harness", [], line)
        if early is not None:
            _, late = receive(BootstrapSession(), line)
            assert answers(early) == answers(late)


@pytest.mark.parametrize("seed", seeds())
def test_lines_may_be_cut_anywhere(seed: int) -> None:
    stream = b"\n".join(lines(seed, 200))
    dice, decoder, cut = random.Random(seed), LineDecoder(), []
    whole = LineDecoder()
    at = 0
    while at < len(stream):
        size = dice.randint(1, 900)
        cut += decoder.feed(stream[at : at + size])
        at += size
    assert cut + decoder.end() == whole.feed(stream) + whole.end()
