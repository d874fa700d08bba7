"""stdin and stdout joined to a running server: every byte goes through as it is.

So a program that knows only how to start a stdio server takes part in threads that live elsewhere.
"""

from pathlib import Path

import anyio
from anyio.abc import SocketStream

from hames.domain.errors import Misconfigured
from hames.server.socket_path import short_path
from hames.server.unix import NAME
from hames.stdio.descriptors import Start
from hames.stdio.pipes import Inbox, PipeOutbox, open_inbox, open_outbox

SERVER_GONE = 1


async def attach(directory: Path, protocol: str, start: Start) -> int:
    """The exit code: 0 when stdin ended, 1 when the server did. Raises `Misconfigured` where none runs."""
    with short_path(directory) as path:
        try:
            stream = await anyio.connect_unix(path)
        except (OSError, ValueError):
            raise Misconfigured(
                f"no server runs on {str(directory)!r}: {NAME} does not answer; start one with `hames serve`"
            ) from None
    inbox = await open_inbox(start.wire.incoming, start.received)
    outbox = await open_outbox(start.wire.outgoing)
    bridge = _Bridge(stream, inbox, outbox)
    async with stream:
        await stream.send(f"{protocol}\n".encode())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bridge.take)
            await bridge.give()
            tasks.cancel_scope.cancel()
    await outbox.flush()
    return 0 if bridge.ended else SERVER_GONE


class _Bridge:
    def __init__(self, stream: SocketStream, inbox: Inbox, outbox: PipeOutbox) -> None:
        self._stream = stream
        self._inbox = inbox
        self._outbox = outbox
        self.ended = False
        """stdin said all it had to say."""

    async def take(self) -> None:
        try:
            async for chunk in self._inbox:
                await self._stream.send(chunk)
            self.ended = True
            await self._stream.send_eof()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return

    async def give(self) -> None:
        try:
            async for chunk in self._stream:
                self._outbox.write(chunk)
                await self._outbox.room()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return
