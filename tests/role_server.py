"""A real server with one named token for each role, and its sockets."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from websockets.asyncio.client import ClientConnection, connect

from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.approvals import RunCommand
from hames.domain.commands import ListThreads, ThreadPage
from hames.domain.roles import NAMED_ROLES
from hames.ports import Tool
from hames.server.app import Server
from hames.server.guard.named_tokens import TokenFile
from hames.server.unix import NAME
from hames.testing.fakes.model import ScriptedModel
from server_support import running
from support import PlainTool, echo, engine

OWNER = "the-owner-token-0123456789"
DANGER = PlainTool("danger", echo, intent=RunCommand(command="rm x", cwd="/w"))


class RoleServer:
    """A server with one token for each role."""

    def __init__(self, server: Server, engine: Engine, directory: Path, tokens: dict[str, str]) -> None:
        self.server = server
        self.engine = engine
        self.directory = directory
        self.tokens = {**tokens, "owner": OWNER}

    def headers(self, role: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens[role]}"}

    @asynccontextmanager
    async def socket(self, role: str, path: str) -> AsyncGenerator[ClientConnection]:
        url = self.server.url.replace("http", "ws", 1) + path
        headers = self.headers(role) if role else {}
        async with connect(url, additional_headers=headers, proxy=None, compression=None) as found:
            yield found

    async def everything(self) -> Any:
        """All that is in any log."""
        page = await self.engine.execute(ListThreads(archived=None))
        assert isinstance(page, ThreadPage)
        return {one.id: [change.record for change in await self.engine.history(one.id)] for one in page.threads}


@asynccontextmanager
async def role_server(
    directory: Path, model: ScriptedModel, *tools: Tool, token: str | None = OWNER
) -> AsyncGenerator[RoleServer]:
    state = directory / "state"
    tokens = {role: TokenFile(state).add(f"{role}-1", role, now_ms=0) for role in NAMED_ROLES}
    async with (
        engine(model, *tools, clock=SystemClock(), cwd=directory, patience_s=0.2) as built,
        running(built, directory / "data", token=token, tokens_dir=state) as server,
    ):
        yield RoleServer(server, built, directory, tokens)


async def ask(socket: ClientConnection, method: str, params: Any, number: int = 1, *, rpc: bool = False) -> Any:
    message = {"id": number, "method": method, "params": params, **({"jsonrpc": "2.0"} if rpc else {})}
    await socket.send(json.dumps(message))
    with anyio.fail_after(60):
        while True:
            heard = json.loads(await socket.recv())
            if heard.get("id") == number and "method" not in heard:
                return heard


async def hear_method(socket: ClientConnection, method: str) -> Any:
    with anyio.fail_after(60):
        while (heard := json.loads(await socket.recv())).get("method") != method:
            pass
    return heard


@asynccontextmanager
async def open_lines(here: RoleServer, role: str, way: str, protocol: str) -> AsyncGenerator[Any]:
    number = 100
    rpc = protocol == "bootstrap"
    if way == "websocket":
        async with here.socket(role, f"/{protocol}") as socket:

            async def over_socket(method: str, params: Any) -> Any:
                nonlocal number
                number += 1
                return await ask(socket, method, params, number, rpc=rpc)

            yield over_socket
        return
    async with await anyio.connect_unix(here.directory / "data" / NAME) as stream:
        await stream.send(f"{protocol} {here.tokens[role]}\n".encode())
        received = b""

        async def over_unix(method: str, params: Any) -> Any:
            nonlocal number, received
            number += 1
            message = {"id": number, "method": method, "params": params, **({"jsonrpc": "2.0"} if rpc else {})}
            await stream.send(json.dumps(message).encode() + b"\n")
            with anyio.fail_after(60):
                while True:
                    while b"\n" not in received:
                        received += await stream.receive()
                    line, _, received = received.partition(b"\n")
                    heard = json.loads(line)
                    if heard.get("id") == number and "method" not in heard:
                        return heard

        yield over_unix
