"""Walls that are put up again when what they were to cover has vanished in the meantime.

Other programs' sockets come and go, and so does what a run beside this one stood on the disk for itself. What goes
between being looked up and being mounted makes bubblewrap give up before the program has begun; then, and only then,
it is tried again: bubblewrap says on a descriptor of its own whether the program began.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import anyio

from hames.ports import TerminalSize
from hames.sandbox.processes.local_process import LocalProcess

TRIES = 12
_VOICE = b"bwrap: "
_NO_PROGRAM = b"bwrap: execvp "
_LONGEST_BYTES = 4096

Again = Callable[[], Awaitable[tuple[LocalProcess, Callable[[], bool]]]]


class RestartingProcess:
    """Implements `ports.Process`. `began` says, of an ended process, whether the program ever began.

    Whoever reads the output decides whether there is another try, because bubblewrap's complaint is in it.
    """

    def __init__(self, process: LocalProcess, *, began: Callable[[], bool], again: Again) -> None:
        self._process = process
        self._began = began
        self._again = again
        self._tries = TRIES
        self._stopped = False
        self._read: anyio.Event | None = None
        """Set when the output has been read to its end."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def notes(self) -> tuple[str, ...]:
        return self._process.notes

    async def output(self) -> AsyncGenerator[bytes, None]:
        self._read = anyio.Event()
        try:
            while True:
                held, clear = b"", False
                async for chunk in self._process.output():
                    if clear:
                        yield chunk
                        continue
                    held += chunk
                    clear = len(held) > _LONGEST_BYTES or held[: len(_VOICE)] != _VOICE[: len(held)]
                    if clear:
                        yield held
                if clear or held.startswith(_NO_PROGRAM) or not await self._restart():
                    break
            if not clear and held:
                yield held
        finally:
            self._read.set()

    async def wait(self) -> int:
        while True:
            process = self._process
            code = await process.wait()
            if self._read is not None:
                await self._read.wait()
            if self._process is process:
                return code

    async def kill(self) -> None:
        self._stopped = True
        await self._process.kill()

    async def write(self, data: bytes) -> int:
        return await self._process.write(data)

    def close_input(self) -> None:
        self._process.close_input()

    def resize(self, size: TerminalSize) -> None:
        self._process.resize(size)

    async def send_signal(self, number: int) -> None:
        await self._process.send_signal(number)

    async def inspect(self) -> Sequence[str]:
        return await self._process.inspect()

    async def _restart(self) -> bool:
        """Whether there is another process to turn to."""
        if self._stopped or not self._tries or self._began():
            return False
        with anyio.CancelScope(shield=True):
            await self._process.kill()
            self._tries -= 1
            self._process, self._began = await self._again()
        return True
