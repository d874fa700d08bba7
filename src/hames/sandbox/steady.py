"""Walls that are put up again when what they were to cover has vanished in the meantime.

Other programs' sockets come and go. One that goes between being looked up and being covered makes
bubblewrap give up before the program has begun; then, and only then, it is tried again: bubblewrap itself
says on a descriptor of its own whether the program began.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio

from hames.sandbox.process import LocalProcess

TRIES = 12
_VOICE = b"bwrap: "
_NO_PROGRAM = b"bwrap: execvp "
_LONGEST_BYTES = 4096

Again = Callable[[], Awaitable[tuple[LocalProcess, Callable[[], bool]]]]


class SteadyProcess:
    """Implements `ports.Process`. `began` says, once the process has ended, whether the program ever began."""

    def __init__(self, process: LocalProcess, *, began: Callable[[], bool], again: Again) -> None:
        self._process = process
        self._began = began
        self._again = again
        self._tries = TRIES
        self._stopped = False
        self._restarting = anyio.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def notes(self) -> tuple[str, ...]:
        return self._process.notes

    async def output(self) -> AsyncGenerator[bytes, None]:
        while True:
            process, held, clear = self._process, b"", False
            async for chunk in process.output():
                if clear:
                    yield chunk
                    continue
                held += chunk
                clear = len(held) > _LONGEST_BYTES or held[: len(_VOICE)] != _VOICE[: len(held)]
                if clear:
                    yield held
            if not held.startswith(_NO_PROGRAM) and await self._restarted(process):
                continue
            if not clear and held:
                yield held
            return

    async def wait(self) -> int:
        while True:
            process = self._process
            code = await process.wait()
            if not await self._restarted(process):
                return code

    async def kill(self) -> None:
        self._stopped = True
        await self._process.kill()

    async def _restarted(self, process: LocalProcess) -> bool:
        """Whether there is another process to turn to."""
        with anyio.CancelScope(shield=True):
            async with self._restarting:
                if self._process is process and not self._stopped and self._tries and not self._began():
                    await process.kill()
                    self._tries -= 1
                    self._process, self._began = await self._again()
        return self._process is not process
