"""The messages to one MCP client, each with the client's request that it is about: over HTTP it goes where that came
from."""

from hames.codecs.jsonrpc_peer import JsonRpcPeer, JsonRpcRequest
from hames.codecs.jsontext import encode
from hames.codecs.lines import encode_line
from hames.domain.json import Json
from hames.protocols.mcp.calls import is_modern


class ServerLines:
    def __init__(self, rpc: JsonRpcPeer) -> None:
        self._rpc = rpc
        self._lines: list[bytes] = []
        self.routed = False
        self._routes: list[bytes] = []

    def take(self) -> bytes:
        data, self._lines = b"".join(self._lines), []
        return data

    def take_routes(self) -> list[bytes]:
        routes, self._routes = self._routes, []
        return routes

    def add(self, line: bytes, about: bytes = b"") -> None:
        self._lines.append(line)
        if self.routed:
            self._routes.append(about)

    def notify(self, method: str, params: Json, about: bytes = b"") -> None:
        self.add(self._rpc.notification(method, params), about)

    def ask(self, method: str, params: Json, request_id: str, about: bytes) -> None:
        self.add(self._rpc.ask(method, params, request_id), about)

    def answer(self, request: JsonRpcRequest, result: dict[str, Json]) -> None:
        known = {"resultType": "complete", **result} if is_modern(request.params) else result
        self.add(self._rpc.result(request, known), request.id)

    def refuse(self, request: JsonRpcRequest, code: int, message: str, data: Json = None) -> None:
        if data is None:
            self.add(self._rpc.error(request, code, message), request.id)
            return
        error = encode({"code": code, "message": message, "data": data})
        self.add(encode_line(b'{"jsonrpc":"2.0","id":' + request.id + b',"error":' + error + b"}"), request.id)
