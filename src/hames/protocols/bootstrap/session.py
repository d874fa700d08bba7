"""bootstrap: JSON-RPC 2.0 with batches, no handshake, nothing asked of the client.

Reading a thread follows it first and answers from what following returned, so the events in the answer and the
notifications after it can neither overlap nor leave a gap.
"""

from collections.abc import Sequence

from msgspec import convert

from hames.codecs.jsonrpc_peer import JsonRpcRequest, JsonRpcRules
from hames.domain.commands import Command, CreateThread, ReadThread, StartTurn, ThreadPage
from hames.domain.errors import HarnessError
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState, Turn
from hames.domain.undo import UndoReport
from hames.protocols.bootstrap import errors, greeting, inbound, messages, outbound
from hames.protocols.bootstrap.undo import ThreadUndoResult
from hames.protocols.rpc_session import Notify, Pending, RpcSession
from hames.protocols.session import Action, Execute, Follow, Outcome

RULES = JsonRpcRules(version=True, batches=True, loose_ids=True, scalar_params=-32600)
METHODS = frozenset(messages.REQUESTS)


class BootstrapSession(RpcSession):
    protocol = "bootstrap"
    reads = frozenset({"thread.list", "thread.get"})
    urgent = frozenset({"turn.cancel", "approval.respond"})

    def __init__(self) -> None:
        super().__init__(RULES, METHODS)

    def request(self, request: JsonRpcRequest) -> Sequence[Action]:
        match inbound.decode(request.method, request.params):
            case inbound.Initialize(client=client):
                self.client_name = client
                self.answer(request, greeting.RESULT)
                return []
            case ReadThread(thread_id=thread_id):
                return [Follow(thread_id=thread_id, replay=True, context=Pending(request))]
            case StartTurn(thread_id=thread_id) as command:
                new = None if thread_id in self._followed else thread_id
                return [Follow(thread_id=thread_id), Execute(command=command, context=Pending(request, new))]
            case command:
                return [Execute(command=command, context=Pending(request))]

    def done(self, action: Execute, outcome: Outcome) -> Sequence[Action]:
        assert isinstance(action.context, Pending)
        self.answer(action.context.request, _result(action.command, outcome))
        if isinstance(action.command, CreateThread) and isinstance(outcome, ThreadState):
            return [Follow(thread_id=outcome.id, replay=True)]
        return []

    def followed(self, action: Follow, state: ThreadState, history: Sequence[Change], now: float) -> Sequence[Action]:
        is_new = state.id not in self._followed
        self._followed.add(state.id)
        if isinstance(action.context, Pending):
            thread = outbound.thread_of_state(state)
            result = messages.ThreadGetResult(thread=thread, events=outbound.kept_events(history))
            self.answer(action.context.request, result)
            if is_new:  # a client that follows already was asked
                self.say(outbound.pending_approvals(history))
        else:
            self.tell(history, now)
        return []

    def project(self, change: Change) -> Sequence[Notify]:
        return outbound.project(change)

    def error_code(self, error: HarnessError) -> int:
        return errors.code(error)


def _result(command: Command, outcome: Outcome) -> Json:
    match outcome:
        case ThreadState() if isinstance(command, CreateThread):
            return messages.ThreadCreateResult(thread=outbound.thread_of_state(outcome))
        case ThreadPage(threads=threads):
            return messages.ThreadListResult(threads=tuple(map(outbound.thread_of_summary, threads)))
        case UndoReport():
            return convert(outcome, ThreadUndoResult, from_attributes=True)
        case Turn(id=turn_id):
            return messages.TurnStartResult(turn_id=turn_id)
        case _:
            return messages.Ok(ok=True)
