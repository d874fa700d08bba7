"""JSON-RPC without I/O: `JsonRpcPeer` is the side that is called, `Caller` the side that calls.

`Peer.receive(line)` says what a line means and never raises, whatever the bytes. Checks come in this order: size,
UTF-8, JSON, shape, handshake, method, named parameters. What fails one of them comes back as a `JsonRpcRefusal`,
already encoded; the parameters' own shapes, lookup and state are the dialect's and the engine's.

* Every `JsonRpcRequest` that comes out is answered exactly once, with `result` or `error`. Both return the bytes
  to send: nothing yet (`b""`) for a member of a batch whose siblings still wait.
* A notification is never answered. A response to nothing we asked is dropped.
* An id is kept as its JSON text and echoed unchanged: no precision is lost, whatever its size.
"""

import re
from typing import Literal

import msgspec

from hames.codecs.jsontext import Repeated, Unreadable, clipped, encode, parse, torn, whole, written
from hames.codecs.lines import Line, TooLong, encode_line
from hames.domain.json import Json
from hames.domain.value import Value

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_INITIALIZED = -32000

Params = dict[str, Json]


class JsonRpcRules(Value):
    """How the messages of one protocol differ from another's."""

    version: bool
    """`jsonrpc: "2.0"` is demanded and sent; otherwise it is ignored and left out."""
    batches: bool
    loose_ids: bool
    """Ids may also be fractions and null."""
    scalar_params: Literal[-32600, -32602]
    """Scalar `params` make a malformed message, or a well-formed one with bad parameters (found later)."""
    opening: str | None = None
    """The request that must come first, and only once."""


class JsonRpcRequest(Value):
    id: bytes
    """As JSON text."""
    method: str
    params: Params
    batch: "Batch | None" = None


class Notification(Value):
    method: str
    params: Json


class JsonRpcResponse(Value):
    """An answer to what we asked, under the id and with the `context` that `ask` was given."""

    request_id: str
    result: Json = None
    error: Json = None
    context: object = None


class JsonRpcRefusal(Value):
    """Nothing to carry out; `line` tells the other side why."""

    line: bytes


Incoming = JsonRpcRequest | Notification | JsonRpcResponse | JsonRpcRefusal


class Batch:
    """Answers that leave together."""

    def __init__(self) -> None:
        self.waiting = 0
        self.answers: list[bytes] = []

    def line(self) -> bytes:
        if self.waiting or not self.answers:
            return b""
        return encode_line(b"[" + b",".join(self.answers) + b"]")


class JsonRpcPeer:
    """Our side of one conversation: it remembers whether it was opened, and what we asked.

    >>> rules = JsonRpcRules(version=True, batches=True, loose_ids=True, scalar_params=-32600)
    >>> peer = JsonRpcPeer(rules, frozenset({"hello"}))
    >>> [request] = peer.receive(b'{"jsonrpc":"2.0","id":1,"method":"hello"}')
    >>> peer.result(request, {"ok": True})
    b'{"jsonrpc":"2.0","id":1,"result":{"ok":true}}\\n'
    """

    def __init__(self, rules: JsonRpcRules, methods: frozenset[str]) -> None:
        self._rules = rules
        self._methods = methods
        self._opened = False
        self._head = b'{"jsonrpc":"2.0",' if rules.version else b"{"
        self._asked: dict[str, object] = {}
        self._told: dict[str, bytes] = {}
        """How notifications of each method begin: a token is told by the thousand."""

    def receive(self, line: Line) -> list[Incoming]:
        if isinstance(line, TooLong):
            return [self._refuse(_Refused(INVALID_REQUEST, f"a message has at most {line.limit} bytes", _id_of(line)))]
        try:
            value = parse(line)
        except Unreadable as why:
            return [self._refuse(_Refused(PARSE_ERROR, str(why)))]
        except Repeated as why:
            if _is_notification(why.value):
                return []
            return [self._refuse(_Refused(INVALID_REQUEST, str(why)))]
        if torn(line):
            value = [_mended(message) for message in value] if isinstance(value, list) else _mended(value)
        if _fractional(value) or (isinstance(value, list) and any(map(_fractional, value))):
            value = _named(value, written(line))
        if isinstance(value, list) and value and self._rules.batches:
            return self._batch(value)
        return self._message(value, None)

    def result(self, request: JsonRpcRequest, value: Json) -> bytes:
        if request.method == self._rules.opening:
            self._opened = True
        return self._answer(request, b'"result":' + encode(value))

    def error(self, request: JsonRpcRequest, code: int, message: str) -> bytes:
        return self._answer(request, b'"error":' + encode({"code": code, "message": message}))

    def notification(self, method: str, params: Json) -> bytes:
        head = self._told.get(method)
        if head is None:
            head = self._told[method] = self._head + b'"method":' + encode(method) + b',"params":'
        return encode_line(head + encode(params) + b"}")

    def ask(self, method: str, params: Json, request_id: str, context: object = None) -> bytes:
        """A request of ours; its answer comes out of `receive` as a `JsonRpcResponse`."""
        self._asked[request_id] = context
        body = b'"id":' + encode(request_id) + b',"method":' + encode(method) + b',"params":' + encode(params)
        return encode_line(self._head + body + b"}")

    def is_asking(self, request_id: str) -> bool:
        """Whether an answer to this request of ours is still awaited."""
        return request_id in self._asked

    def withdraw(self, request_id: str) -> None:
        """Nobody waits for an answer to this request any more."""
        self._asked.pop(request_id, None)

    def _batch(self, values: list[Json]) -> list[Incoming]:
        batch = Batch()
        incoming = [message for value in values for message in self._message(value, batch)]
        batch.waiting = sum(isinstance(message, JsonRpcRequest) for message in incoming)
        kept: list[Incoming] = [message for message in incoming if not isinstance(message, JsonRpcRefusal)]
        line = batch.line()  # empty while a request waits: refusals leave with its answer
        return [*kept, JsonRpcRefusal(line=line)] if line else kept

    def _message(self, value: Json, batch: Batch | None) -> list[Incoming]:
        try:
            if not isinstance(value, dict):
                raise _Refused(INVALID_REQUEST, "a message is a JSON object")
            if _is_notification(value):
                return [Notification(method=value["method"], params=value.get("params"))]
            if "method" not in value and ("result" in value or "error" in value):
                return self._response(value)
            return [self._request(value, batch)]
        except _Refused as refused:
            return [self._refuse(refused, batch)]

    def _request(self, value: Params, batch: Batch | None) -> JsonRpcRequest:
        rules = self._rules
        request_id = self._id(value)
        method = value.get("method")
        params = value.get("params")
        if rules.version and value.get("jsonrpc") != "2.0":
            raise _Refused(INVALID_REQUEST, "member 'jsonrpc' must be '2.0'", request_id)
        if not isinstance(method, str):
            raise _Refused(INVALID_REQUEST, "member 'method' must be a string", request_id)
        if rules.scalar_params == INVALID_REQUEST and not isinstance(params, dict | list | None):
            raise _Refused(INVALID_REQUEST, "member 'params' must be an object", request_id)
        if rules.opening is not None and method != rules.opening and not self._opened:
            raise _Refused(NOT_INITIALIZED, f"send {rules.opening!r} first", request_id)
        if rules.opening is not None and method == rules.opening and self._opened:
            raise _Refused(INVALID_REQUEST, f"{method!r} may be sent only once", request_id)
        if method not in self._methods:
            raise _Refused(METHOD_NOT_FOUND, f"no method {clipped(method)!r}", request_id)
        if params is None:
            params = {}
        if not isinstance(params, dict):
            raise _Refused(INVALID_PARAMS, "member 'params' must be an object", request_id)
        return JsonRpcRequest(id=request_id, method=method, params=params, batch=batch)

    def _id(self, value: Params) -> bytes:
        request_id = value.get("id", ...)
        match request_id:
            case bool():
                pass
            case str() | int():
                return encode(request_id)
            case msgspec.Raw() if self._rules.loose_ids or bytes(request_id).lstrip(b"-").isdigit():
                return bytes(request_id)
            case None if self._rules.loose_ids:
                return b"null"
            case _:
                pass
        kinds = "a string or a number" if self._rules.loose_ids else "a string or an integer"
        raise _Refused(INVALID_REQUEST, f"a request needs a method, and an id that is {kinds}")

    def _response(self, value: Params) -> list[Incoming]:
        request_id = value.get("id")
        if not isinstance(request_id, str) or request_id not in self._asked:
            return []
        context = self._asked.pop(request_id)
        return [
            JsonRpcResponse(
                request_id=request_id, result=value.get("result"), error=value.get("error"), context=context
            )
        ]

    def _refuse(self, refused: "_Refused", batch: Batch | None = None) -> JsonRpcRefusal:
        error = encode({"code": refused.code, "message": refused.message})
        answer = self._head + b'"id":' + refused.request_id + b',"error":' + error + b"}"
        if batch is not None:
            batch.answers.append(answer)
        return JsonRpcRefusal(line=encode_line(answer))

    def _answer(self, request: JsonRpcRequest, body: bytes) -> bytes:
        answer = self._head + b'"id":' + request.id + b"," + body + b"}"
        if request.batch is None:
            return encode_line(answer)
        request.batch.answers.append(answer)
        request.batch.waiting -= 1
        return request.batch.line()


_ID_IN_HEAD = re.compile(
    rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*'
    rb'"id"\s*:\s*(?P<id>-?(?:0|[1-9][0-9]*)|"[\x20\x21\x23-\x5b\x5d-\x7e]*")\s*,\s*(?:"jsonrpc"\s*:\s*"2.0"\s*,\s*)?(?:"method")?'
)


class _Refused(Exception):
    def __init__(self, code: int, message: str, request_id: bytes = b"null") -> None:
        super().__init__(message)
        self.code, self.message, self.request_id = code, message, request_id


def _id_of(line: TooLong) -> bytes:
    """The id of a request of which only the beginning is left, if it comes before `params`: without it the caller
    would wait for ever."""
    found = _ID_IN_HEAD.match(line.head)
    return found["id"] if found is not None and b'"method"' in found[0] else b"null"


def _is_notification(value: Json) -> bool:
    """By these two signs alone: whatever else is wrong with it, nobody waits for an answer."""
    return isinstance(value, dict) and "id" not in value and isinstance(value.get("method"), str)


def _mended(message: Json) -> Json:
    """Without lone surrogates, but for the id: that one comes back as it came."""
    if not isinstance(message, dict):
        return whole(message)
    return {name: inner if name == "id" else whole(inner) for name, inner in message.items()}


def _fractional(message: Json) -> bool:
    return isinstance(message, dict) and isinstance(message.get("id"), float)


def _named(message: Json, as_written: Json) -> Json:
    """The same with its fractional ids as they were written: a float would round them."""
    if isinstance(message, list):
        return [_named(one, same) for one, same in zip(message, as_written, strict=True)]
    return {**message, "id": as_written["id"]} if _fractional(message) else message


class RpcError(Value):
    """Why a request of ours was refused."""

    code: int
    message: str
    data: Json = None


class JsonRpcReply(Value):
    """The answer to a request of ours, by its number."""

    number: int
    result: Json = None
    error: RpcError | None = None


class ServerRequest(Value):
    """The other side asks us. It is answered with `Caller.result` or `Caller.error`."""

    id: str | int
    method: str
    params: Json


class Caller:
    """The side that calls: it numbers its requests and reads what comes back.

    It trusts the program it talks to, so it reads fast; whatever it does not understand is None.

    >>> caller = Caller(version=True)
    >>> caller.request("hello", {})
    (1, b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{}}\\n')
    >>> caller.read(b'{"id":1,"result":"hi"}')
    JsonRpcReply(number=1, result='hi', error=None)
    """

    def __init__(self, *, version: bool) -> None:
        """`version`: every message says `"jsonrpc": "2.0"`."""
        self._head: dict[str, Json] = {"jsonrpc": "2.0"} if version else {}
        self._number = 0

    def request(self, method: str, params: Json) -> tuple[int, bytes]:
        self._number += 1
        return self._number, self._line({"id": self._number, "method": method, "params": params})

    def notification(self, method: str, params: Json) -> bytes:
        return self._line({"method": method, "params": params})

    def result(self, request_id: str | int, value: Json) -> bytes:
        return self._line({"id": request_id, "result": value})

    def error(self, request_id: str | int, code: int, message: str) -> bytes:
        return self._line({"id": request_id, "error": {"code": code, "message": message}})

    def read(self, line: Line) -> ServerRequest | Notification | JsonRpcReply | None:
        try:
            message: Json = None if isinstance(line, TooLong) else _DECODER.decode(line)
        except (ValueError, RecursionError):
            return None
        match message:
            case {"method": str(method), "id": str() | int() as request_id}:
                return ServerRequest(id=request_id, method=method, params=message.get("params"))
            case {"method": str(method)}:
                return Notification(method=method, params=message.get("params"))
            case {"id": int(number), "error": dict(error)}:
                return JsonRpcReply(number=number, error=_read_error(error))
            case {"id": int(number)}:
                return JsonRpcReply(number=number, result=message.get("result"))
            case _:
                return None

    def _line(self, body: dict[str, Json]) -> bytes:
        return encode_line(encode({**self._head, **body}))


_DECODER = msgspec.json.Decoder()


def _read_error(error: dict[str, Json]) -> RpcError:
    code, message = error.get("code"), error.get("message")
    return RpcError(
        code=code if isinstance(code, int) else 0,
        message=message if isinstance(message, str) else "refused",
        data=error.get("data"),
    )
