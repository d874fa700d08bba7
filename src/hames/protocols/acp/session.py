"""ACP: a session of this protocol is a thread, and one connection may have many of them.

The version is the one that `initialize` agreed on. In v1 `session/prompt` is answered when its turn ends, in v2 when
its message is part of the conversation. What comes in waits for earlier requests, except answers to our own requests.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hames import __version__
from hames.codecs.jsonrpc_peer import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    JsonRpcPeer,
    JsonRpcRefusal,
    JsonRpcRequest,
    JsonRpcResponse,
    JsonRpcRules,
    Notification,
)
from hames.codecs.jsontext import encode
from hames.codecs.lines import Line
from hames.domain import events
from hames.domain.commands import (
    ChangeSettings,
    DeleteThread,
    DropPrompt,
    InterruptTurn,
    ReadThread,
    ThreadPage,
)
from hames.domain.errors import HarnessError, InvalidCommand, UnknownMethod
from hames.domain.ids import ItemId, PromptId, ThreadId, TurnId
from hames.domain.items import TextInput, UserMessage
from hames.domain.json import Json
from hames.domain.options import Settings
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn
from hames.ports import ClientToolCall, Models
from hames.protocols.acp import inbound
from hames.protocols.acp.endings import stop_reason, turn_failure
from hames.protocols.acp.errors import REQUEST_CANCELLED, turn_error_code
from hames.protocols.acp.listing import cursor, session_page
from hames.protocols.acp.messages import v1 as m1
from hames.protocols.acp.messages import v2 as m2
from hames.protocols.acp.options import OptionMenu, mode_overrides
from hames.protocols.acp.outbound import Outbound
from hames.protocols.acp.output import AcpOutput
from hames.protocols.acp.prompts import OwnPrompt, OwnPrompts, is_first_message
from hames.protocols.acp.questions import ClientQuestions
from hames.protocols.acp.sign_in import SignIn
from hames.protocols.acp.tool_calls import check_cancel
from hames.protocols.acp.updates.v1 import OutboundV1
from hames.protocols.acp.updates.v2 import OutboundV2
from hames.protocols.session import (
    Action,
    ClientRequest,
    Crashed,
    Defer,
    Execute,
    Follow,
    Outcome,
    Unfollow,
)

RULES = JsonRpcRules(version=True, batches=False, loose_ids=True, scalar_params=-32602)
METHODS = OutboundV1.methods | OutboundV2.methods


class _Pending(NamedTuple):
    """A request that waits for its outcome, and what must be known then."""

    request: JsonRpcRequest
    detail: Json = None


class AcpSession(AcpOutput):
    def __init__(self, models: Models, defaults: Settings) -> None:
        """`defaults` is what a new thread runs with."""
        super().__init__(JsonRpcPeer(RULES, METHODS))
        self._models = models
        self._sign_in = SignIn(models, defaults)
        self._out: Outbound | None = None
        """Speaks the version that was agreed on."""
        self._in_use = False
        """Something was asked in that version: it stays."""
        self._threads: dict[ThreadId, Settings] = {}
        """The threads that the client is told of."""
        self._prompts = OwnPrompts()
        self._closing: dict[ThreadId, JsonRpcRequest] = {}
        """Requests to close a session whose turn has not ended yet."""
        self._questions = ClientQuestions(self._rpc, self._send, show_terminal=self._show_terminal)
        self._later: list[Action] = []
        """What a change made necessary; carried out as soon as possible."""

    # -- from the client

    def receive(self, message: Line, _now: float) -> Sequence[Action]:
        actions: list[Action] = []
        for one in self._rpc.receive(message):
            match one:
                case JsonRpcResponse():
                    actions += self._questions.receive(one)
                case JsonRpcRefusal(line=line):
                    self._output.append(line)
                case JsonRpcRequest() | Notification():
                    actions.append(Defer(context=one))
        return actions

    def resume(self, action: Defer, _now: float) -> Sequence[Action]:
        match action.context:
            case Notification(method="session/cancel", params={"sessionId": str(thread_id)}):
                return self._cancel(ThreadId(thread_id))
            case Notification(method="$/cancel_request", params={"requestId": str() | int() as request_id}):
                return self._cancel_request(encode(request_id))
            case JsonRpcRequest() as request:
                try:
                    return self._request(request)
                except HarnessError as error:
                    self._refuse(request, error)
                except Exception as error:
                    self._fail(request, INTERNAL_ERROR, "internal error")
                    return [Crashed(error=error, method=request.method)]
            case _:
                pass
        return []

    def _request(self, request: JsonRpcRequest) -> Sequence[Action]:
        method, params, pending = request.method, request.params, _Pending(request)
        if method == "initialize":
            return self._initialize(request)
        if self._out is None:
            self._fail(request, INVALID_REQUEST, "send 'initialize' first")
            return []
        self._in_use = True
        if method not in self._out.methods:
            raise UnknownMethod(f"version {self._out.version} of the protocol has no method {method!r}")
        if method in ("session/new", "session/load", "session/resume", "session/fork", "session/prompt"):
            self._sign_in.check()
        match method:
            case "authenticate" | "auth/login":
                self._sign_in.authenticate(params)
                self._answer(request, {})
                return []
            case "logout" | "auth/logout":
                self._sign_in.sign_out()
                self._answer(request, {})
                return []
            case "session/new":
                self._sign_in.check_key()
                return [Execute(command=inbound.new_session(params), context=pending)]
            case "session/fork":
                return [Execute(command=inbound.fork_session(params), context=pending)]
            case "session/load" | "session/resume":
                opening = inbound.open_session(params, replay=method == "session/load")
                pending = _Pending(request, opening)
                if opening.resume is not None:
                    return [Execute(command=opening.resume, context=pending)]
                return [_follow(opening, pending)]
            case "session/list":
                return [Execute(command=inbound.list_sessions(params), context=_Pending(request))]
            case "session/prompt":
                self._questions.is_silent = False
                command = inbound.prompt(params)
                told = [] if command.thread_id in self._threads else [Follow(thread_id=command.thread_id)]
                return [*told, Execute(command=command, context=pending)]
            case "session/close":
                return self._close(inbound.session_id(params), request)
            case "session/delete":
                thread_id = inbound.session_id(params)
                return [Execute(command=DeleteThread(thread_id=thread_id, interrupt=True), context=pending)]
            case "session/set_mode":
                given = inbound.read(params, m1.SetSessionModeRequest)
                overrides = mode_overrides(given.mode_id)
                command = ChangeSettings(thread_id=inbound.session_id(params), overrides=overrides)
                return [Execute(command=command, context=pending)]
            case "session/set_config_option":
                thread_id, option, value = inbound.config_choice(params)
                if thread_id in self._threads:
                    return [self._choose(thread_id, option, value, self._threads[thread_id], request)]
                return [Execute(command=ReadThread(thread_id=thread_id), context=_Pending(request, (option, value)))]
            case _:  # tool_call/cancel, terminal/cancel
                thread_id, item_id = inbound.cancelled_call(params)
                return [Execute(command=ReadThread(thread_id=thread_id), context=_Pending(request, item_id))]

    def _initialize(self, request: JsonRpcRequest) -> Sequence[Action]:
        if self._in_use:  # until then a client may ask for another version, or offer more
            self._fail(request, INVALID_REQUEST, "'initialize' comes before every other request")
            return []
        version = inbound.protocol_version(request.params)
        outbound = OutboundV2 if version == 2 else OutboundV1
        out = outbound(OptionMenu(self._models), inbound.client_features(request.params, version))
        self._answer(request, out.initialize_result(__version__))
        self._out = out
        return []

    def _choose(
        self, thread_id: ThreadId, option: str, value: str, settings: Settings, request: JsonRpcRequest
    ) -> Execute:
        overrides = OptionMenu(self._models).overrides(option, value, settings)
        return Execute(command=ChangeSettings(thread_id=thread_id, overrides=overrides), context=_Pending(request))

    # -- cancel and close

    def _cancel(self, thread_id: ThreadId) -> Sequence[Action]:
        """Ends the running turn, whoever started it; the client's own queued prompts do not start any more."""
        dropped = self._drop(self._prompts.queued_on(thread_id))
        return [*dropped, Execute(command=InterruptTurn(thread_id=thread_id))]

    def _cancel_request(self, request_id: bytes) -> Sequence[Action]:
        if (found := self._prompts.turn_of(request_id)) is not None:
            return [Execute(command=InterruptTurn(thread_id=found[0], turn_id=found[1]))]
        prompt_id = self._prompts.prompt_of(request_id)
        return [] if prompt_id is None else self._drop([prompt_id])

    def _drop(self, prompts: Sequence[PromptId]) -> list[Action]:
        """Answers queued prompts as cancelled."""
        actions: list[Action] = []
        for prompt_id in prompts:
            thread_id, request = self._prompts.queued.pop(prompt_id)
            self._answer_cancelled(request)
            actions.append(Execute(command=DropPrompt(thread_id=thread_id, prompt_id=prompt_id)))
        return actions

    def _answer_cancelled(self, request: JsonRpcRequest) -> None:
        if isinstance(self._out, OutboundV2):
            self._fail(request, REQUEST_CANCELLED, "the prompt was cancelled")
        else:
            self._answer(request, m1.PromptResponse(stop_reason="cancelled"))

    def _close(self, thread_id: ThreadId, request: JsonRpcRequest) -> Sequence[Action]:
        """Ends the turn that this client started. A turn of another client goes on: it has its own watchers."""
        actions = self._drop(self._prompts.queued_on(thread_id))
        turn_id = self._prompts.running_on(thread_id)
        if turn_id is None or thread_id in self._closing:
            return [*actions, *self._closed(thread_id, request)]
        self._closing[thread_id] = request
        command = InterruptTurn(thread_id=thread_id, turn_id=turn_id)
        return [*actions, Execute(command=command, context=_Pending(request, thread_id))]

    def _closed(self, thread_id: ThreadId, request: JsonRpcRequest) -> list[Action]:
        """Answers, and tells nothing more of the thread."""
        self._questions.withdraw_all(thread_id)
        self._threads.pop(thread_id, None)
        self._closing.pop(thread_id, None)
        self._answer(request, {})
        return [Unfollow(thread_id=thread_id)]

    # -- outcomes

    def done(self, action: Execute, outcome: Outcome) -> Sequence[Action]:
        if not isinstance(pending := action.context, _Pending) or self._out is None:
            return []
        request, detail = pending
        match request.method, outcome:
            case "session/new" | "session/fork", ThreadState(id=thread_id):
                return [Follow(thread_id=thread_id, context=pending)]
            case "session/load" | "session/resume", ThreadState():
                return [_follow(detail, pending)]
            case "session/list", ThreadPage(threads=threads, next_cursor=next_cursor):
                self._answer(request, session_page(threads, next_cursor))
            case "session/prompt", Turn():
                self._begun(request, outcome, ThreadId(request.params["sessionId"]))
            case "session/prompt", QueuedPrompt(id=prompt_id):
                self._prompts.queued[prompt_id] = OwnPrompt(ThreadId(request.params["sessionId"]), request)
            case "session/set_config_option", ThreadState() if isinstance(action.command, ReadThread):
                try:
                    return [self._choose(outcome.id, detail[0], detail[1], outcome.settings, request)]
                except HarnessError as error:
                    self._refuse(request, error)
            case "session/set_config_option", ThreadState():
                self._answer(request, {"configOptions": self._out.options(outcome)})
            case "session/close", _:
                pass  # answered when the turn has ended
            case "tool_call/cancel" | "terminal/cancel", ThreadState():
                try:
                    check_cancel(outcome, detail)
                except HarnessError as error:
                    self._refuse(request, error)
                else:
                    self._answer(request, {})
            case _:
                self._answer(request, {})
        return []

    def _begun(self, request: JsonRpcRequest, turn: Turn, thread_id: ThreadId) -> None:
        """The turn of a prompt has started."""
        self._prompts.running[turn.id] = OwnPrompt(thread_id, request)
        if isinstance(self._out, OutboundV2):
            said = next((item for item in turn.items if isinstance(item, UserMessage)), None)
            if said is None:  # a command such as /compact
                text = TextInput(text=inbound.typed(request.params))
                said = UserMessage(id=ItemId(turn.id), step=0, content=(text,))
                self._update(thread_id, self._out.user_message(said, own=True))
            self._answer(request, m2.PromptResponse(message_id=said.id))

    def followed(self, action: Follow, state: ThreadState, history: Sequence[Change], _now: float) -> Sequence[Action]:
        self._threads[state.id] = state.settings
        if isinstance(pending := action.context, _Pending) and (out := self._out) is not None:
            request, opening = pending
            is_new = opening is None
            if not is_new and opening.after is not None:
                for change in history:
                    if change.record.seq > opening.after:
                        self._update(state.id, out.project(change))
            elif not is_new and opening.replay:
                self._update(state.id, out.replay(state))
            self._update(state.id, out.before_opened(state, is_new=is_new))
            self._answer(request, out.opened(state, is_new=is_new))
            self._update(state.id, [*out.after_opened(state), *out.greeting(state)])
        self._ask_permissions(state)
        return []

    def _ask_permissions(self, state: ThreadState) -> None:
        """Nobody is asked who may not answer."""
        if self._out is not None and self.can_answer:
            self._questions.ask_permissions(self._out, state)

    def failed(self, action: Action, error: HarnessError) -> Sequence[Action]:
        if not isinstance(action, Execute | Follow) or not isinstance(pending := action.context, _Pending):
            return []
        if pending.request.method == "session/close":  # the turn ended by itself meanwhile
            thread_id = ThreadId(pending.detail)
            return self._closed(thread_id, pending.request) if thread_id in self._closing else []
        self._refuse(pending.request, error)
        return []

    # -- to the client

    def tell(self, changes: Sequence[Change], _now: float) -> None:
        """A change that cannot be told does not take the others with it; its error is raised behind them."""
        failure: Exception | None = None
        for change in changes:
            if change.record.thread_id in self._threads:
                try:
                    self._tell(change)
                except Exception as error:
                    failure = error
        if failure is not None:
            raise failure

    def _tell(self, change: Change) -> None:
        assert self._out is not None
        thread_id, event = change.record.thread_id, change.record.event
        own = False
        match event:
            case events.ItemStarted(turn_id=turn_id, item=UserMessage(client_id=client_id)):
                if client_id is not None and (waiting := self._prompts.queued.pop(PromptId(client_id), None)):
                    turn = change.after.turn(turn_id)
                    assert turn is not None
                    self._begun(waiting.request, turn, thread_id)
                own = turn_id in self._prompts.running and is_first_message(change, turn_id)
            case events.SettingsChanged(settings=settings):
                self._threads[thread_id] = settings
            case events.ApprovalResolved(approval_id=approval_id):
                self._questions.withdraw(approval_id)
            case _:
                pass
        self._update(thread_id, self._out.project(change, own=own))
        match event:
            case events.ApprovalRequested():
                self._ask_permissions(change.after)
            case events.PromptRemoved(prompt_id=prompt_id) if (
                change.before.running is not None or change.before.queue_held
            ):
                if waiting := self._prompts.queued.pop(prompt_id, None):  # taken back, and not started
                    self._answer_cancelled(waiting.request)
            case events.QueueHeld(held=True):  # nobody would start it before somebody else sends a prompt
                self._later += self._drop(self._prompts.queued_on(thread_id))
            case events.Noticed(name="prompt_dropped", message=message):
                for prompt_id in self._prompts.queued_on(thread_id):
                    if all(one.id != prompt_id for one in change.after.queue):
                        self._refuse(self._prompts.queued.pop(prompt_id).request, InvalidCommand(message))
            case events.TurnEnded(turn_id=turn_id):
                self._turn_ended(change, turn_id)
            case _:
                pass

    def _turn_ended(self, change: Change, turn_id: TurnId) -> None:
        thread_id, turn = change.record.thread_id, change.after.turn(turn_id)
        waiting = self._prompts.running.pop(turn_id, None)
        if waiting is not None and turn is not None and isinstance(self._out, OutboundV1):
            if (reason := stop_reason(turn)) is not None:
                answer = m1.PromptResponse(stop_reason=reason, meta=cursor(change.record.seq))
                self._answer(waiting.request, answer)
            else:
                code = turn_error_code(turn.error.info if turn.error is not None else "Other")
                self._fail(waiting.request, code, turn_failure(turn))
        if (request := self._closing.get(thread_id)) is not None and self._prompts.running_on(thread_id) is None:
            self._later += self._closed(thread_id, request)

    def lost(self, thread_id: ThreadId, why: str) -> None:
        self._threads.pop(thread_id, None)
        self._questions.withdraw_all(thread_id)
        is_answered = isinstance(self._out, OutboundV2)
        for turn_id in [key for key, one in self._prompts.running.items() if one.thread_id == thread_id]:
            request = self._prompts.running.pop(turn_id).request
            if not is_answered:
                self._fail(request, INTERNAL_ERROR, why)
        for prompt_id in self._prompts.queued_on(thread_id):
            request = self._prompts.queued.pop(prompt_id).request
            self._fail(request, INTERNAL_ERROR, why)
        if (request := self._closing.pop(thread_id, None)) is not None:
            self._answer(request, {})

    # -- questions to the client

    def ask(self, request_id: str, request: ClientRequest, deadline: float) -> bool:
        if isinstance(request, ClientToolCall):
            return False
        return self._questions.ask_file(self._out, request_id, request, deadline)

    def editor_rank(self, thread_id: ThreadId) -> int:
        """The editor in which the turn was started comes first."""
        if thread_id not in self._threads or self._questions.is_silent or not self._questions.can_ask_files(self._out):
            return 0
        return 1 if self._prompts.running_on(thread_id) is None else 2

    def terminal_rank(self, thread_id: ThreadId) -> int:
        """Only the client that started the turn: its user waits there."""
        offers = isinstance(self._out, OutboundV1) and self._out.client.terminals and not self._questions.is_silent
        return 1 if offers and self._prompts.running_on(thread_id) is not None else 0

    def _show_terminal(self, thread_id: ThreadId, item_id: ItemId, terminal: str) -> None:
        if isinstance(self._out, OutboundV1):
            self._out.terminals[item_id] = terminal
            self._update(thread_id, self._out.own_terminal(item_id, terminal))

    def withdraw(self, request_id: str) -> None:
        self._questions.withdraw(request_id)

    def next_deadline(self) -> float | None:
        return 0.0 if self._later else self._questions.next_deadline()

    def expire(self, now: float) -> Sequence[Action]:
        actions, self._later = self._later, []
        return [*actions, *self._questions.expire(now)]


def _follow(opening: inbound.OpenSession, pending: _Pending) -> Follow:
    return Follow(thread_id=opening.thread_id, replay=opening.after is not None, context=pending)
