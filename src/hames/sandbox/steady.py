"""Walls that are put up again when what they were to cover has vanished in the meantime.

Other programs' sockets come and go. One that goes between being looked up and being covered makes
bubblewrap give up before the program has begun; then, and only then, it is tried again: bubblewrap itself
says on a descriptor of its own whether the program began, and the disk says whether something is gone.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio

from hames.sandbox.process import LocalProcess

PATIENCE_SECONDS = 5.0
"""How long walls are put up again. Counting tries would give up on a busy machine, where each of them takes long."""

_VOICE = b"bwrap: "
_LONGEST_BYTES = 4096

Again = Callable[[], Awaitable[tuple[LocalProcess, Callable[[], bool]]]]


class SteadyProcess:
    """Implements `ports.Process`. `mistaken` says, of an ended process, whether it never began for that reason."""

    def __init__(self, process: LocalProcess, *, mistaken: Callable[[], bool], again: Again) -> None:
        self._process = process
        self._mistaken = mistaken
        self._again = again
        self._deadline = anyio.current_time() + PATIENCE_SECONDS
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
            if await self._restarted(process):
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
                if self._process is process and not self._stopped and self._patient() and self._mistaken():
                    await process.kill()
                    self._process, self._mistaken = await self._again()
        return self._process is not process

    def _patient(self) -> bool:
        return anyio.current_time() < self._deadline
