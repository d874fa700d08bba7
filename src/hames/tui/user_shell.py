"""`!command`: a command the user runs himself, from the composer.

It runs in the user's own shell and environment, in the workspace, outside the sandbox: it is the user's command, not
the agent's. The protocol has no request for it, so its output goes to the model with the next message.
"""

import codecs
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import ByteReceiveStream, Process

from hames.domain.items import OUTPUT_HEAD
from hames.domain.value import Value

SHOWN_CHARACTERS = 1 << 20
"""Output beyond this is not shown; the command keeps running."""
SENT_CHARACTERS = 16_000
"""Of a longer output the model gets the beginning and the end."""
PIPE_SECONDS = 0.5
"""How long output is awaited after the command itself has ended: something it started may hold the pipe for ever."""
STOP_SECONDS = 2.0
THROTTLE_SECONDS = 0.01


class Ran(Value):
    """A command that has ended. `exit_code` is negative when a signal ended it, None when it could not be started."""

    command: str
    exit_code: int | None
    output: str

    @property
    def status(self) -> Literal["completed", "failed"]:
        return "completed" if self.exit_code == 0 else "failed"


def user_shell() -> str:
    shell = os.environ.get("SHELL", "")
    return shell if shell.startswith("/") and os.access(shell, os.X_OK) else "/bin/sh"


async def run(command: str, cwd: Path, on_output: Callable[[str], None]) -> Ran:
    """Returns when it has ended. Cancelled, it ends the command and everything it started."""
    try:
        process = await anyio.open_process(
            [user_shell(), "-c", command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as failure:
        return Ran(command=command, exit_code=None, output=f"could not be started: {failure}")
    kept = _Kept(on_output)
    try:
        async with anyio.create_task_group() as tasks:
            assert process.stdout is not None
            tasks.start_soon(_read, process.stdout, kept)
            await process.wait()
            tasks.cancel_scope.deadline = anyio.current_time() + PIPE_SECONDS
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                await _stop(process)
            await process.aclose()
    return Ran(command=command, exit_code=process.returncode, output=kept.text)


class _Kept:
    def __init__(self, on_output: Callable[[str], None]) -> None:
        self._on_output = on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []
        self._size = 0
        self._tail = ""
        """The end of what did not fit."""

    def feed(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        room = SHOWN_CHARACTERS - self._size
        if room > 0:
            self._pieces.append(text[:room])
            self._on_output(text[:room])
        self._size += len(text)
        if self.full:
            self._tail = (self._tail + text)[-SENT_CHARACTERS:]

    @property
    def full(self) -> bool:
        return self._size > SHOWN_CHARACTERS

    @property
    def text(self) -> str:
        whole = "".join(self._pieces)
        return (
            f"{whole}\n[{self._size} characters in all; the middle is left out]\n{self._tail}" if self.full else whole
        )


async def _read(stream: ByteReceiveStream, kept: _Kept) -> None:
    try:
        async for chunk in stream:
            kept.feed(chunk)
            # Something that writes without end must not take the keys away.
            await anyio.sleep(THROTTLE_SECONDS if kept.full else 0)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


async def _stop(process: Process) -> None:
    """The command and everything it started."""
    _signal(process, signal.SIGTERM)
    with anyio.move_on_after(STOP_SECONDS):
        await process.wait()
    _signal(process, signal.SIGKILL)


def _signal(process: Process, number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return


def as_context(ran: Ran) -> str:
    """What the model reads of it."""
    output, size = ran.output.rstrip("\n"), len(ran.output)
    if size > SENT_CHARACTERS:
        half = SENT_CHARACTERS // 2
        output = f"{output[:half]}\n[… {size - SENT_CHARACTERS} characters left out …]\n{output[-half:]}"
    code = f"exit code {ran.exit_code}" if ran.exit_code is not None else "not started"
    return f"{OUTPUT_HEAD} ({code}):\n\n$ {ran.command}\n{output or '(no output)'}"


def context_label(text: str) -> str | None:
    """How the screen shows such a part of a message; None for any other text.

    >>> context_label(as_context(Ran(command="ls", exit_code=0, output="a\\nb")))
    '[output of !ls]'
    """
    head, found, rest = text.partition(":\n\n$ ")
    if not found or not head.startswith(f"{OUTPUT_HEAD} ("):
        return None
    return f"[output of !{rest.partition(chr(10))[0]}]"
