"""The server that the network attacks are made against."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.commands import ListThreads, ThreadPage
from hames.domain.json import Json
from hames.server.app import Server
from hames.server.listener import Address
from hames.testing.fakes.model import ScriptedModel
from server_support import http, port_of, running
from support import engine

MIB = 1 << 20


@asynccontextmanager
async def house(
    directory: Path, model: ScriptedModel | None = None, token: str | None = None, **address: Json
) -> AsyncGenerator[tuple[Engine, Server]]:
    """A server that must be whole again after whatever was done to it."""
    async with (
        engine(model or ScriptedModel(), clock=SystemClock(), compacts=False) as its_engine,
        running(its_engine, directory / "data", token=token, address=Address(port=0, **address)) as server,
    ):
        yield its_engine, server
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with http(server, **headers) as client:
            with anyio.fail_after(60):
                assert (await client.get("/healthz")).status_code == 200


async def threads(its_engine: Engine) -> int:
    page = await its_engine.execute(ListThreads())
    assert isinstance(page, ThreadPage)
    return len(page.threads)


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class RawSocket:
    """A WebSocket client without manners."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self.stream = stream
        self.received = b""

    async def code(self) -> int:
        """The close code the server sends, whatever comes before it."""
        with anyio.fail_after(60):
            while True:
                position = 0
                while position + 2 <= len(self.received):
                    opcode, length = self.received[position] & 0x0F, self.received[position + 1] & 0x7F
                    start = position + 2
                    if length == 126:
                        length = int.from_bytes(self.received[start : start + 2])
                        start += 2
                    elif length == 127:
                        length = int.from_bytes(self.received[start : start + 8])
                        start += 8
                    if start + length > len(self.received):
                        break
                    if opcode == 8:
                        return int.from_bytes(self.received[start : start + 2])
                    position = start + length
                self.received += await self.stream.receive()


@asynccontextmanager
async def raw_socket(server: Server, **headers: str) -> AsyncGenerator[RawSocket]:
    async with await anyio.connect_tcp("127.0.0.1", port_of(server)) as stream:
        host = server.url.removeprefix("http://")
        lines = [f"{name}: {value}" for name, value in {"Host": host, **UPGRADE, **headers}.items()]
        await stream.send(("GET /ws HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += await stream.receive()
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert b"sec-websocket-extensions" not in answer.lower(), "compression is off"
        client = RawSocket(stream)
        client.received = answer.partition(b"\r\n\r\n")[2]
        yield client
