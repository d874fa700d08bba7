"""bootstrap, as a connection needs it: JSON-RPC 2.0 with batches, no handshake, nothing asked of the client."""

from collections.abc import Sequence

from hames.codecs.jsonrpc import Params, Response, Rules
from hames.domain.commands import Command, CreateThread, ReadThread, StartTurn, ThreadPage
from hames.domain.errors import HarnessError
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState, Turn
from hames.ports import Models
from hames.protocols.bootstrap import errors, greeting, inbound, messages, outbound
from hames.protocols.dialect import Follow, Local, Notify, Outcome


class Bootstrap:
    rules = Rules(version=True, batches=True, loose_ids=True, scalar_params=-32600)
    methods = frozenset(messages.REQUESTS)

    def decode(self, method: str, params: Params) -> Command | Local:
        return inbound.decode(method, params)

    def local(self, _request: Local, _models: Models) -> Json:
        return greeting.RESULT

    def follow(self, command: Command) -> Follow:
        match command:
            case CreateThread():
                return "start"
            case ReadThread():
                return "history"
            case StartTurn():
                return "now"
            case _:
                return "no"

    def answer(self, command: Command, outcome: Outcome, history: Sequence[Change]) -> Json:
        match outcome:
            case ThreadPage(threads=threads):
                return messages.ThreadListResult(threads=tuple(map(outbound.thread_of_summary, threads)))
            case Turn(id=turn_id):
                return messages.TurnStartResult(turn_id=turn_id)
            case ThreadState() if isinstance(command, CreateThread):
                return messages.ThreadCreateResult(thread=outbound.thread_of_state(outcome))
            case ThreadState() if isinstance(command, ReadThread):
                thread = outbound.thread_of_state(outcome)
                return messages.ThreadGetResult(thread=thread, events=outbound.kept_events(history))
            case _:
                return messages.Ok(ok=True)

    def greet(self, _command: Command, _state: ThreadState, history: Sequence[Change]) -> Sequence[Notify]:
        return outbound.pending_approvals(history)

    def project(self, change: Change) -> Sequence[Notify]:
        return outbound.project(change)

    def decide(self, _response: Response) -> Sequence[Command]:
        """Nothing is asked of the client, so nothing can be answered."""
        return ()

    def code(self, error: HarnessError) -> int:
        return errors.code(error)
