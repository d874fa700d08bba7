"""A protocol in the shape of ACP v1, on the session contract: an answer that comes when the turn ends, permissions and
files asked of the client, a cancel that is a notification. A working subset, for tests."""

from collections.abc import Iterator, Sequence

from hames.codecs.jsonrpc_peer import (
    INTERNAL_ERROR,
    JsonRpcPeer,
    JsonRpcRefusal,
    JsonRpcRequest,
    JsonRpcResponse,
    JsonRpcRules,
    Notification,
)
from hames.codecs.jsontext import encode
from hames.codecs.lines import Line
from hames.domain import events, items
from hames.domain.commands import CreateThread, InterruptTurn, ResolveApproval, SubmitPrompt
from hames.domain.errors import HarnessError, InvalidCommand
from hames.domain.ids import ApprovalId, PromptId, ThreadId, TurnId
from hames.domain.json import Json
from hames.domain.options import Overrides
from hames.domain.policy import Decision
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn
from hames.protocols.session import (
    Action,
    ClientReply,
    ClientRequest,
    Execute,
    Follow,
    Outcome,
    ReadClientFile,
    Session,
)

RULES = JsonRpcRules(version=True, batches=False, loose_ids=True, scalar_params=-32602, opening="initialize")
METHODS = frozenset({"initialize", "session/new", "session/load", "session/prompt"})
OPTIONS: dict[str, Decision] = {"allow_once": "once", "allow_always": "always", "reject_once": "reject"}


class AcpSession(Session):
    def __init__(self) -> None:
        self._rpc = JsonRpcPeer(RULES, METHODS)
        self._output: list[bytes] = []
        self._can_read_files = False
        self._prompts: dict[TurnId, tuple[ThreadId, JsonRpcRequest]] = {}
        """session/prompt requests that are answered when their turn ends."""
        self._queued: dict[PromptId, tuple[ThreadId, JsonRpcRequest]] = {}
        """The same, while another client's turn still runs."""
        self._asked: dict[str, float] = {}
        """Deadlines of requests for files, by request id."""

    # -- from the client

    def receive(self, message: Line, now: float) -> Sequence[Action]:
        actions: list[Action] = []
        for one in self._rpc.receive(message):
            match one:
                case JsonRpcRequest():
                    actions += self._request(one)
                case Notification(method="session/cancel", params={"sessionId": str(thread_id)}):
                    actions.append(Execute(command=InterruptTurn(thread_id=ThreadId(thread_id))))
                case Notification(method="$/cancel_request", params={"requestId": request_id}):
                    actions += self._cancel_request(encode(request_id))
                case JsonRpcResponse():
                    actions += self._response(one)
                case JsonRpcRefusal(line=line):
                    self._output.append(line)
                case _:
                    pass
        return actions

    def _request(self, request: JsonRpcRequest) -> Sequence[Action]:
        match request.method, request.params:
            case "initialize", params:
                fs = params.get("clientCapabilities", {}).get("fs", {}) if isinstance(params, dict) else {}
                self._can_read_files = fs.get("readTextFile") is True
                self._answer(request, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
                return []
            case "session/new", {"cwd": str(cwd)} if cwd.startswith("/"):
                return [Execute(command=CreateThread(overrides=Overrides(cwd=cwd)), context=request)]
            case "session/load", {"sessionId": str(thread_id)}:
                return [Follow(thread_id=ThreadId(thread_id), context=request)]
            case "session/prompt", {"sessionId": str(thread_id), "prompt": list(blocks)}:
                content = tuple(items.TextInput(text=block["text"]) for block in blocks if "text" in block)
                prompt = SubmitPrompt(thread_id=ThreadId(thread_id), content=content)
                return [Follow(thread_id=prompt.thread_id), Execute(command=prompt, context=request)]
            case method, _:
                self._refuse(request, InvalidCommand(f"parameters do not fit {method!r}"))
                return []

    def _cancel_request(self, request_id: bytes) -> Sequence[Action]:
        return [
            Execute(command=InterruptTurn(thread_id=thread_id, turn_id=turn_id))
            for turn_id, (thread_id, request) in self._prompts.items()
            if request.id == request_id
        ]

    def _response(self, response: JsonRpcResponse) -> Sequence[Action]:
        if self._asked.pop(response.request_id, None) is not None:
            error = "" if response.error is None else "the client refused"
            return [ClientReply(request_id=response.request_id, result=response.result, error=error)]
        match response.result:
            case {"outcome": {"outcome": "selected", "optionId": str(option)}} if option in OPTIONS:
                decision = OPTIONS[option]
            case _:
                decision = "reject"
        return [Execute(command=ResolveApproval(approval_id=ApprovalId(response.request_id), decision=decision))]

    # -- outcomes

    def done(self, action: Execute, outcome: Outcome) -> Sequence[Action]:
        request = action.context
        match action.command, outcome:
            case CreateThread(), ThreadState(id=thread_id) if isinstance(request, JsonRpcRequest):
                self._answer(request, {"sessionId": thread_id})
                return [Follow(thread_id=thread_id)]
            case SubmitPrompt(thread_id=thread_id), Turn(id=turn_id) if isinstance(request, JsonRpcRequest):
                self._prompts[turn_id] = (thread_id, request)
            case SubmitPrompt(thread_id=thread_id), QueuedPrompt(id=prompt_id) if isinstance(request, JsonRpcRequest):
                self._queued[prompt_id] = (thread_id, request)
            case _:
                pass
        return []

    def followed(self, action: Follow, state: ThreadState, history: Sequence[Change], now: float) -> Sequence[Action]:
        if isinstance(action.context, JsonRpcRequest):  # session/load: the thread so far as updates, then the answer
            for turn in state.turns:
                for item in turn.items:
                    self._update(state.id, *_whole(item))
            self._answer(action.context, {})
        self._ask_permissions(state)
        return []

    def failed(self, action: Action, error: HarnessError) -> Sequence[Action]:
        if isinstance(action, Execute | Follow) and isinstance(action.context, JsonRpcRequest):
            self._refuse(action.context, error)
        return []

    # -- to the client

    def tell(self, changes: Sequence[Change], now: float) -> None:
        for change in changes:
            thread_id = change.record.thread_id
            match change.record.event:
                case events.ItemDelta(item_id=item_id, text=text):
                    if isinstance(change.after.item(item_id), items.AgentMessage):
                        self._update(thread_id, _chunk("agent_message_chunk", text))
                case events.ItemStarted(turn_id=turn_id, item=items.UserMessage() as message):
                    if (prompt_id := PromptId(message.client_id or "")) in self._queued:
                        self._prompts[turn_id] = self._queued.pop(prompt_id)
                    if turn_id not in self._prompts:  # another client said it
                        self._update(thread_id, *_whole(message))
                case events.ApprovalRequested():
                    self._ask_permissions(change.after)
                case events.ApprovalResolved(approval_id=approval_id):
                    self._withdraw(approval_id)
                case events.TurnEnded(turn_id=turn_id, status=status) if turn_id in self._prompts:
                    words = {"interrupted": "cancelled", "failed": "refusal"}
                    self._answer(self._prompts.pop(turn_id)[1], {"stopReason": words.get(status, "end_turn")})
                case _:
                    pass

    def lost(self, thread_id: ThreadId, why: str) -> None:
        waiting = [*self._prompts.values(), *self._queued.values()]
        for request in [request for of, request in waiting if of == thread_id]:
            self._output.append(self._rpc.error(request, INTERNAL_ERROR, why))
        self._prompts = {key: one for key, one in self._prompts.items() if one[0] != thread_id}
        self._queued = {key: one for key, one in self._queued.items() if one[0] != thread_id}

    # -- requests to the client

    def ask(self, request_id: str, request: ClientRequest, deadline: float) -> bool:
        if not isinstance(request, ReadClientFile) or not self._can_read_files:
            return False
        params = {"sessionId": request.thread_id, "path": request.path}
        self._output.append(self._rpc.ask("fs/read_text_file", params, request_id))
        self._asked[request_id] = deadline
        return True

    def next_deadline(self) -> float | None:
        return min(self._asked.values(), default=None)

    def expire(self, now: float) -> Sequence[Action]:
        late = [request_id for request_id, deadline in self._asked.items() if deadline <= now]
        for request_id in late:
            del self._asked[request_id]
            self._withdraw(request_id)
        return [ClientReply(request_id=one, error="the client did not answer in time") for one in late]

    def take_output(self) -> bytes:
        data, self._output = b"".join(self._output), []
        return data

    def _ask_permissions(self, state: ThreadState) -> None:
        for approval in state.approvals:
            if not self._rpc.is_asking(approval.id):
                options = [{"optionId": kind, "name": kind, "kind": kind} for kind in OPTIONS]
                params = {"sessionId": state.id, "toolCall": {"toolCallId": approval.item_id}, "options": options}
                self._output.append(self._rpc.ask("session/request_permission", params, approval.id))

    def _withdraw(self, request_id: str) -> None:
        if self._rpc.is_asking(request_id):
            self._rpc.withdraw(request_id)
            self._output.append(self._rpc.notification("$/cancel_request", {"requestId": request_id}))

    def _answer(self, request: JsonRpcRequest, result: Json) -> None:
        self._output.append(self._rpc.result(request, result))

    def _refuse(self, request: JsonRpcRequest, error: HarnessError) -> None:
        self._output.append(self._rpc.error(request, INTERNAL_ERROR, str(error)))

    def _update(self, thread_id: ThreadId, *updates: Json) -> None:
        for update in updates:
            self._output.append(self._rpc.notification("session/update", {"sessionId": thread_id, "update": update}))


def _chunk(kind: str, text: str) -> Json:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def _whole(item: items.Item) -> Iterator[Json]:
    match item:
        case items.UserMessage(content=content):
            for part in content:
                if isinstance(part, items.TextInput):
                    yield _chunk("user_message_chunk", part.text)
        case items.AgentMessage(text=text) if text:
            yield _chunk("agent_message_chunk", text)
        case _:
            pass
