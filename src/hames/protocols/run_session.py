"""What the protocols with one HTTP request per run have in common: a body is a run, and its response ends with the run.

A run ends with its turn, or where it needs its client: for a tool that the client carries out, or for an approval. Then
the turn stays open (`is_waiting`), and the next body on the same session answers and goes on with it.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from hames.codecs.lines import Line, TooLong
from hames.domain import commands
from hames.domain.approvals import Approval
from hames.domain.errors import HarnessError, InvalidCommand, TurnBusy
from hames.domain.events import ApprovalRequested, TurnEnded
from hames.domain.ids import ApprovalId, CallId, ItemId, ThreadId, TurnId
from hames.domain.items import TextInput, ToolCall, ToolResult, UserInput
from hames.domain.json import NOTHING, Json
from hames.domain.options import Overrides
from hames.domain.policy import ApprovalPolicy, Decision
from hames.domain.state import Change, ThreadState, Turn
from hames.domain.value import Value
from hames.ports import ClientToolCall
from hames.protocols import session

EVENTS = "text/event-stream; charset=utf-8"
JSON = "application/json"


class RunAnswer(Value):
    """What a client answers to an approval."""

    approval_id: ApprovalId
    decision: Decision
    note: str = ""
    content: Json = None


class Run(Value):
    """One request: where it happens, what is said, and what is answered."""

    thread_id: ThreadId | None = None
    """None: a new thread."""
    fork_after: TurnId | None = None
    """Go on from the end of this turn, in a fork of the thread."""
    after: TurnId | None = None
    """The thread's last turn when it was looked up. If another one has begun since, this goes on in a fork."""
    history: tuple[commands.PastTurn, ...] = ()
    """What the client knows of a conversation that happened elsewhere. For a new thread."""
    content: tuple[UserInput, ...] = ()
    results: Mapping[str, ToolResult] = {}
    """Of calls of the client's tools, by call id."""
    answers: tuple[RunAnswer, ...] = ()
    overrides: Overrides = Overrides()
    output_schema: Json = NOTHING
    client_id: str | None = None
    """The client's name for what is said."""
    title: str = ""
    meta: Json = NOTHING
    """Of the thread, if it is new."""
    turn_meta: Json = NOTHING


class KnownThreads:
    """Which thread a name of a client's means. Shared by the sessions of a server; what it forgets is looked up."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._names: dict[str, tuple[ThreadId, TurnId | None]] = {}
        self.coming: set[str] = set()
        """Names whose thread a session is making."""

    def get(self, name: str) -> tuple[ThreadId, TurnId | None] | None:
        return self._names.get(name)

    def add(self, name: str, thread_id: ThreadId, turn_id: TurnId | None = None) -> None:
        """`turn_id`: it means the thread as it was at the end of this turn."""
        self._names.pop(name, None)
        self._names[name] = (thread_id, turn_id)
        while len(self._names) > self._most:
            del self._names[next(iter(self._names))]


class RunSession(session.Session):
    can_decide = True
    """Whether the protocol has a way to answer approvals."""

    def __init__(self, known: KnownThreads, *, policy: ApprovalPolicy | None = None) -> None:
        """`policy`: the approval policy of new threads; None: the server's own."""
        self.known = known
        self.policy: ApprovalPolicy | None = policy
        self.status = 200
        """Of the response to the open request; decided before the first output."""
        self.media = JSON
        self.headers: dict[str, str] = {}
        self.has_open_request = False
        self.leaves_turn = False
        """The turn goes on when the connection ends."""
        self.keys: set[str] = set()
        """Names by which the next request finds this session while it waits."""
        self.state: ThreadState | None = None
        self.turn_id: TurnId | None = None
        self.first_item = 0
        """How many items the turn had when the open request began."""
        self._asked: dict[ItemId, str] = {}
        """Calls of the client's tools that wait for a result, with the id of the request to this session."""
        self._ready: dict[str, ToolResult] = {}
        """Results that came before the engine asked for them, by call id."""
        self._output: list[bytes] = []

    # -- what a protocol says

    @abstractmethod
    def read(self, body: bytes) -> Sequence[session.Action]:
        """A new request: notes what it is and returns `start(run)`, or looks something up first. Raises
        `HarnessError`."""

    @abstractmethod
    def refused(self, error: HarnessError) -> None:
        """Answers the open request with an error, before or after its first output."""

    @abstractmethod
    def begun(self, turn: Turn, at_ms: int) -> None:
        """The turn has started, or goes on."""

    @abstractmethod
    def project(self, change: Change) -> None: ...

    @abstractmethod
    def called(self, calls: Sequence[ToolCall]) -> None:
        """The turn waits for results of the client's tools. Ends the response."""

    @abstractmethod
    def asks(self, approvals: Sequence[Approval]) -> None:
        """The turn waits for an approval. Ends the response."""

    @abstractmethod
    def ended(self, turn: Turn) -> None:
        """The turn is over. Ends the response."""

    def fit(self, run: Run, _state: ThreadState) -> Run | None:
        """The run without what the thread knows already. None: nothing is left of it, and it was answered."""
        return run

    def looked_up(self, _action: session.Execute, _outcome: session.Outcome) -> Sequence[session.Action]:
        """The outcome of something that `read` looked up."""
        return ()

    def lookup_failed(self, _action: session.Execute, _error: HarnessError) -> Sequence[session.Action] | None:
        """None: the request is refused for this reason."""
        return None

    # -- the session

    @property
    def is_waiting(self) -> bool:
        """Whether the turn needs another request of this client."""
        return self.turn_id is not None and not self.has_open_request

    def receive(self, message: Line, _now: float) -> Sequence[session.Action]:
        return [session.Defer(context=message)]

    def resume(self, action: session.Defer, _now: float) -> Sequence[session.Action]:
        self.status, self.media, self.headers = 200, JSON, {}
        self.has_open_request = True
        try:
            if isinstance(action.context, TooLong):
                raise InvalidCommand(f"the body has more than {action.context.limit} bytes")
            assert isinstance(action.context, bytes)
            return self.read(action.context)
        except HarnessError as error:
            self._refuse(error)
        except Exception as error:
            self._refuse(HarnessError("internal error"))
            return [session.Crashed(error=error, method=self.protocol)]
        return []

    def _refuse(self, error: HarnessError) -> None:
        if self.has_open_request:
            self.refused(error)
            self.has_open_request = False

    def start(self, run: Run) -> Sequence[session.Action]:
        """Carries out a run."""
        if run.thread_id is None:
            overrides = replace(run.overrides, approval_policy=self.policy)
            command = commands.CreateThread(title=run.title, overrides=overrides, meta=run.meta)
            return [session.Execute(command=command, context=run)]
        if run.fork_after is not None:
            fork = commands.ForkThread(thread_id=run.thread_id, last_turn_id=run.fork_after, meta=run.meta)
            return [session.Execute(command=fork, context=run)]
        return [self._follow(run, run.thread_id)]

    def _in_fork(self, run: Run, left: ThreadId) -> Sequence[session.Action]:
        """Another request was faster: it has the thread."""
        return [session.Unfollow(thread_id=left), *self.start(replace(run, fork_after=run.after, after=None))]

    def _follow(self, run: Run, thread_id: ThreadId) -> session.Follow:
        return session.Follow(thread_id=thread_id, can_answer=self.can_decide, context=run)

    def done(self, action: session.Execute, outcome: session.Outcome) -> Sequence[session.Action]:
        run = action.context
        if not isinstance(run, Run):
            try:
                return self.looked_up(action, outcome)
            except HarnessError as error:
                self._refuse(error)
                return []
        match action.command, outcome:
            case commands.CreateThread(), ThreadState(id=thread_id):
                more = [
                    session.Execute(command=commands.AddHistory(thread_id=thread_id, turns=run.history), context=run)
                ]
                return more if run.history else [self._follow(run, thread_id)]
            case commands.ForkThread(), ThreadState(id=thread_id):
                return [self._follow(run, thread_id)]
            case commands.AddHistory(thread_id=thread_id), _:
                return [self._follow(run, thread_id)]
            case commands.StartTurn(), Turn():
                self._begin(outcome)
            case _:
                pass
        return []

    def _begin(self, turn: Turn) -> None:
        self.turn_id = turn.id
        self.first_item = len(turn.items)
        self.begun(turn, turn.started_at_ms)

    def followed(
        self, action: session.Follow, state: ThreadState, _history: Sequence[Change], _now: float
    ) -> Sequence[session.Action]:
        self.state = state
        run = action.context
        if not isinstance(run, Run):
            return []
        try:
            fitting = self.fit(run, state)
            if fitting is None:
                self.has_open_request = False
                return []
            if state.running is not None and fitting.after not in (None, state.running.id):
                return self._in_fork(fitting, state.id)
            return self._go_on(fitting, state) if state.running is not None else self._start_turn(fitting, state)
        except HarnessError as error:
            self._refuse(error)
            return []

    def _start_turn(self, run: Run, state: ThreadState) -> Sequence[session.Action]:
        # Nobody waits for these results any more, and what a client sends reaches the model all the same.
        late = tuple(
            TextInput(text=f"Result of the tool call {name}:\n{result.text}") for name, result in run.results.items()
        )
        content = (*late, *run.content)
        if not content:
            raise InvalidCommand("there is nothing to do: no message, and nothing that waits for an answer")
        command = commands.StartTurn(
            thread_id=state.id,
            content=content,
            overrides=run.overrides,
            output_schema=run.output_schema,
            client_id=run.client_id,
            meta=run.turn_meta,
        )
        return [session.Execute(command=command, context=run)]

    def _go_on(self, run: Run, state: ThreadState) -> Sequence[session.Action]:
        """The turn runs: only answers go on with it."""
        turn = state.running
        assert turn is not None
        open_ids = {approval.id for approval in state.approvals}
        answers = [one for one in run.answers if one.approval_id in open_ids]
        waiting = {self._call_id(state, item_id): item_id for item_id in self._asked}
        results = {name: result for name, result in run.results.items() if name in waiting}
        if not answers and not results:
            what = "an approval" if open_ids else "the result of a tool" if waiting else ""
            raise TurnBusy(f"the thread waits for {what}" if what else "the thread already runs a turn")
        if run.content:
            raise InvalidCommand("answers and a new message cannot be sent together: the turn still runs")
        self._begin(turn)
        self._ready |= {name: result for name, result in run.results.items() if name not in results}
        replies: list[session.Action] = [
            session.ClientReply(request_id=self._asked.pop(waiting[name]), result=result)
            for name, result in results.items()
        ]
        return [
            *replies,
            *(
                session.Execute(
                    command=commands.ResolveApproval(
                        approval_id=one.approval_id, decision=one.decision, note=one.note, content=one.content
                    ),
                    context=run,
                )
                for one in answers
            ),
        ]

    def failed(self, action: session.Action, error: HarnessError) -> Sequence[session.Action]:
        if not isinstance(action, session.Execute | session.Follow):
            return []
        if isinstance(action, session.Execute) and not isinstance(action.context, Run) and action.context is not None:
            try:
                more = self.lookup_failed(action, error)
            except HarnessError as other:
                more, error = None, other
            if more is not None:
                return more
        match action, error:
            case session.Execute(command=commands.StartTurn(thread_id=busy), context=Run(after=str()) as r), TurnBusy():
                return self._in_fork(r, busy)
            case _:
                pass
        if isinstance(action.context, Run) or action.context is not None:
            self.turn_id = None if self.state is None or self.state.running is None else self.turn_id
            self._refuse(error)
        return []

    def tell(self, changes: Sequence[Change], _now: float) -> None:
        for change in changes:
            if self.state is not None and self.state.id != change.record.thread_id:
                continue  # of a thread that was left for a fork
            self.state = change.after
            event = change.record.event
            if self.turn_id is None or self.turn_id != _turn_of(event, change.after):
                continue
            if self.has_open_request:
                self.project(change)
            match event:
                case ApprovalRequested():
                    self._need_approval()
                case TurnEnded(turn_id=turn_id):
                    turn = change.after.turn(turn_id)
                    self.turn_id = None
                    self._asked.clear()
                    self._ready.clear()
                    if self.has_open_request and turn is not None:
                        self.ended(turn)
                        self.has_open_request = False
                case _:
                    self._need_results()

    def _need_approval(self) -> None:
        if self.state is not None and self.has_open_request and self.can_decide and self.can_answer:
            self.asks(self.state.approvals)
            self.has_open_request = False

    def _need_results(self) -> None:
        """Ends the response with the calls that wait, once the client was told of their items."""
        if not self._asked or not self.has_open_request or self.state is None or self.state.running is None:
            return
        state, turn = self.state, self.state.running
        calls = [item for item in turn.items if isinstance(item, ToolCall)]
        asked = [item for item in calls if item.id in self._asked and item.call_id not in self._ready]
        if not asked:
            return
        own = {_model_name(tool.namespace, tool.name) for tool in state.settings.client_tools}
        started = {item.call_id for item in calls}
        # The calls behind it in the same reply come next: the client is told of all at once.
        following = [
            ToolCall(
                id=ItemId(""), step=one.step, call_id=one.call.id, name=one.call.name, arguments=one.call.arguments
            )
            for one in turn.calls
            if one.step == asked[-1].step and one.call.name in own and one.call.id not in started
        ]
        self.called([*asked, *following])
        self.has_open_request = False

    def lost(self, _thread_id: ThreadId, why: str) -> None:
        self.turn_id = None
        self._refuse(HarnessError(why))

    # -- tools of the client

    def tool_rank(self, thread_id: ThreadId) -> int:
        return 2 if self.state is not None and self.state.id == thread_id and self.turn_id is not None else 0

    def ask(self, request_id: str, request: session.ClientRequest, _deadline: float) -> bool:
        if not isinstance(request, ClientToolCall):
            return False
        self._asked[request.item_id] = request_id
        self._need_results()
        return True

    def withdraw(self, request_id: str) -> None:
        self._asked = {item_id: one for item_id, one in self._asked.items() if one != request_id}

    def next_deadline(self) -> float | None:
        return 0.0 if any(self._call_id(self.state, one) in self._ready for one in self._asked) else None

    def expire(self, _now: float) -> Sequence[session.Action]:
        """Results that were there before the engine asked for them."""
        replies: list[session.Action] = []
        for item_id, request_id in list(self._asked.items()):
            if (result := self._ready.pop(self._call_id(self.state, item_id), None)) is not None:
                del self._asked[item_id]
                replies.append(session.ClientReply(request_id=request_id, result=result))
        return replies

    def _call_id(self, state: ThreadState | None, item_id: ItemId) -> str:
        item = state.item(item_id) if state is not None else None
        return item.call_id if isinstance(item, ToolCall) else CallId("")

    # -- the end

    def closed(self) -> Sequence[session.Action]:
        """A client that closes its connection wants no more of the turn that it started."""
        if self.turn_id is None or self.state is None or self.leaves_turn:
            return []
        return [session.Execute(command=commands.InterruptTurn(thread_id=self.state.id, turn_id=self.turn_id))]

    def take_output(self) -> bytes:
        data, self._output = b"".join(self._output), []
        return data

    def write(self, data: bytes) -> None:
        self._output.append(data)


def _model_name(namespace: str, name: str) -> str:
    return f"{namespace}__{name}" if namespace else name


def _turn_of(event: object, state: ThreadState) -> TurnId | None:
    if isinstance(event, ApprovalRequested):
        return event.approval.turn_id
    found: TurnId | None = getattr(event, "turn_id", None)
    return found or (state.turns[-1].id if state.turns else None)


MakeRunSession = Callable[[KnownThreads, ApprovalPolicy | None], RunSession]
