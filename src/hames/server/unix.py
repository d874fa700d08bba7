"""A socket in the data directory: programs of the same user speak to the running server without a port.

A connection begins with one line that names its protocol, `bootstrap` or `flint`, and goes on exactly as that protocol
does over stdio. Who may connect is decided by the directory, and asked of the kernel once more. A program that should
be able to do less than this user can put a named token behind the name: `flint hames_…`.
"""

import logging
import os
import socket
import stat
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream
from anyio.streams.stapled import MultiListener

from hames.core.engine import Engine
from hames.domain.errors import Misconfigured
from hames.domain.guardrails import SOCKET
from hames.protocols.session import Session
from hames.server.guard.identities import Identities
from hames.server.guard.namespaces import is_unix_peer_ours
from hames.server.socket_path import short_path
from hames.stdio.connection import Connection, read_lines
from hames.stdio.principals import Principal, local_user

log = logging.getLogger(__name__)

NAME = SOCKET
FIRST_LINE_BYTES = 128
FIRST_LINE_SECONDS = 5.0
OUTBOX_BYTES = 4 << 20
LAST_WORDS_SECONDS = 1.0
REFUSED = b"this server takes only programs of the same user that run outside sandboxes and containers\n"


class UnixServer:
    def __init__(
        self, engine: Engine, sessions: Mapping[str, Callable[[], Session]], identities: Identities | None = None
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._identities = identities
        self.count = 0

    async def serve(self, listener: "MultiListener[SocketStream] | SocketListener") -> None:
        await listener.serve(self._welcome)

    async def _welcome(self, stream: SocketStream) -> None:
        self.count += 1
        try:
            async with stream:
                if not is_unix_peer_ours(stream.extra(SocketAttribute.raw_socket)):
                    log.warning("peer.refused", extra={"socket": NAME})
                    await stream.send(REFUSED)
                    return
                await self._converse(stream)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as why:
            log.info("client.gone", extra={"why": str(why)})
        except Exception:
            log.exception("connection.crashed")
        finally:
            self.count -= 1

    async def _converse(self, stream: SocketStream) -> None:
        line, rest = await _first_line(stream)
        name, _, token = line.partition(" ")
        make = self._sessions.get(name)
        if make is None:
            await stream.send(f"the first line names a protocol: {' or '.join(self._sessions)}\n".encode())
            return
        principal = self._principal(name, token.strip())
        if principal is None:
            await stream.send(b"the token is not valid: it was revoked, or has expired\n")
            return
        outbox = _StreamOutbox(stream)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outbox.run)
            connection = Connection(self._engine, make(), outbox, tasks, principal)
            try:
                with anyio.CancelScope() as valid, self._connected(principal, valid.cancel):
                    await connection.serve(read_lines(_chunks(rest, stream)))
            finally:
                await connection.finish()
            with anyio.move_on_after(LAST_WORDS_SECONDS):
                await outbox.empty()
            tasks.cancel_scope.cancel()

    def _principal(self, protocol: str, token: str) -> Principal | None:
        if not token:
            return Principal(local_user(protocol))
        return self._identities.bearer(token, protocol) if self._identities is not None else None

    def _connected(self, principal: Principal, drop: Callable[[], None]) -> AbstractContextManager[None]:
        return self._identities.connected(principal, drop) if self._identities is not None else nullcontext()


async def _first_line(stream: SocketStream) -> tuple[str, bytes]:
    received = b""
    with anyio.move_on_after(FIRST_LINE_SECONDS):
        while b"\n" not in received and len(received) < FIRST_LINE_BYTES:
            try:
                received += await stream.receive(FIRST_LINE_BYTES)
            except anyio.EndOfStream:
                break
    line, _, rest = received.partition(b"\n")
    return line.decode("ascii", "replace").strip(), rest


async def _chunks(first: bytes, stream: SocketStream) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for chunk in stream:
        yield chunk


class _StreamOutbox:
    """Lines wait here for a reader, up to a point."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._gone = False
        self._wake = anyio.Event()
        self._less = anyio.Event()

    async def run(self) -> None:
        try:
            while True:
                while not self._waiting:
                    self._wake = anyio.Event()
                    await self._wake.wait()
                data, self._waiting = b"".join(self._waiting), deque()
                await self._stream.send(data)
                self._bytes -= len(data)
                self._less.set()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._gone = True
            self._less.set()

    def write(self, data: bytes) -> None:
        if data and not self._gone:
            self._waiting.append(data)
            self._bytes += len(data)
            self._wake.set()

    async def room(self) -> None:
        await self._until(OUTBOX_BYTES)

    async def empty(self) -> None:
        await self._until(0)

    async def _until(self, size: int) -> None:
        while self._bytes > size and not self._gone:
            self._less = anyio.Event()
            await self._less.wait()


@asynccontextmanager
async def listening(directory: Path) -> AsyncGenerator[SocketListener]:
    """The socket, for as long as the server runs. Raises `Misconfigured` where another server has it."""
    door, mine = _bind(directory)
    try:
        async with await SocketListener.from_socket(door) as listener:
            yield listener
    finally:
        _remove(directory, mine)


def _bind(directory: Path) -> tuple[socket.socket, int]:
    """A listening socket, and the inode of its name."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise Misconfigured(f"{str(directory)!r} is not a directory of yours")
    if found.st_mode & 0o077:
        directory.chmod(0o700)
    with short_path(directory) as path:
        if _answers(path):
            raise Misconfigured(f"a server is already running here: {str(directory / NAME)!r} answers")
        Path(path).unlink(missing_ok=True)
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            door.bind(path)
            Path(path).chmod(0o600)
            door.listen(128)
            return door, Path(path).lstat().st_ino
        except BaseException:
            door.close()
            raise


def _remove(directory: Path, mine: int) -> None:
    """Our own name only: another server may have come since."""
    with short_path(directory) as path:
        if Path(path).exists() and Path(path).lstat().st_ino == mine:
            Path(path).unlink()


def _answers(path: str) -> bool:
    """Somebody listens there. A file that a killed server left behind is nobody."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as knock:
        knock.settimeout(1.0)
        try:
            knock.connect(path)
        except (OSError, ValueError):
            return False
    return True
