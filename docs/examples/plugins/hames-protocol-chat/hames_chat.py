"""A protocol for `hames stdio chat`: JSON-RPC with one method, `say {"text": …}`, and one notification, `text`."""

from collections.abc import Sequence

from hames.codecs.jsonrpc_peer import JsonRpcRequest, JsonRpcRules
from hames.domain.commands import CreateThread, SubmitPrompt
from hames.domain.errors import HarnessError, InvalidCommand
from hames.domain.events import ItemCompleted
from hames.domain.items import AgentMessage, TextInput
from hames.domain.options import Settings
from hames.domain.state import Change, ThreadState
from hames.ports import Models
from hames.protocols.rpc_session import Notify, Pending, RpcSession
from hames.protocols.session import Action, Execute, Follow, Outcome

RULES = JsonRpcRules(version=True, batches=False, loose_ids=False, scalar_params=-32602)


class ChatSession(RpcSession):
    """One client and one thread. It is given the models and the settings of new threads."""

    def __init__(self, models: Models, defaults: Settings) -> None:
        super().__init__(RULES, frozenset({"say"}))
        self.thread: ThreadState | None = None

    def request(self, request: JsonRpcRequest) -> Sequence[Action]:
        match request.params:
            case {"text": str(text)} if self.thread is not None:
                prompt = SubmitPrompt(thread_id=self.thread.id, content=(TextInput(text=text),))
                return [Execute(command=prompt, context=Pending(request))]
            case {"text": str()}:
                return [Execute(command=CreateThread(), context=Pending(request))]
            case _:
                raise InvalidCommand("say needs a text")

    def done(self, action: Execute, outcome: Outcome) -> Sequence[Action]:
        assert isinstance(action.context, Pending)
        if isinstance(outcome, ThreadState):
            return [Follow(thread_id=outcome.id, context=action.context)]
        self.answer(action.context.request, {"ok": True})
        return []

    def followed(self, action: Follow, state: ThreadState, history: Sequence[Change], now: float) -> Sequence[Action]:
        self.thread = state
        return self.request(action.context.request) if isinstance(action.context, Pending) else []

    def project(self, change: Change) -> Sequence[Notify]:
        match change.record.event:
            case ItemCompleted(item=AgentMessage(text=text)):
                return [Notify(method="text", params={"text": text})]
            case _:
                return []

    def error_code(self, error: HarnessError) -> int:
        return -32602 if isinstance(error, InvalidCommand) else -32000
