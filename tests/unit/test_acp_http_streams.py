"""ACP over HTTP: the answer to `session/load` comes behind the history, though they leave on different streams."""

import json

import anyio
import pytest

from hames.server.acp.streams import CONNECTION, ClientStreams


def line(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


HISTORY = line(method="session/update", params={"sessionId": "s", "update": {}})
ANSWER = line(id=1, result={})


def loading() -> ClientStreams:
    streams = ClientStreams()
    streams.write(line(id=0, result={}))  # the answer to initialize
    streams.route(b"1", CONNECTION, behind="s")
    return streams


async def read(streams: ClientStreams, name: str) -> bytes:
    with anyio.fail_after(60):
        return await streams.stream(name).read()


def waits(streams: ClientStreams, name: str) -> bool:
    return streams.stream(name).has_events


async def test_the_answer_to_a_load_waits_until_the_history_was_sent() -> None:
    streams = loading()
    streams.stream("s").has_reader = True
    streams.write(HISTORY * 3 + ANSWER + HISTORY)
    assert not waits(streams, CONNECTION)
    assert (await read(streams, "s")).count(b"session/update") == 3
    assert not waits(streams, CONNECTION), "taken is not sent"
    assert (await read(streams, "s")).count(b"session/update") == 1
    assert b'"id": 1' in await read(streams, CONNECTION)


async def test_history_that_comes_while_the_last_piece_is_being_sent_is_waited_for_too() -> None:
    streams = loading()
    streams.stream("s").has_reader = True
    streams.write(HISTORY)
    await read(streams, "s")
    streams.write(ANSWER)
    assert not waits(streams, CONNECTION), "the first piece is still being sent"
    streams.write(HISTORY)
    await read(streams, "s")
    assert waits(streams, CONNECTION)


@pytest.mark.parametrize("how", ["nobody reads", "nothing was told", "the reader goes", "the connection ends"])
async def test_the_answer_to_a_load_waits_for_nobody_who_does_not_read(how: str) -> None:
    streams = loading()
    session = streams.stream("s")
    session.has_reader = how != "nobody reads"
    streams.write(ANSWER if how == "nothing was told" else HISTORY + ANSWER)
    if how == "the reader goes":
        session.reader_gone()
    elif how == "the connection ends":
        streams.end()
    assert b'"id": 1' in await read(streams, CONNECTION)
