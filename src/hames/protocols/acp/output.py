"""What a session has to send: answers, errors, updates and requests, as lines in their order."""

from collections.abc import Iterable

from hames.codecs.jsonrpc_peer import JsonRpcPeer, JsonRpcRequest
from hames.domain.errors import HarnessError
from hames.domain.ids import ThreadId
from hames.domain.json import Json
from hames.protocols.acp.errors import error_code
from hames.protocols.acp.outbound import Update
from hames.protocols.session import Session


class AcpOutput(Session):
    def __init__(self, rpc: JsonRpcPeer) -> None:
        self._rpc = rpc
        self._output: list[bytes] = []

    def take_output(self) -> bytes:
        data, self._output = b"".join(self._output), []
        return data

    def _send(self, line: bytes) -> None:
        self._output.append(line)

    def _answer(self, request: JsonRpcRequest, result: Json) -> None:
        self._output.append(self._rpc.result(request, result))

    def _fail(self, request: JsonRpcRequest, code: int, message: str) -> None:
        self._output.append(self._rpc.error(request, code, message))

    def _refuse(self, request: JsonRpcRequest, error: HarnessError) -> None:
        self._fail(request, error_code(error), str(error))

    def _update(self, thread_id: ThreadId, updates: Iterable[Update]) -> None:
        for update in updates:
            self._output.append(self._rpc.notification("session/update", {"sessionId": thread_id, "update": update}))
