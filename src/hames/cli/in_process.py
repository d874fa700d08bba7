"""A server inside this process, for a command that needs one for itself alone.

The command speaks to it through the same client as to any other server, over bytes in memory: a second interpreter
would cost more than most commands do.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio

from hames.app import catalogue, default_settings, open_engine
from hames.client.appserver.client import AppServerClient
from hames.client.unreachable import Unreachable
from hames.config.load import Options
from hames.domain.errors import HarnessError, InvalidCommand, Misconfigured
from hames.protocols.flint.session import FlintSession
from hames.stdio.connection import Connection, read_lines

OUTBOX_BYTES = 4 << 20
LAST_WORDS_SECONDS = 1.0
EXIT_SECONDS = 4.5
"""How long closing may take before the process ends anyway. The log is whole at any moment."""


@asynccontextmanager
async def in_process(options: Options, *, name: str, continues: bool = True) -> AsyncGenerator[AppServerClient]:
    """Raises `Unreachable` when the server cannot be opened. `continues` False: for a command that only looks, or
    changes something that has nothing to do with turns."""
    _set_up_logs(options)
    try:
        models = catalogue(options)
        session = FlintSession(models, default_settings(options, models), home=str(options.data_dir))
    except HarnessError as problem:
        raise _unreachable(problem) from None
    pipe = _Pipe()
    async with anyio.create_task_group() as followers:  # outlives the engine: the client hears how turns ended
        opened = open_engine(options, models=models, continues=continues)
        try:
            engine = await opened.__aenter__()
        except HarnessError as problem:
            raise _unreachable(problem) from None
        try:
            followers.start_soon(Connection(engine, session, pipe, followers).serve, read_lines(pipe.requests()))
            async with AppServerClient.connect(pipe, name=name) as client:
                yield client
        finally:
            with _ending_soon():
                await opened.__aexit__(None, None, None)
        followers.cancel_scope.deadline = anyio.current_time() + LAST_WORDS_SECONDS


def _unreachable(problem: HarnessError) -> Unreachable:
    return Unreachable(str(problem), 2 if isinstance(problem, InvalidCommand | Misconfigured) else 1)


def _set_up_logs(options: Options) -> None:
    """Into a file, to stderr where --log-level was given, else nowhere: stderr shows what the agent does."""
    if options.log_file or options.settings["log_level"].origin == "flag":
        from hames import logs

        logs.set_up(level=options.log_level, file=options.log_file)
    else:
        logging.getLogger().addHandler(logging.NullHandler())


class _ending_soon:  # noqa: N801 - reads as a function
    """Ends the process if closing the engine hangs."""

    def __enter__(self) -> None:
        self._alarm = threading.Timer(EXIT_SECONDS, os._exit, (1,))
        self._alarm.daemon = True
        self._alarm.start()

    def __exit__(self, *_: object) -> None:
        self._alarm.cancel()


class _Pipe:
    """The client's stream and the server's outbox, back to back."""

    def __init__(self) -> None:
        self._sent, self._arriving = anyio.create_memory_object_stream[bytes](16)
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._closed = False
        self._wake = anyio.Event()
        self._less = anyio.Event()

    # -- the client's side

    async def send(self, item: bytes) -> None:
        await self._sent.send(item)

    async def receive(self, max_bytes: int = 65536) -> bytes:  # noqa: ARG002 - what there is, is in memory already
        while not self._waiting:
            if self._closed:
                raise anyio.EndOfStream
            self._wake = anyio.Event()
            await self._wake.wait()
        data, self._waiting, self._bytes = b"".join(self._waiting), deque(), 0
        self._less.set()
        return data

    async def aclose(self) -> None:
        self._closed = True
        self._sent.close()
        self._wake.set()
        self._less.set()

    # -- the server's side

    async def requests(self) -> AsyncIterator[bytes]:
        async with self._arriving:
            async for chunk in self._arriving:
                yield chunk

    def write(self, data: bytes) -> None:
        if data and not self._closed:
            self._waiting.append(data)
            self._bytes += len(data)
            self._wake.set()

    async def room(self) -> None:
        while self._bytes > OUTBOX_BYTES and not self._closed:
            self._less = anyio.Event()
            await self._less.wait()
