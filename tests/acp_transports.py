"""The client of `acp_support` over `/acp` of a server: event streams and WebSocket."""

import json
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from acp_support import AcpClient
from hames.server.app import Server


class SocketClient(AcpClient):
    def __init__(self, server: Server, tasks: TaskGroup, version: int, answer: str | None) -> None:
        super().__init__(tasks, version, answer)
        self._url = f"{server.url.replace('http', 'ws', 1)}/acp"
        self._socket: ClientConnection | None = None
        self._opening = anyio.Lock()

    async def _connected(self) -> ClientConnection:
        async with self._opening:
            if self._socket is None:
                self._socket = await connect(self._url, max_size=None, compression=None, proxy=None)
                self.tasks.start_soon(self._hear, self._socket)
        return self._socket

    async def _hear(self, socket: ClientConnection) -> None:
        try:
            async for text in socket:
                self.wire.write(str(text).encode() + b"\n")
        except ConnectionClosed:
            pass

    async def send_raw(self, line: bytes) -> None:
        socket = await self._connected()
        try:
            await socket.send(line.decode())
        except UnicodeDecodeError:
            await socket.send(line)

    async def hang_up(self) -> None:
        await (await self._connected()).close()

    async def vanish(self) -> None:
        (await self._connected()).transport.abort()


class StreamsClient(AcpClient):
    """Messages are posted one after the other; a session's stream is opened before the first message about it."""

    def __init__(self, server: Server, tasks: TaskGroup, version: int, answer: str | None) -> None:
        super().__init__(tasks, version, answer)
        self.refusals: list[int] = []
        """With which status a message was refused."""
        self._http = httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=60)
        self._headers: dict[str, str] = {}
        self._posting = anyio.Lock()
        self._streams: dict[str, anyio.CancelScope] = {}

    async def send_raw(self, line: bytes) -> None:
        try:
            message: Any = json.loads(line)
        except ValueError:
            message = None
        params = message.get("params") if isinstance(message, dict) else None
        named = params.get("sessionId") if isinstance(params, dict) else None
        async with self._posting:
            headers = {**self._headers, "content-type": "application/json"}
            if isinstance(named, str) and self._headers:
                headers["acp-session-id"] = named
                if named not in self._streams:
                    await self.tasks.start(self._listen, named)
            answer = await self._http.post("/acp", content=line, headers=headers)
            if answer.status_code >= 400:
                self.refusals.append(answer.status_code)
            elif answer.status_code == 200:
                self._headers = {"acp-connection-id": answer.headers["acp-connection-id"]}
                await self.tasks.start(self._listen, "")
                self.wire.write(answer.content.strip() + b"\n")

    async def _listen(self, session: str, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        headers = {"accept": "text/event-stream", **self._headers, **({"acp-session-id": session} if session else {})}
        with anyio.CancelScope() as scope:
            self._streams[session] = scope
            async with self._http.stream("GET", "/acp", headers=headers, timeout=None) as stream:
                assert stream.status_code == 200, await stream.aread()
                task_status.started()
                async for line in stream.aiter_lines():
                    if line.startswith("data: "):
                        self.wire.write(line.removeprefix("data: ").encode() + b"\n")

    async def hang_up(self) -> None:
        await self._http.delete("/acp", headers=self._headers)

    async def vanish(self) -> None:
        """Reads and writes nothing more, and says nothing about it."""
        for scope in self._streams.values():
            scope.cancel()


TRANSPORTS = {"http": StreamsClient, "websocket": SocketClient}
