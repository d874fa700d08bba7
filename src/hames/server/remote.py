"""stdin and stdout joined to a server on another machine, over a WebSocket: each line is a frame."""

import contextlib
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import msgspec

from hames.domain.errors import Misconfigured
from hames.stdio.connection import read_lines
from hames.stdio.descriptors import Start
from hames.stdio.pipes import Inbox, PipeOutbox, open_inbox, open_outbox

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

SERVER_GONE = 1
NO_TOKEN = 4401


def socket_url(url: str, protocol: str) -> str:
    """Where a server speaks a protocol. Raises `Misconfigured` for what is no address."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Misconfigured(f"--server is {url!r}, which is not an address such as https://host:4800")
    return f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}{parts.path.rstrip('/')}/{protocol}"


def trusted(url: str, ca_file: str) -> ssl.SSLContext | None:
    """What the server's certificate is checked with: `ca_file`, else what the system (or SSL_CERT_FILE) trusts."""
    if not url.startswith("wss:"):
        if ca_file:
            raise Misconfigured("--tls-ca is for an https address; the server's is plain http")
        return None
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as why:
        raise Misconfigured(f"the file {ca_file!r} has no certificates that can be used: {why}") from None


async def attach_remote(url: str, protocol: str, start: Start, *, token: str = "", ca_file: str = "") -> int:
    """The exit code: 0 when stdin ended, 1 when the server did. Raises `Misconfigured`."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus, WebSocketException

    address = socket_url(url, protocol)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    context = trusted(address, ca_file)
    inbox = await open_inbox(start.wire.incoming, start.received)
    outbox = await open_outbox(start.wire.outgoing)
    try:
        async with connect(address, additional_headers=headers, ssl=context, max_size=None, compression=None) as socket:
            bridge = _Bridge(socket, inbox, outbox)
            await bridge.run()
    except InvalidStatus as refused:
        raise Misconfigured(f"the server at {url!r} answers with the status {refused.response.status_code}") from None
    except ssl.SSLError as why:
        raise Misconfigured(
            f"the certificate of {url!r} is not trusted: {why.reason or why}; name its CA with --tls-ca"
        ) from None
    except (OSError, TimeoutError, WebSocketException) as why:
        raise Misconfigured(f"no server answers at {url!r}: {why}") from None
    await outbox.flush()
    if bridge.ended:
        return 0
    if socket.close_code == NO_TOKEN:
        raise Misconfigured(f"the server at {url!r} needs a token: set HAMES_TOKEN to one that is valid")
    return SERVER_GONE


class _Bridge:
    def __init__(self, socket: "ClientConnection", inbox: Inbox, outbox: PipeOutbox) -> None:
        self._socket = socket
        self._inbox = inbox
        self._outbox = outbox
        self._unanswered: set[str] = set()
        self._answered = anyio.Event()
        self.ended = False
        """stdin said all it had to say, and was answered."""

    async def run(self) -> None:
        from websockets.exceptions import ConnectionClosed

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send)
            with contextlib.suppress(ConnectionClosed):
                async for frame in self._socket:
                    data = frame.encode() if isinstance(frame, str) else frame
                    self._outbox.write(data + b"\n")
                    self._note(data, ours=False)
                    await self._outbox.room()
            tasks.cancel_scope.cancel()

    async def _send(self) -> None:
        from websockets.exceptions import ConnectionClosed

        with contextlib.suppress(ConnectionClosed):
            async for line in read_lines(self._inbox):
                if isinstance(line, bytes):
                    self._note(line, ours=True)
                    await self._socket.send(line.decode(errors="replace"))
            # A WebSocket has no end of input: answers that are still to come would be lost with it.
            while self._unanswered:
                self._answered = anyio.Event()
                await self._answered.wait()
            self.ended = True
            await self._socket.close()

    def _note(self, line: bytes, *, ours: bool) -> None:
        """Which requests of ours wait for their answer."""
        try:
            message = msgspec.json.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return
        for one in message if isinstance(message, list) else [message]:
            if isinstance(one, dict) and "id" in one and ("method" in one) == ours:
                (self._unanswered.add if ours else self._unanswered.discard)(repr(one["id"]))
        self._answered.set()
