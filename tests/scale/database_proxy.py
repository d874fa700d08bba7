"""A proxy between a node and its database that does what networks do: delay, throttle, reset, half-close, lose."""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from hames.testing.services.postgres import Cluster

CHUNK = 16_384


class DatabaseProxy:
    """What is set here holds at once, for connections that are open, too."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.port = 0
        self.delay_s = 0.0
        """Of every piece, in both directions."""
        self.bytes_per_s = 0
        """0: no limit."""
        self.is_silent = False
        """A black hole: connections are taken and nothing passes."""
        self.refuses = False
        self._silence_over = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.passed = 0
        """Bytes."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            _reset(writer)
            return
        try:
            back_reader, back_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            _reset(writer)
            return
        self._writers |= {writer, back_writer}
        pumps = [asyncio.ensure_future(self._pump(*ends)) for ends in ((reader, back_writer), (back_reader, writer))]
        self._tasks |= set(pumps)
        await asyncio.gather(*pumps, return_exceptions=True)
        self._tasks -= set(pumps)
        for one in (writer, back_writer):
            self._writers.discard(one)
            one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                while self.is_silent:
                    await self._silence_over.wait()
                await asyncio.sleep(self.delay_s + (len(data) / self.bytes_per_s if self.bytes_per_s else 0.0))
                writer.write(data)
                await writer.drain()
                self.passed += len(data)
            writer.write_eof()

    def be_silent(self) -> None:
        self.is_silent = True
        self._silence_over.clear()

    def heal(self) -> None:
        self.is_silent, self.refuses, self.delay_s, self.bytes_per_s = False, False, 0.0, 0
        self._silence_over.set()

    def reset(self) -> None:
        """Every open connection ends with RST, in the middle of whatever it does."""
        for one in list(self._writers):
            _reset(one)

    def half_close(self) -> None:
        """Every connection hears that the other end sends nothing more, and may go on sending."""
        for one in list(self._writers):
            with suppress(OSError):
                one.write_eof()

    def forget(self) -> None:
        """What was on its way is lost, and nobody is told: the connection looks alive to the node."""
        for task in list(self._tasks):
            task.cancel()


def _reset(writer: asyncio.StreamWriter) -> None:
    found = writer.get_extra_info("socket")
    if found is not None and found.family == socket.AF_INET:
        with suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def database_proxy(cluster: Cluster) -> AsyncGenerator[DatabaseProxy]:
    proxy = DatabaseProxy(f"{cluster.home}/.s.PGSQL.{cluster.port}")
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.heal()
        proxy.reset()
        proxy.forget()
