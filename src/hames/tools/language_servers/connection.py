"""A conversation with a language server that runs in the sandbox: JSON-RPC over its input and output.

A server is somebody else's program. It may say anything at any time, or nothing: every wait ends, what it says is
bounded, and nothing it asks for is done. It is told its settings, and every other request is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import cast

import anyio
import msgspec

from hames.codecs.content_length import BadFraming, ContentLengthDecoder, encode_message
from hames.domain.errors import HarnessError
from hames.domain.json import Json
from hames.ports import BackgroundProcess

METHOD_NOT_FOUND = -32601
FLOOD_BYTES = 64 << 20
"""A server that says so much between two edits is stopped."""

Params = dict[str, Json]


class LanguageServerGone(HarnessError):
    """It has ended, does not keep to the protocol, or did not answer in time."""


class RequestRefused(HarnessError):
    """It answered a request with an error."""


class LanguageServerConnection:
    """`on_notification` hears what the server says unasked. `read` must run beside whoever sends requests."""

    def __init__(
        self,
        process: BackgroundProcess,
        settings: Mapping[str, Json],
        on_notification: Callable[[str, Params], None],
    ) -> None:
        self._process = process
        self._settings = settings
        self._on_notification = on_notification
        self._ids = count(1)
        self._waiting: dict[int, _Reply] = {}
        self._sending = anyio.Lock()
        self._bytes = 0
        self.closed = False

    async def read(self) -> None:
        """Until the server ends. It raises nothing but what stops us."""
        decoder = ContentLengthDecoder()
        try:
            async for chunk in self._process.output():
                self._bytes += len(chunk)
                if self._bytes > FLOOD_BYTES:
                    return
                for body in decoder.feed(chunk):
                    await self._receive(body)
        except (BadFraming, msgspec.DecodeError, LanguageServerGone, RecursionError, OSError):
            return
        finally:
            self.closed = True
            for reply in self._waiting.values():
                reply.done.set()

    def expect_more(self) -> None:
        """The server has work to do, so it may say something again."""
        self._bytes = 0

    async def request(self, method: str, params: Params, *, seconds: float) -> Json:
        """Raises `LanguageServerGone` and `RequestRefused`."""
        number = next(self._ids)
        reply = self._waiting[number] = _Reply()
        try:
            with anyio.move_on_after(seconds):
                await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                await reply.done.wait()
        finally:
            del self._waiting[number]
        if reply.message is None:
            raise LanguageServerGone(f"no answer to {method}")
        if reply.message.get("error") is not None:
            raise RequestRefused(str(reply.message["error"])[:200])
        return reply.message.get("result")

    async def notify(self, method: str, params: Params) -> None:
        """Raises `LanguageServerGone`."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def _send(self, message: Json) -> None:
        data = encode_message(msgspec.json.encode(message))
        async with self._sending:
            if self.closed or await self._process.write(data) < len(data):
                self.closed = True
                raise LanguageServerGone("it does not read its input")

    async def _receive(self, body: bytes) -> None:
        message = msgspec.json.decode(body)
        if not isinstance(message, dict):
            return
        found = cast("Params", message)
        method, number = found.get("method"), found.get("id")
        if isinstance(method, str):
            params = found.get("params")
            if number is None:
                self._on_notification(method, params if isinstance(params, dict) else {})
            else:
                await self._answer(number, method, params)
        elif isinstance(number, int) and (reply := self._waiting.get(number)) is not None:
            reply.message = found
            reply.done.set()

    async def _answer(self, number: Json, method: str, params: Json) -> None:
        answer: Params = {"jsonrpc": "2.0", "id": number}
        match method:
            case "workspace/configuration":
                asked = params.get("items") if isinstance(params, dict) else None
                answer["result"] = [self._section(item) for item in asked] if isinstance(asked, list) else []
            case "client/registerCapability" | "client/unregisterCapability" | "window/workDoneProgress/create":
                answer["result"] = None
            case "workspace/applyEdit":
                answer["result"] = {"applied": False}
            case _:
                answer["error"] = {"code": METHOD_NOT_FOUND, "message": f"{method} is not supported"}
        await self._send(answer)

    def _section(self, item: Json) -> Json:
        """
        The settings below a name such as `python.analysis`; null where there are none.
        """
        section = item.get("section") if isinstance(item, dict) else None
        found: Json = dict(self._settings)
        for name in section.split(".") if isinstance(section, str) and section else ():
            found = found.get(name) if isinstance(found, dict) else None
        return found


class _Reply:
    def __init__(self) -> None:
        self.done = anyio.Event()
        self.message: Params | None = None


def launch_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The command line that starts a server. What it says on stderr would come in between its messages.

    Not bash: the sandbox tells its notes once for each program, and those for the model's commands are not for us.
    """
    return ("/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh", *argv)
