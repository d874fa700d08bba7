"""A model service on a loopback port, scripted request by request, that can also misbehave.

    async with ProviderServer(ANTHROPIC, talk("Hello."), refusal(529)) as server:
        provider = AnthropicProvider(base_url=server.url, api_key="test", clock=FakeClock())

What is said is written once, in no dialect (`Talk`); a dialect turns it into the bytes the
real service sends and refuses what the real service refuses. Faults are parts of an answer:
a pause, a drip, a reset, silence. `hames.testing.services.anthropic` is the first dialect.
"""

import socket
import struct
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol

import anyio
import msgspec
from anyio.abc import Listener, SocketAttribute, SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from hames.domain.errors import ErrorInfo
from hames.domain.json import Json
from hames.domain.request import StopReason
from hames.domain.usage import Usage
from hames.domain.value import Value

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
HEAD_BYTES = 64 * 1024
BODY_BYTES = 64 * 1024 * 1024


class Words(Value):
    text: str


class Thoughts(Value):
    text: str
    signature: str = "signed"


class Use(Value):
    """A tool call. `arguments` is its JSON text, valid or not."""

    name: str
    arguments: str
    id: str = "toolu_01"


class ServerTalk(Value):
    """A whole reply, in no dialect. `cuts`: into how many deltas each part is cut."""

    parts: tuple[Words | Thoughts | Use, ...]
    stop: StopReason = "end"
    usage: Usage = Usage(input_tokens=12, output_tokens=7)
    cuts: int = 3


class Pause(Value):
    seconds: float


class Drip(Value):
    """Bytes, a few at a time."""

    data: bytes
    size: int = 1
    seconds: float = 0.0


class Reset(Value):
    """The connection is reset, not closed."""


class Close(Value):
    """The connection is closed in the middle of the body."""


class Hang(Value):
    """Silence until the client goes away."""


Part = bytes | Pause | Drip | Reset | Close | Hang


class ServerReply(Value):
    """An HTTP answer. Each `bytes` part is one chunk on the wire; status 0 sends no head at all.

    `leaves`: the connection is closed after it, though nothing was said about that.
    """

    parts: tuple[Part, ...] = ()
    status: int = 200
    leaves: bool = False
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/event-stream; charset=utf-8"),)


class SeenRequest(Value):
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: Json
    raw: bytes
    connection: int


Answer = ServerReply | ServerTalk | Callable[[SeenRequest], ServerReply | ServerTalk]


class Dialect(Protocol):
    """How one kind of service writes."""

    path: str
    opening: int
    """How many events of a reply say nothing yet: a stream that breaks within them is asked for again."""

    def events(self, talk: ServerTalk) -> list[bytes]:
        """The server-sent events of a reply, one by one."""
        ...

    def refusal(self, status: int, *, info: ErrorInfo = "Other", message: str = "") -> ServerReply:
        """An error answer as the service words it."""
        ...

    def broken(self) -> bytes:
        """An event inside a stream that says the service is overloaded."""
        ...

    def ping(self) -> bytes:
        """An event that says nothing."""
        ...

    def refuses(self, body: Json) -> str:
        """What the service would not accept about a request; nothing if it would."""
        ...


def talk(text: str, *, stop: StopReason = "end", cuts: int = 3) -> ServerTalk:
    return ServerTalk(parts=(Words(text=text),), stop=stop, cuts=cuts)


def use(name: str, /, **arguments: Json) -> ServerTalk:
    part = Use(name=name, arguments=msgspec.json.encode(arguments).decode())
    return ServerTalk(parts=(part,), stop="tools")


def raw(*parts: Part, status: int = 200, headers: Mapping[str, str] | None = None) -> ServerReply:
    """Exactly these bytes, well-formed or not."""
    named = headers if headers is not None else {"content-type": "text/event-stream; charset=utf-8"}
    return ServerReply(parts=parts, status=status, headers=tuple(named.items()))


class ProviderServer:
    """Answers in the order they were given; after the last one, `then` for ever (or an error that says so)."""

    def __init__(self, dialect: Dialect, *answers: Answer, then: Answer | None = None, strict: bool = True) -> None:
        self.seen: list[SeenRequest] = []
        self.connections = 0
        self.open_connections = 0
        self.url = ""
        self._dialect = dialect
        self._answers = list(answers)
        self._then = then
        self._strict = strict
        self._tasks: TaskGroup | None = None
        self._listener: Listener[SocketStream] | None = None
        self._news = anyio.Event()

    def add(self, *answers: Answer) -> None:
        self._answers += answers

    async def asked(self, times: int) -> None:
        """Returns when that many requests have come in."""
        while len(self.seen) < times:
            await self._news.wait()

    async def deserted(self) -> None:
        """Returns when no client is connected."""
        while self.open_connections:
            await self._news.wait()

    async def __aenter__(self) -> "ProviderServer":
        self._listener = listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(listener.serve, self._serve)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._tasks is not None
        assert self._listener is not None
        self._tasks.cancel_scope.cancel()
        try:
            return await self._tasks.__aexit__(kind, error, trace)
        finally:
            with anyio.CancelScope(shield=True):
                await self._listener.aclose()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def _serve(self, stream: SocketStream) -> None:
        self.connections += 1
        self.open_connections += 1
        number, buffered = self.connections, BufferedByteReceiveStream(stream)
        try:
            async with stream:
                while (request := await _request(buffered, number)) is not None:
                    self.seen.append(request)
                    self._tell()
                    if not await _send(stream, self._answer(request)):
                        return
        except (*_GONE, anyio.IncompleteRead):
            pass  # a client that goes away is ordinary
        finally:
            self.open_connections -= 1
            self._tell()

    def _answer(self, request: SeenRequest) -> ServerReply:
        if request.path.partition("?")[0] != self._dialect.path:
            return self._dialect.refusal(404, message="Not found")
        if self._strict and (why := self._dialect.refuses(request.body)):
            return self._dialect.refusal(400, info="BadRequest", message=why)
        answer = self._answers.pop(0) if self._answers else self._then
        if answer is None:
            return self._dialect.refusal(400, message="the script of this server is over")
        if callable(answer):
            answer = answer(request)
        return ServerReply(parts=tuple(self._dialect.events(answer))) if isinstance(answer, ServerTalk) else answer


async def _request(stream: BufferedByteReceiveStream, connection: int) -> SeenRequest | None:
    try:
        head = await stream.receive_until(b"\r\n\r\n", HEAD_BYTES)
    except (anyio.IncompleteRead, anyio.EndOfStream):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = min(int(headers.get("content-length", "0")), BODY_BYTES)
    body = await stream.receive_exactly(length) if length else b""
    try:
        decoded = msgspec.json.decode(body)
    except ValueError:
        decoded = None
    return SeenRequest(method=method, path=path, headers=headers, body=decoded, raw=body, connection=connection)


async def _send(stream: SocketStream, reply: ServerReply) -> bool:
    """Whether the connection can go on."""
    if reply.status:
        named = [*reply.headers, ("transfer-encoding", "chunked"), ("request-id", "req_loopback")]
        lines = "".join(f"{name}: {value}\r\n" for name, value in named)
        await stream.send(f"HTTP/1.1 {reply.status} Scripted\r\n{lines}\r\n".encode("latin-1"))
    for part in reply.parts:
        match part:
            case bytes():
                await stream.send(_chunk(part) if reply.status else part)
            case Pause(seconds=seconds):
                await anyio.sleep(seconds)
            case Drip(data=data, size=size, seconds=seconds):
                for start in range(0, len(data), size):
                    await stream.send(_chunk(data[start : start + size]))
                    await anyio.sleep(seconds)
            case Reset():
                await _reset(stream)
                return False
            case Close():
                return False
            case Hang():
                await stream.receive(1)
                return False
    if not reply.status:
        return False
    await stream.send(b"0\r\n\r\n")
    return not reply.leaves


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


async def _reset(stream: SocketStream) -> None:
    await anyio.sleep(0.02)  # what was sent should be read first; a reset overtakes it
    stream.extra(SocketAttribute.raw_socket).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await stream.aclose()
