"""Whoever has no token gets no socket, whatever else lies at its path."""

from pathlib import Path

import anyio
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hames.clock_and_ids import SystemClock
from hames.domain.commands import ListThreads, ThreadPage
from hames.testing.fakes.model import ScriptedModel
from server_support import running
from support import engine

TOKEN = "a-token-that-nobody-guesses-0123456789"
HELLO = '{"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "x", "version": "1"}}}'
START = '{"id": 2, "method": "thread/start", "params": {}}'


@pytest.mark.parametrize("path", ["/", "/flint", "/bootstrap", "/ws", "/t/x", "/assets/x.js", "/healthz", "/x.md"])
async def test_net_7_without_the_token_no_path_has_a_socket(tmp_path: Path, path: str) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data", token=TOKEN) as server,
    ):
        heard: list[str | bytes] = []
        with anyio.fail_after(60), pytest.raises((ConnectionClosed, InvalidStatus)):
            async with connect(server.url.replace("http", "ws", 1) + path, proxy=None) as socket:
                await socket.send(HELLO)
                await socket.send(START)
                while True:
                    heard.append(await socket.recv())
        page = await its_engine.execute(ListThreads())
        assert isinstance(page, ThreadPage)
        assert (heard, page.threads) == ([], ())
