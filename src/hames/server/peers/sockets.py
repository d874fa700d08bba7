"""Links between the processes on one data directory: each has a unix socket in the user's private state directory.

A command reaches the writer of its thread at once, and its answer comes back on the same connection. Both ends ask the
kernel who the other one is: only processes of this user that run outside sandboxes and containers are spoken to. What
is in the data directory itself decides nothing here, because it may come with a repository.
"""

import contextlib
import errno
import logging
import os
import socket
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream

from hames.codecs.lines import LineDecoder, TooLong
from hames.deferred import pattern
from hames.domain.errors import HarnessError
from hames.domain.ids import ThreadId
from hames.ports import Peer, ToolClient
from hames.server.socket_path import short_path

if TYPE_CHECKING:
    from hames.server.peers.link import SocketLink
    from hames.server.peers.visitor import Visitor
    from hames.server.peers.wire import PeerRequest

log = logging.getLogger(__name__)

NAME = pattern(r"(\d{1,10})-[0-9a-f]{16}\.sock")
CONNECT_SECONDS = 2.0
NEWS_SECONDS = 0.1
LATE_NEWS_SECONDS = 1.0
"""The list is written after the change was told: whoever was too early looks again."""


class PeerSockets:
    """`private_directory` gives a directory of that name which belongs to the data directory and does not lie in it.

    None: nothing can be kept, or there is no data directory yet.
    """

    def __init__(self, private_directory: Callable[[str], Path | None]) -> None:
        self._private_directory = private_directory
        self._directory: Path | None = None
        self._start_task: Callable[..., object] | None = None
        self._here: Peer | None = None
        self._name = ""
        self._listening = anyio.CancelScope()
        self._started = False
        self._closed = False
        self._connecting = anyio.Lock()
        self._links: dict[str, SocketLink] = {}
        self._visitors: dict[Visitor, None] = {}
        """Those that came last are last."""
        self._news_coming = False

    def attach(self, start_task: Callable[..., object], here: Peer) -> None:
        self._start_task, self._here = start_task, here

    # -- the side that answers

    async def start(self) -> None:
        if self._started or self._closed or self._start_task is None or (directory := self._sockets()) is None:
            return
        self._started = True
        try:
            door, self._name = _bind(directory)
        except OSError as problem:  # threads work all the same, and other processes can watch them
            log.warning("peers.not_listening", extra={"error": str(problem)})
            return
        self._start_task(self._listen, door)

    async def _listen(self, door: socket.socket) -> None:
        with self._listening:
            async with await SocketListener.from_socket(door) as listener:
                while True:
                    try:
                        await listener.serve(self._welcome)
                    except* OSError as problem:  # no descriptor is left for another connection
                        log.warning("peers.not_accepted", extra={"error": str(problem.exceptions[0])})
                        await anyio.sleep(1)

    async def _welcome(self, stream: SocketStream) -> None:
        from hames.server.guard.namespaces import is_unix_peer_ours  # most processes are alone and need none of this

        try:
            async with stream:
                if not is_unix_peer_ours(stream.extra(SocketAttribute.raw_socket)):
                    log.info("peer.refused", extra={"socket": self._name})
                    return
                await self._serve(stream)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as why:
            log.info("peer.gone", extra={"why": str(why)})
        except Exception:
            log.exception("peer.crashed")

    async def _serve(self, stream: SocketStream) -> None:
        from hames.server.peers import wire
        from hames.server.peers.received import received
        from hames.server.peers.visitor import Visitor

        here = self._here
        assert here is not None
        visitor = Visitor(stream)
        self._visitors[visitor] = None
        decoder = LineDecoder(limit=wire.LINE_BYTES)
        try:
            async for chunk in received(stream):
                for line in decoder.feed(chunk):
                    if isinstance(line, TooLong):
                        log.warning("peer.line_too_long", extra={"limit": line.limit})
                        return
                    message = wire.decode_line(line)
                    if isinstance(message, wire.PeerRequest):
                        await self._take(visitor, message, here)
                    elif message is not None:
                        visitor.take_reply(message)
        finally:
            self._visitors.pop(visitor, None)
            visitor.leave()
            here.remove_viewer(visitor)

    async def _take(self, visitor: "Visitor", request: "PeerRequest", here: Peer) -> None:
        from hames.server.peers import wire

        match request.do:
            case "owns":
                await visitor.send(wire.PeerReply(id=request.id, owns=here.owns(request.thread_id)))
            case "standings":
                await visitor.send(wire.PeerReply(id=request.id, standings=dict(here.standings())))
            case "viewing":
                here.set_viewer(visitor, request.thread_id, answers=request.answers)
            case "send_news":
                visitor.wants_news = True
                here.start_news()
            case "execute":
                assert self._start_task is not None
                await visitor.commands.acquire()
                # Not a task of the connection: what was asked for is done, whether or not the asker waits for it.
                self._start_task(self._execute, visitor, request, here)
            case "news" | "tool_rank" | "call_tool" | "withdraw_call":  # said by the wrong side
                pass

    async def _execute(self, visitor: "Visitor", request: "PeerRequest", here: Peer) -> None:
        from hames.server.peers import wire

        try:
            try:
                answer = await here.execute_for_peer(
                    wire.decode_command(request), request.key, seen=request.seen, repeated=request.repeated
                )
                reply = wire.PeerReply(id=request.id, answer=answer)
            except HarnessError as error:
                reply = wire.refusal(request.id, error)
            except Exception:  # a bug: the other process gets an answer all the same
                log.exception("peer.command_crashed", extra={"command": request.command})
                reply = wire.refusal(request.id, HarnessError("internal error"))
            await visitor.send(reply)
        finally:
            visitor.commands.release()

    def send_news(self) -> None:
        if not self._news_coming and self._start_task is not None and any(one.wants_news for one in self._visitors):
            self._news_coming = True
            self._start_task(self._tell_news)

    async def _tell_news(self) -> None:
        from hames.server.peers import wire

        await anyio.sleep(NEWS_SECONDS)
        self._news_coming = False
        for pause in (0.0, LATE_NEWS_SECONDS):
            await anyio.sleep(pause)
            for visitor in list(self._visitors):
                if visitor.wants_news:
                    await visitor.send(wire.PeerRequest(do="news"))

    async def tool_clients(self, thread_id: ThreadId) -> Sequence[ToolClient]:
        if not self._visitors:
            return ()
        from hames.server.peers.visitor import VisitorTools

        ranks = dict.fromkeys(self._visitors, 0)

        async def ask(visitor: "Visitor") -> None:
            ranks[visitor] = await visitor.tool_rank(thread_id)

        async with anyio.create_task_group() as tasks:
            for visitor in list(ranks):
                tasks.start_soon(ask, visitor)
        return [VisitorTools(visitor, rank) for visitor, rank in ranks.items() if rank]

    # -- the side that asks

    async def links(self, *, patient: bool = False) -> "Sequence[SocketLink]":
        if self._closed or self._start_task is None or (directory := self._sockets()) is None:
            return ()
        async with self._connecting:
            self._links = {name: link for name, link in self._links.items() if not link.gone}
            for name in _names(directory):
                if name != self._name and name not in self._links:
                    await self._connect(directory, name)
            return [link for link in self._links.values() if patient or link.responsive]

    async def _connect(self, directory: Path, name: str) -> None:
        from hames.server.guard.namespaces import is_unix_peer_ours
        from hames.server.peers.link import SocketLink

        assert self._start_task is not None
        assert self._here is not None
        stream: SocketStream | None = None
        try:
            with short_path(directory, name) as path, anyio.move_on_after(CONNECT_SECONDS):
                stream = await anyio.connect_unix(path)
        except OSError as problem:
            if problem.errno == errno.ECONNREFUSED:  # its process was killed
                with contextlib.suppress(OSError):
                    (directory / name).unlink()
            return
        if stream is None:
            return
        if not is_unix_peer_ours(stream.extra(SocketAttribute.raw_socket)):
            log.info("peer.refused", extra={"socket": name})
            await stream.aclose()
            return
        link = self._links[name] = SocketLink(stream, f"process {name.partition('-')[0]}", self._here)
        self._start_task(link.run)

    async def close(self) -> None:
        self._closed = True
        if self._name and self._directory is not None:
            with contextlib.suppress(OSError):
                (self._directory / self._name).unlink()
        self._listening.cancel()
        for visitor in list(self._visitors):
            await visitor.close()

    def _sockets(self) -> Path | None:
        if self._directory is None:
            try:
                found = self._private_directory("processes")
                self._directory = found if found is not None and _is_private(found) else None
            except (OSError, HarnessError) as problem:
                log.info("peers.no_directory", extra={"error": str(problem)})
        return self._directory


def _names(directory: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if NAME.fullmatch(name))  # noqa: PTH208 - names alone
    except OSError:
        return []


def _is_private(directory: Path) -> bool:
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return False
    if found.st_mode & 0o077:
        directory.chmod(0o700)
    return True


def _bind(directory: Path) -> tuple[socket.socket, str]:
    """A listening socket and its name. It gets the name when it listens: one that refuses is taken for dead."""
    name = f"{os.getpid()}-{os.urandom(8).hex()}.sock"
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        with short_path(directory, f".{name}") as path:
            door.bind(path)
            Path(path).chmod(0o600)
            door.listen(64)
            Path(path).rename(directory / name)
        return door, name
    except BaseException:
        door.close()
        with contextlib.suppress(OSError):
            (directory / f".{name}").unlink()
        raise
