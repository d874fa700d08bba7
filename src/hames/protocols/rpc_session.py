"""What every session on JSON-RPC does alike: one message after the other, each answered before what it caused is told.

A protocol derives from `RpcSession` and says what a request means (`request`), what its outcome is (`done`,
`followed`) and what a change means to the client (`project`).
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hames.codecs.jsonrpc_peer import (
    INTERNAL_ERROR,
    JsonRpcPeer,
    JsonRpcRefusal,
    JsonRpcRequest,
    JsonRpcResponse,
    JsonRpcRules,
    Notification,
)
from hames.codecs.lines import Line, TooLong
from hames.domain.commands import Command
from hames.domain.errors import HarnessError
from hames.domain.ids import ApprovalId, ThreadId
from hames.domain.json import Json
from hames.domain.state import Change
from hames.domain.value import Value
from hames.protocols.session import Action, Crashed, Defer, Execute, Follow, Session, Unfollow


class Notify(Value):
    method: str
    params: Json


class Ask(Value):
    """A request of ours. Its answer decides about the approval."""

    method: str
    params: Json
    approval_id: ApprovalId


class Settled(Value):
    """The approval is decided: a late answer to our request means nothing."""

    approval_id: ApprovalId


Outgoing = Notify | Ask | Settled


class Pending(NamedTuple):
    """A request that waits for its outcome."""

    request: JsonRpcRequest
    new_follow: ThreadId | None = None
    """The thread that is followed only because of it."""
    command: Command | None = None
    """What was carried out already, where the answer waits for the thread to be followed."""


class _Named(msgspec.Struct, rename="camel"):
    thread_id: str = ""


class _Glance(msgspec.Struct):
    """As much of a message as its order depends on."""

    method: str = ""
    params: _Named | None = None


_GLANCE = msgspec.json.Decoder(_Glance)


class RpcSession(Session):
    reads: frozenset[str] = frozenset()
    """Methods that only look."""
    urgent: frozenset[str] = frozenset()
    """Methods that something waits for: interrupts and answers."""

    def __init__(self, rules: JsonRpcRules, methods: frozenset[str]) -> None:
        self._rpc = JsonRpcPeer(rules, methods)
        self._followed: set[ThreadId] = set()
        self._output: list[bytes] = []
        self._batch = 0
        """Requests of a batch that are not answered yet."""
        self._beginning = False
        """A request is being read: what is said now comes behind its answer."""
        self._held: list[bytes] = []
        """Notifications that wait until every request of the batch is answered, or the one that is being read."""
        self._behind: dict[bytes, list[bytes]] = {}
        """Notifications that wait for the answer to a single request, by its id."""

    # -- what a protocol says

    @abstractmethod
    def request(self, request: JsonRpcRequest) -> Sequence[Action]:
        """Raises `HarnessError`, which is the answer then."""

    @abstractmethod
    def project(self, change: Change) -> Sequence[Outgoing]: ...

    @abstractmethod
    def error_code(self, error: HarnessError) -> int: ...

    def decide(self, _response: JsonRpcResponse) -> Sequence[Action]:
        """What the answer to an `Ask` means."""
        return ()

    # -- the session

    def receive(self, message: Line, _now: float) -> Sequence[Action]:
        return [self._ordered(message)]

    def _ordered(self, message: Line) -> Defer:
        """Whether it may overtake. Nothing else is decided by this look."""
        try:
            seen = _GLANCE.decode(message) if isinstance(message, bytes) else _Glance()
        except (msgspec.MsgspecError, ValueError, RecursionError):  # a batch, or what is refused later
            return Defer(context=message, threads=None)
        threads = frozenset({seen.params.thread_id}) if seen.params and seen.params.thread_id else frozenset[str]()
        if seen.method in self.reads:
            return Defer(context=message, urgency="read", threads=threads)
        if seen.method in self.urgent or not seen.method:
            return Defer(context=message, urgency="urgent", threads=threads)
        return Defer(context=message, threads=threads)

    def resume(self, action: Defer, _now: float) -> Sequence[Action]:
        assert isinstance(action.context, bytes | TooLong)
        incoming = self._rpc.receive(action.context)
        requests = sum(isinstance(one, JsonRpcRequest) for one in incoming)
        if requests > 1:
            self._batch += requests
        actions: list[Action] = []
        for one in incoming:
            match one:
                case JsonRpcRequest():
                    actions += self._begin(one)
                case JsonRpcRefusal(line=line):
                    self._output.append(line)
                case JsonRpcResponse():
                    actions += self.decide(one)
                case Notification():
                    pass  # nothing is asked for in this way
        return actions

    def _begin(self, request: JsonRpcRequest) -> Sequence[Action]:
        self._beginning = True
        try:
            return self.request(request)
        except HarnessError as error:
            self.refuse(request, error)
            return []
        except Exception as error:
            self._add_answer(request, self._rpc.error(request, INTERNAL_ERROR, "internal error"))
            return [Crashed(error=error, method=request.method)]
        finally:
            self._beginning = False
            if self._held and not self._batch:
                self._behind.setdefault(request.id, []).extend(self._held)
                self._held = []

    def failed(self, action: Action, error: HarnessError) -> Sequence[Action]:
        """A follow without a request is followed by a command that fails for the same reason, and is answered."""
        if not isinstance(action, Execute | Follow) or not isinstance(action.context, Pending):
            return []
        self.refuse(action.context.request, error)
        if (thread_id := action.context.new_follow) is not None and thread_id in self._followed:
            self._followed.discard(thread_id)
            return [Unfollow(thread_id=thread_id)]
        return []

    def tell(self, changes: Sequence[Change], _now: float) -> None:
        """A change that cannot be told does not take the others with it; its error is raised behind them."""
        failure: Exception | None = None
        for change in changes:
            try:
                self.say(self.project(change))
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure

    def lost(self, thread_id: ThreadId, _why: str) -> None:
        self._followed.discard(thread_id)

    def take_output(self) -> bytes:
        data, self._output = b"".join(self._output), []
        return data

    # -- for protocols

    def answer(self, request: JsonRpcRequest, result: Json) -> None:
        self._add_answer(request, self._rpc.result(request, result))

    def refuse(self, request: JsonRpcRequest, error: HarnessError) -> None:
        self._add_answer(request, self._rpc.error(request, self.error_code(error), str(error)))

    def _add_answer(self, request: JsonRpcRequest, line: bytes) -> None:
        self._output.append(line)
        self._output += self._behind.pop(request.id, ())
        if request.batch is not None and self._batch:
            self._batch -= 1
        if not self._batch and self._held:
            self._output += self._held
            self._held = []

    def say(self, messages: Sequence[Outgoing]) -> None:
        lines = self._held if self._batch or self._beginning else self._output
        for message in messages:
            match message:
                case Notify(method=method, params=params):
                    lines.append(self._rpc.notification(method, params))
                case Ask(method=method, params=params, approval_id=approval_id):
                    if self.can_answer and not self._rpc.is_asking(approval_id):
                        lines.append(self._rpc.ask(method, params, approval_id))
                case Settled(approval_id=approval_id):
                    self._rpc.withdraw(approval_id)
