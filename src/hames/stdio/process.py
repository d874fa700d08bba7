"""JSON lines over the process's own stdin and stdout: one client, for as long as it is there.

EOF ends it with code 0; SIGTERM, SIGINT and SIGHUP end it with 128 and their number. Either way running
turns are interrupted, logs are closed, the client is told how its turns ended, and the process is gone within 5 s.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio

from hames.core.engine import Engine
from hames.protocols.session import Session
from hames.stdio.connection import Connection, read_lines
from hames.stdio.descriptors import Start
from hames.stdio.pipes import Inbox, open_inbox, open_outbox

log = logging.getLogger(__name__)

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LAST_WORDS_SECONDS = 1.0
"""For what is still to be sent when everything else is over."""
EXIT_SECONDS = 4.5
"""After that the process ends, whatever hangs. The log is whole at any moment."""


OpenEngine = Callable[[], AbstractAsyncContextManager[Engine]]


async def serve(open_engine: OpenEngine, session: Session, start: Start) -> int:
    """The exit code. Raises what `open_engine` raises."""
    try:
        return await _serve(open_engine, session, start)
    except BaseExceptionGroup as group:
        raise _innermost(group) from None


async def _serve(open_engine: OpenEngine, session: Session, start: Start) -> int:
    inbox = await open_inbox(start.wire.incoming, start.received)
    outbox = await open_outbox(start.wire.outgoing)
    ending = _Ending(inbox)
    async with anyio.create_task_group() as tasks:
        await tasks.start(ending.watch_signals)
        async with anyio.create_task_group() as followers:  # outlives the engine: clients hear how turns ended
            async with open_engine() as engine:
                log.info("server.started", extra={"pid": os.getpid()})
                connection = Connection(engine, session, outbox, followers)
                await connection.serve(read_lines(inbox), answered=start.answered)
                ending.begin()
            followers.cancel_scope.deadline = anyio.current_time() + LAST_WORDS_SECONDS
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await outbox.flush()
        tasks.cancel_scope.cancel()
    code = ending.finish()
    log.info("server.ended", extra={"exit_code": code})
    return code


def _innermost(error: BaseException) -> BaseException:
    """Task groups wrap what happens inside them, even a single thing."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class _Ending:
    """Why and how the process ends. It does end, even if something hangs."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._code = 0
        self._alarm: threading.Timer | None = None

    async def watch_signals(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        with anyio.open_signal_receiver(*STOPPING) as received:
            task_status.started()
            async for number in received:
                self._code = 128 + number
                self.begin()
                self._inbox.end()

    def begin(self) -> None:
        if self._alarm is None:
            self._alarm = threading.Timer(EXIT_SECONDS, self._give_up)
            self._alarm.daemon = True
            self._alarm.start()

    def finish(self) -> int:
        if self._alarm is not None:
            self._alarm.cancel()
        return self._code

    def _give_up(self) -> None:
        log.error("exit.forced", extra={"after_s": EXIT_SECONDS})
        os._exit(self._code)


def exit_code(code: int) -> int:
    """The same code, even when nobody reads stderr any more and the interpreter would complain of it."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        os._exit(code)
    return code
