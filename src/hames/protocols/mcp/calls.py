"""The tool calls of one MCP client that are not answered yet."""

from collections.abc import Iterator

from hames.codecs.jsonrpc_peer import JsonRpcRequest
from hames.domain.approvals import Approval, Elicit
from hames.domain.ids import ThreadId, TurnId
from hames.domain.json import Json
from hames.domain.value import Value
from hames.protocols.mcp.tools import Arguments

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"


class Abilities(Value):
    """What a client can show to its user."""

    form: bool = False
    url: bool = False

    def can_show(self, approval: Approval) -> bool:
        is_url = isinstance(approval.intent, Elicit) and bool(approval.intent.url)
        return self.url if is_url else self.form


def read_abilities(capabilities: Json) -> Abilities:
    match capabilities:
        case {"elicitation": {"form": _, "url": _}}:
            return Abilities(form=True, url=True)
        case {"elicitation": {"url": _}}:
            return Abilities(url=True)
        case {"elicitation": dict()}:  # before 2025-11-25 there was nothing but forms
            return Abilities(form=True)
        case _:
            return Abilities()


def read_client_name(info: Json) -> str:
    match info:
        case {"name": str(name)}:
            return name[:100]
        case _:
            return ""


class OpenCall:
    """A call that waits: for its thread, for its turn, for the end of its turn."""

    def __init__(self, request: JsonRpcRequest, tool: str, arguments: Arguments, abilities: Abilities) -> None:
        self.request = request
        self.tool = tool
        self.arguments = arguments
        self.abilities = abilities
        self.is_modern = is_modern(request.params)
        self.thread_id: ThreadId | None = None
        self.turn_id: TurnId | None = None
        self.deadline: float | None = None
        self.is_cancelled = False
        self._token = _progress_token(request.params)
        self._progress = 0

    @property
    def wants_progress(self) -> bool:
        return self._token is not None

    def progress(self, message: str) -> Json:
        """The parameters of a notification."""
        self._progress += 1
        return {"progressToken": self._token, "progress": self._progress, "message": message}


class OpenCalls:
    def __init__(self) -> None:
        self._calls: dict[bytes, OpenCall] = {}

    def __iter__(self) -> Iterator[OpenCall]:
        return iter(list(self._calls.values()))

    def add(self, call: OpenCall) -> None:
        self._calls[call.request.id] = call

    def get(self, request_id: bytes) -> OpenCall | None:
        return self._calls.get(request_id)

    def remove(self, call: OpenCall) -> bool:
        """False: it was answered already, or withdrawn."""
        if self._calls.get(call.request.id) is not call:
            return False
        del self._calls[call.request.id]
        return True

    def on(self, thread_id: ThreadId) -> list[OpenCall]:
        return [call for call in self if call.thread_id == thread_id]

    def waiting(self, thread_id: ThreadId, turn_id: TurnId) -> list[OpenCall]:
        return [call for call in self.on(thread_id) if call.turn_id == turn_id]

    def next_deadline(self) -> float | None:
        return min((call.deadline for call in self if call.deadline is not None), default=None)


def meta_of(params: Json) -> dict[str, Json]:
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def is_modern(params: Json) -> bool:
    """Whether the request says for itself which version it is of, as from 2026-07-28 on."""
    return VERSION_KEY in meta_of(params)


def _progress_token(params: Json) -> Json:
    token = meta_of(params).get("progressToken")
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None
