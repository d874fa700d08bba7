"""Starts the app server of the terminal as a child process, or a proxy to one that runs already (`--attach`)."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.stapled import StapledByteStream

from hames.client.appserver.client import AppServerClient
from hames.client.appserver.link import AppServerError, ConnectionClosed
from hames.client.unreachable import Unreachable

LAST_WORDS = 4000
CLOSE_SECONDS = 5.0
LAST_WORDS_SECONDS = 1.0
QUICK_READS, QUICK_SECONDS, GULP_SECONDS = 20, 0.004, 0.016

OpenConnection = Callable[[], AbstractAsyncContextManager[AppServerClient]]
"""Opens a connection; leaving it closes it."""


@asynccontextmanager
async def spawn_server(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, name: str = "hames-tui", version: str = "1"
) -> AsyncGenerator[AppServerClient]:
    """A server process that ends with the terminal. Its stderr is kept, to explain its end if it dies.

    In a session of its own: Ctrl+C in this terminal is a key for us and no signal for it.
    Raises `Unreachable` when it does not come up.
    """
    process = await anyio.open_process(list(command), env=env, start_new_session=True)
    assert process.stderr is not None
    words = bytearray()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_collect, process.stderr, words)
            try:
                pipes = _Pipes(process, words)
                async with _greeted(AppServerClient.connect(pipes, name=name, version=version), pipes) as client:
                    pipes.client = client
                    yield client
            finally:
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as failures:
        if (found := failures.subgroup(Unreachable)) is None:
            raise
        raise _first(found) from None
    finally:
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(CLOSE_SECONDS):
                await process.wait()
            if process.returncode is None:
                process.kill()
            await process.aclose()


class _Pipes(StapledByteStream):
    """The pipes of the server process; at the end of the stream they say why it ended."""

    def __init__(self, process: Process, words: bytearray) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        super().__init__(process.stdin, process.stdout)
        self.client: AppServerClient | None = None
        self._process = process
        self._words = words
        self._quick = 0
        """Consecutive reads that did not have to wait."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        # An answer that pours in is taken in gulps: waking up for each of a thousand pieces a second costs more than
        # the pieces do, and nobody sees the difference. A single message is never kept waiting.
        if self._quick > QUICK_READS:
            await anyio.sleep(GULP_SECONDS)
        started = anyio.current_time()
        try:
            received = await super().receive(max_bytes)
            self._quick = self._quick + 1 if anyio.current_time() - started < QUICK_SECONDS else 0
            return received
        except anyio.EndOfStream:
            why, _ = await self.ending()
            if self.client is not None:
                self.client.end(why or "the agent closed the connection")
            raise

    async def ending(self) -> tuple[str, int]:
        """The last line of its stderr, and its exit code."""
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await self._process.wait()
        said = self._words.decode(errors="replace").strip()
        return said.rpartition("\n")[2].removeprefix("hames: "), self._process.returncode or 1


@asynccontextmanager
async def _greeted(
    connecting: AbstractAsyncContextManager[AppServerClient], pipes: _Pipes
) -> AsyncGenerator[AppServerClient]:
    greeted = False
    try:
        async with connecting as client:
            greeted = True
            yield client
    except BaseExceptionGroup as failures:
        if greeted or not failures.subgroup((AppServerError, ConnectionClosed)):
            raise
        why, code = await pipes.ending()
        raise Unreachable(why or "the agent's server did not start", code) from None


async def _collect(stream: ByteReceiveStream, words: bytearray) -> None:
    try:
        async for chunk in stream:
            words += chunk
            del words[:-LAST_WORDS]
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
