"""Runs the user's own `!commands` and shows their output in the transcript."""

import time
from collections.abc import Callable
from pathlib import Path

import anyio

from hames.protocols.flint.items import CommandExecutionItem
from hames.tui import user_shell
from hames.tui.blocks.actions import UserCommand
from hames.tui.transcript import Transcript


class UserCommands:
    """`on_end` is called with each command's output when it has ended by itself."""

    def __init__(self, on_end: Callable[[user_shell.Ran], None]) -> None:
        self._on_end = on_end
        self._running: list[anyio.CancelScope] = []
        """The newest last."""

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    def stop_newest(self) -> None:
        self._running[-1].cancel()

    async def run(self, command: str, cwd: Path, transcript: Transcript) -> None:
        started = time.monotonic()
        block = UserCommand(CommandExecutionItem(id="", command=command, cwd=str(cwd), status="inProgress"))
        transcript.append(block)
        transcript.to_end()

        def show(text: str) -> None:
            block.add(text)
            transcript.changed(block)

        ran: user_shell.Ran | None = None
        with anyio.CancelScope() as scope:
            self._running.append(scope)
            ran = await user_shell.run(command, cwd, show)
        self._running.remove(scope)
        block.end(ran, duration_ms=round((time.monotonic() - started) * 1000))
        if ran is not None:
            self._on_end(ran)
        transcript.changed(block)
