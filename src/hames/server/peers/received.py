"""Reads a socket that another task may close, or whose reader may be cancelled, at the moment when data comes.

anyio's own `receive` leaves `set_result` with the event loop as the callback: if it runs in the round in which the
future was cancelled or resolved by `aclose`, the loop logs an `InvalidStateError`. `wait_readable` expects that.
"""

from collections.abc import AsyncIterator

import anyio
from anyio.abc import SocketAttribute, SocketStream


async def received(stream: SocketStream) -> AsyncIterator[bytes]:
    """The chunks that come, until the other side ends. Raises what `receive` raises."""
    raw = stream.extra(SocketAttribute.raw_socket)
    while True:
        if raw.fileno() < 0:
            raise anyio.ClosedResourceError
        await anyio.wait_readable(raw)
        try:
            yield await stream.receive()
        except anyio.EndOfStream:
            return


async def close_stream(stream: SocketStream) -> None:
    """Closes it, and ends `received` in another task with `ClosedResourceError`."""
    raw = stream.extra(SocketAttribute.raw_socket)
    if raw.fileno() >= 0:
        anyio.notify_closing(raw)
    await stream.aclose()
