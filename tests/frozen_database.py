"""The way from one node to the database, as a relay that can stop at any round trip: to the database the node is dead.

The relay counts the round trips of all connections of the node. At a chosen one it stops: before the request reaches
the database, or after the database has carried it out and before the node hears so. Then nothing passes in either
direction until `thaw`, which is a process that was stopped and goes on, or until the end, which is one that was killed.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

SOCKET = ".s.PGSQL.5432"


class FrozenDatabase:
    """`freeze_at` counts from 1; 0: only by hand. `answered`: the database carries out the last request."""

    def __init__(self, target: Path, directory: Path, *, freeze_at: int, answered: bool) -> None:
        self.directory = directory
        self.count = 0
        self.frozen = anyio.Event()
        self._target = target
        self._freeze_at = freeze_at
        self._answered = answered
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.server: asyncio.Server | None = None

    def address(self, original: str) -> str:
        """The same database by way of this relay."""
        return f"{original.partition('?')[0]}?host={self.directory}&port=5432"

    def freeze(self) -> None:
        self._open.clear()
        self.frozen.set()

    def thaw(self) -> None:
        self._freeze_at = 0
        self._open.set()

    def cut(self) -> None:
        """Every connection ends, and none is made any more: the database is gone for this node."""
        if self.server is not None:
            self.server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_unix_connection(str(self._target))
        except OSError:
            writer.close()
            return
        self._writers |= {writer, back}
        tasks = [asyncio.create_task(self._requests(reader, back)), asyncio.create_task(self._answers(there, writer))]
        self._tasks |= set(tasks)
        try:
            with suppress(asyncio.CancelledError):  # the test is over
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._tasks -= set(tasks)
            for one in (writer, back):
                self._writers.discard(one)
                one.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            size = await reader.readexactly(4)  # the first message has no kind
            writer.write(size + await reader.readexactly(int.from_bytes(size) - 4))
            while True:
                head = await reader.readexactly(5)
                body = await reader.readexactly(int.from_bytes(head[1:]) - 4)
                await self._open.wait()
                if head[:1] in (b"S", b"Q"):
                    self.count += 1
                    if self.count == self._freeze_at:
                        self.freeze()
                        if not self._answered:
                            await self._open.wait()
                writer.write(head + body)
                await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._open.wait()
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def frozen_database(
    cluster_home: Path, *, freeze_at: int = 0, answered: bool = False
) -> AsyncGenerator[FrozenDatabase]:
    with tempfile.TemporaryDirectory(prefix="hames-relay-") as directory:
        relay = FrozenDatabase(cluster_home / SOCKET, Path(directory), freeze_at=freeze_at, answered=answered)
        relay.server = await asyncio.start_unix_server(relay.serve, str(Path(directory) / SOCKET))
        try:
            yield relay
        finally:
            relay.thaw()
            relay.cut()
