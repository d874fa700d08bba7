"""Asynchronous reading and writing of stdin and stdout (pipes, files, terminals), with backpressure.

asyncio protocols on the pipes themselves: anyio's wrapped files take ten times as long for a line. Files,
terminals and devices are no pipes: a thread reads them, and they are written at once.
"""

import asyncio
import logging
import os
import stat
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import BinaryIO, Protocol

log = logging.getLogger(__name__)

OUTBOX_BYTES = 4 * 1024 * 1024
"""What a client may leave unread before we stop talking to it."""
INBOX_BYTES = 1024 * 1024
"""What we read ahead of what we have answered."""


class Inbox:
    """What was read and not yet taken, as chunks. Its source pauses when that is too much."""

    def __init__(self, received: bytes) -> None:
        self._waiting = deque([received] if received else [])
        self.waiting_bytes = len(received)
        self._ended = False
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self.source: asyncio.ReadTransport | None = None

    def put(self, chunk: bytes) -> None:
        self._waiting.append(chunk)
        self.waiting_bytes += len(chunk)
        if self.waiting_bytes > INBOX_BYTES and self.source is not None:
            self.source.pause_reading()
        self._wake.set()

    async def offer(self, chunk: bytes) -> None:
        """`put` for a source that can wait."""
        self.put(chunk)
        while self.waiting_bytes > INBOX_BYTES and not self._ended:
            self._room.clear()
            await self._room.wait()

    def close(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._wake.set()

    def end(self) -> None:
        """Take nothing more."""
        self._waiting.clear()
        self._room.set()
        self.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        chunk = self._waiting.popleft()
        self.waiting_bytes -= len(chunk)
        if self.waiting_bytes <= INBOX_BYTES // 2:
            self._room.set()
            if self.source is not None:
                self.source.resume_reading()
        return chunk


class PipeOutbox(Protocol):
    """Where lines leave. `write` never waits and never fails; whoever can wait asks for `room` first."""

    def write(self, data: bytes) -> None: ...

    async def room(self) -> None: ...

    async def flush(self) -> None:
        """The last call: returns when everything was sent, or cannot be."""
        ...


async def open_inbox(descriptor: int, received: bytes = b"") -> Inbox:
    """`received` is what somebody has read from it already."""
    inbox = Inbox(received)
    loop = asyncio.get_running_loop()
    if _is_pipe(descriptor):
        await loop.connect_read_pipe(lambda: _PipeReader(inbox), os.fdopen(descriptor, "rb", buffering=0))
    else:
        # A daemon: a read from a terminal cannot be interrupted, and must not keep the process alive.
        threading.Thread(target=_read_in_thread, args=(descriptor, inbox, loop), daemon=True).start()
    return inbox


async def open_outbox(descriptor: int) -> PipeOutbox:
    file = os.fdopen(descriptor, "wb", buffering=0)
    if not _is_pipe(descriptor):
        return _FileWriter(file)
    loop = asyncio.get_running_loop()
    _, writer = await loop.connect_write_pipe(_PipeWriter, file)
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        # asyncio takes anything that can be read here for the end of the reader. Where stdin and stdout are one
        # socket, that is the client's next message. That the client has gone is noticed when something is written.
        loop.remove_reader(descriptor)
    return writer


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _PipeReader(asyncio.Protocol):
    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)
        self._inbox.source = transport

    def data_received(self, data: bytes) -> None:
        self._inbox.put(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            log.warning("stdin.failed", extra={"why": str(exc)})
        self._inbox.source = None
        self._inbox.close()


def _read_in_thread(descriptor: int, inbox: Inbox, loop: asyncio.AbstractEventLoop) -> None:
    try:
        while chunk := os.read(descriptor, 65536):
            asyncio.run_coroutine_threadsafe(inbox.offer(chunk), loop).result()
    except OSError as failure:
        log.warning("stdin.failed", extra={"why": str(failure)})
    except RuntimeError:  # the loop is closed: everything is over
        return
    loop.call_soon_threadsafe(inbox.close)


class _PipeWriter(asyncio.BaseProtocol):
    """A reader that stops costs `OUTBOX_BYTES` and one answer at most; one that is gone costs nothing."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._gone = asyncio.Event()
        self._room.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.set_write_buffer_limits(high=OUTBOX_BYTES)
        self._transport = transport

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            log.info("client.gone", extra={"why": str(exc)})
        self._gone.set()
        self._room.set()

    def write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def room(self) -> None:
        if not self._room.is_set():
            await self._room.wait()

    async def flush(self) -> None:
        if self._transport is not None:
            self._transport.close()  # what is left goes first
            await self._gone.wait()


class _FileWriter:
    """A file takes everything at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._failed = False

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left and not self._failed:
                left = left[self._file.write(left) :]
        except OSError as failure:  # a full disk: there is nobody to tell
            self._failed = True
            log.warning("stdout.failed", extra={"why": str(failure)})

    async def room(self) -> None:
        return

    async def flush(self) -> None:
        return
