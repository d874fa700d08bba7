"""flint: no `jsonrpc` member, a handshake, questions asked of the client.

A session remembers who the client is (and so which dialect it speaks), what was chosen with `config/set`, and which
thread was opened last.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from hames import __version__
from hames.codecs.jsonrpc_peer import JsonRpcRequest, JsonRpcResponse, JsonRpcRules, Params
from hames.domain import commands
from hames.domain.approvals import Elicit, Intent
from hames.domain.errors import HarnessError, InvalidCommand
from hames.domain.events import ApprovalRequested, ApprovalResolved, SettingsChanged
from hames.domain.ids import ApprovalId, ThreadId, TurnId
from hames.domain.json import Json
from hames.domain.options import Overrides, Settings
from hames.domain.rules import Rule
from hames.domain.servers import ServerList
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn
from hames.ports import ClientToolCall, Models
from hames.protocols.flint import elicitation, greeting, inbound, method_order, outbound
from hames.protocols.flint import messages as m
from hames.protocols.flint.answers import read_decision
from hames.protocols.flint.client import tools as client_tools
from hames.protocols.flint.client.calls import ToolCalls
from hames.protocols.flint.client.settings import config_notices, typed_tools, with_client_settings
from hames.protocols.flint.codex.detection import is_codex_request
from hames.protocols.flint.codex.files import PROGRAMS, decode_program, program_result
from hames.protocols.flint.codex.inbound import FIXED
from hames.protocols.flint.codex.model_choice import with_provider
from hames.protocols.flint.codex.steering import steering_instead
from hames.protocols.flint.dialect import About, FlintDialect
from hames.protocols.flint.options import check_option, config_options, with_options
from hames.protocols.flint.pages import items_page, page_of, servers_page, turns_page
from hames.protocols.flint.parts import provider_of, report
from hames.protocols.rpc_session import Ask, Notify, Outgoing, Pending, RpcSession
from hames.protocols.session import Action, ClientRequest, Execute, Follow, Outcome, Unfollow


class _Asked(NamedTuple):
    """A question this client has been asked."""

    thread_id: ThreadId
    turn_id: TurnId
    intent: Intent | Elicit
    offer: Rule | None


RULES = JsonRpcRules(version=False, batches=False, loose_ids=False, scalar_params=-32602, opening="initialize")
METHODS = frozenset({*inbound.ROUTES, *FIXED, *PROGRAMS})


class FlintSession(RpcSession):
    protocol, reads, urgent = "flint", method_order.READS, method_order.URGENT

    def __init__(
        self, models: Models, defaults: Settings, *, home: str = "", codex: bool = False, policy_chosen: bool = True
    ) -> None:
        """`defaults` is what a new thread runs with; `home` is where threads are kept.

        `codex`: the client is known to be one of Codex's protocol, whatever its name is.
        `policy_chosen`: somebody has set the approval policy. If nobody has, a client of Codex's protocol that names
        none gets the one that Codex would give it: such clients often have no way to answer a question.
        """
        super().__init__(RULES, METHODS)
        self._about = About(version=__version__, provider=provider_of(defaults.model), home=home)
        self._models = models
        self._defaults = defaults
        self._policy_chosen = policy_chosen
        self._dialect = FlintDialect(self._about, self._window)
        self._muted: frozenset[str] = frozenset()
        self._chosen: list[tuple[str, str]] = []
        self._applied: dict[ThreadId, int] = {}
        self._last: ThreadState | None = None
        self._loaded: dict[ThreadId, None] = {}
        self._just_followed: dict[ThreadId, ThreadState] = {}
        """Where the changes begin of a thread that was followed for the next command about it."""
        self._asked: dict[ApprovalId, _Asked] = {}
        self._ephemeral: list[ThreadId] = []
        self._tells_history = True
        self._warned: set[str] = set()
        self._tool_calls = ToolCalls()
        if codex:
            self._speak_codex()

    # -- in

    def request(self, request: JsonRpcRequest) -> Sequence[Action]:
        if is_codex_request(request.method, request.params):
            self._speak_codex()
        request = replace(request, params=self._dialect.own_ids(request.params))
        command, pending = self._decode(request.method, request.params), Pending(request)
        match command:
            case inbound.Unsubscribe(thread_id=thread_id):
                self._followed.discard(thread_id)
                self.answer(request, self.local(command, request))
                return [Unfollow(thread_id=thread_id)]
            case inbound.Local():
                self.answer(request, self.local(command, request))
                return []
            case commands.StartTurn() | commands.SubmitPrompt() | commands.StartReview() | commands.CompactThread():
                thread_id = command.thread_id
                if thread_id in self._followed:
                    return [Execute(command=command, context=pending)]
                pending = Pending(request, thread_id)
                return [Follow(thread_id=thread_id), Execute(command=command, context=pending)]
            case _:
                return [Execute(command=command, context=pending)]

    def _decode(self, method: str, params: Params) -> commands.Command | inbound.Local:
        if method in PROGRAMS:
            return decode_program(method, params, self._session())
        params = typed_tools(params)
        command = FIXED[method](params) if method in FIXED else self._dialect.decode(method, params)
        command = with_client_settings(command, params, self._option_ids(), self._defaults)
        match command:
            case commands.CreateThread():
                overrides = self._with_choices(command.overrides, None, params)
                if overrides.approval_policy is None:
                    overrides = replace(overrides, approval_policy=self._defaults.approval_policy)
                return replace(command, overrides=overrides)
            case commands.StartTurn(thread_id=thread_id):
                return replace(command, overrides=self._with_choices(command.overrides, thread_id, params))
            case commands.ResumeThread(overrides=given) | commands.ForkThread(overrides=given) if given.options:
                known = self._dialect.known_options(self._models.selectors(), lambda: self._model(given), given.options)
                return replace(command, overrides=replace(given, options=known or None))
            case commands.ListServers(thread_id=None) if self._last is not None:
                return commands.ListServers(thread_id=self._last.id)
            case _:
                return command

    def local(self, call: inbound.Local, request: JsonRpcRequest) -> Json:
        models = self._models
        match call:
            case inbound.Initialize(params=params):
                return self._initialize(params, request.params.get("capabilities"))
            case inbound.Fixed(result=result):
                return result
            case inbound.EmptyPage():
                return self._dialect.page([], None)
            case inbound.ListModels(limit=limit, hidden=hidden):
                default = models.find(self._defaults.model or models.default)
                cards = [card for card in models.cards() if hidden or not card.successor or card.id == default.id]
                if all(card.id != default.id for card in cards):  # a name that no list has
                    cards = [default, *cards]
                wanted = [(card.id, card) for card in cards if call.provider in (None, provider_of(card.id))]
                shown, after = page_of(wanted, call.cursor, limit)
                return self._dialect.models(shown, models.selectors(), default.id, after)
            case inbound.ListConfig():
                return m.ConfigOptions(options=self._options(self._session()))
            case inbound.SetConfig(id=name, value=value):
                self.choose(name, value)
                return m.ConfigOptions(options=self._options(self._session()))
            case inbound.ReadConfig():
                return self._dialect.config(self._session(), self._options(self._session()))
            case inbound.ListLoaded(cursor=cursor, limit=limit):
                names = [(name, name) for name in map(self._dialect.thread_id, self._loaded)]
                data, after = page_of(names, cursor, limit)
                return m.ThreadLoadedListResult(data=data, next_cursor=after)
            case inbound.Unsubscribe(thread_id=thread_id):
                heard = thread_id in self._loaded
                self._loaded.pop(thread_id, None)
                return m.ThreadUnsubscribeResult(status="unsubscribed" if heard else "notSubscribed")
            case _:
                raise InvalidCommand(f"the method {request.method!r} is not supported")

    def decide(self, response: JsonRpcResponse) -> Sequence[Action]:
        """Only the exact words agree. An error, another word, another type, two answers in one: a decline."""
        if self._tool_calls.answered(response.request_id):
            return [client_tools.read_reply(response)]
        approval_id = ApprovalId(response.request_id)
        where = self._asked.get(approval_id)
        if where is not None and isinstance(where.intent, Elicit):
            return [Execute(command=elicitation.decode_answer(response, where.intent))]
        result = response.result
        word = result.get("decision") if isinstance(result, dict) and response.error is None else None
        decision, scope = read_decision(word, where.offer if where is not None else None)
        answer = Execute(command=commands.ResolveApproval(approval_id=approval_id, decision=decision, scope=scope))
        if word == "cancel" and where is not None:
            return [answer, Execute(command=commands.InterruptTurn(thread_id=where.thread_id, turn_id=where.turn_id))]
        return [answer]

    def ask(self, request_id: str, request: ClientRequest, _deadline: float) -> bool:
        if not isinstance(request, ClientToolCall):
            return False
        params = client_tools.call_params(request, self._dialect.thread_id(request.thread_id))
        asked = Ask(method=client_tools.METHOD, params=params, approval_id=ApprovalId(request_id))
        self.say(self._tool_calls.ask(asked, request.item_id))
        return True

    def withdraw(self, request_id: str) -> None:
        self._tool_calls.answered(request_id)
        self._rpc.withdraw(request_id)

    def tool_rank(self, thread_id: ThreadId) -> int:
        return self._tool_calls.ranks.get(thread_id, 0)

    # -- out

    def done(self, action: Execute, outcome: Outcome) -> Sequence[Action]:
        if not isinstance(pending := action.context, Pending):
            return []  # the answer to a question of ours: nobody waits
        command = action.command
        opened = (
            outcome
            if isinstance(command, commands.CreateThread | commands.ResumeThread | commands.ForkThread)
            else None
        )
        if isinstance(opened, ThreadState) and opened.id not in self._followed:
            resumes = isinstance(command, commands.ResumeThread) and not pending.request.params.get("excludeTurns")
            replay = resumes and self._tells_history and not self._dialect.is_codex
            return [Follow(thread_id=opened.id, replay=replay, context=pending._replace(command=command))]
        self.answer(pending.request, self._result(pending.request, command, outcome))
        if isinstance(opened, ThreadState):
            self._greet(opened, opens=True)
            self._tell_ignored(pending.request, command, opened)
        elif (followed := self._just_followed.pop(getattr(command, "thread_id", ThreadId("")), None)) is not None:
            self._greet(followed)
        return []

    def followed(self, action: Follow, state: ThreadState, history: Sequence[Change], now: float) -> Sequence[Action]:  # noqa: ARG002
        self._followed.add(state.id)
        if isinstance(pending := action.context, Pending) and pending.command is not None:
            self.say(self._without_muted(outbound.history(history, self._dialect)))
            self.answer(pending.request, self._result(pending.request, pending.command, state))
            self._greet(state, opens=True)
            self._tell_ignored(pending.request, pending.command, state)
        else:
            self._just_followed[state.id] = state
        return []

    def failed(self, action: Action, error: HarnessError) -> Sequence[Action]:
        if isinstance(action, Execute):
            if self._dialect.steers and (instead := steering_instead(action, error)):
                return instead
            self._just_followed.pop(getattr(action.command, "thread_id", ThreadId("")), None)
        return super().failed(action, error)

    def closed(self) -> Sequence[Action]:
        return [Execute(command=commands.DeleteThread(thread_id=one, interrupt=True)) for one in self._ephemeral]

    def _result(self, request: JsonRpcRequest, command: commands.Command, outcome: Outcome) -> Json:
        match outcome:
            case commands.ThreadPage(threads=threads, next_cursor=next_cursor):
                return self._dialect.page([self._dialect.listed_thread(thread) for thread in threads], next_cursor)
            case Turn():
                return self._turn_answer(command, outcome)
            case QueuedPrompt():
                return m.ThreadQueueAddResult(queued=FlintDialect(self._about, self._window).queued_prompt(outcome))
            case ThreadState():
                return self._thread_answer(request, command, outcome)
            case commands.ProgramEnded():
                return program_result(request.method, outcome)
            case None:
                return m.Empty()
            case ServerList():
                return servers_page(outcome, inbound.read(request.params, m.McpServerStatusListParams))
            case _:
                return report(outcome)

    def _greet(self, state: ThreadState, *, opens: bool = False) -> None:
        """What a client that has just come to a thread must hear: that it is foreign, and open questions."""
        self._tool_calls.note_items(state)
        notice = outbound.notice(state, self._dialect) if opens or state.id not in self._loaded else []
        self._loaded[state.id] = None
        for approval in state.approvals:
            self._asked[approval.id] = _Asked(state.id, approval.turn_id, approval.intent, approval.offer)
        asked = [*notice, *outbound.questions(state, self._dialect)]
        self.say(self._without_muted([*outbound.thread_started(state, self._dialect), *asked] if opens else asked))

    def _tell_ignored(self, request: JsonRpcRequest, command: commands.Command, state: ThreadState) -> None:
        """What of the request's `config` has no effect."""
        ignored = config_notices(command, request.params, self._option_ids())
        self._tool_calls.opened(state.id, command, self._dialect)
        told = [message for notice in ignored for message in self._dialect.notices(state.id, notice)]
        self.say(self._without_muted([*told]))

    def _option_ids(self) -> frozenset[str]:
        return frozenset(selector.id for selector in self._models.selectors())

    def project(self, change: Change) -> Sequence[Outgoing]:
        match change.record.event:
            case SettingsChanged() if self._last is not None and self._last.id == change.after.id:
                self._last = change.after
            case ApprovalRequested(approval=approval):
                self._asked[approval.id] = _Asked(change.after.id, approval.turn_id, approval.intent, approval.offer)
            case ApprovalResolved(approval_id=approval_id):
                self._asked.pop(approval_id, None)
            case _:
                pass
        said = self._without_muted(outbound.project(change, self._dialect))
        return [*said, *self._tool_calls.started(change.record.event)]

    def _without_muted(self, said: list[Outgoing]) -> list[Outgoing]:
        if not self._muted:
            return said
        return [what for what in said if not (isinstance(what, Notify) and what.method in self._muted)]

    def error_code(self, error: HarnessError) -> int:
        return self._dialect.error_code(error)

    # -- the session

    def _initialize(self, params: m.InitializeParams, capabilities: Json) -> Json:
        self.client_name = params.client_info.name
        if greeting.is_codex(self.client_name, capabilities):
            self._speak_codex()
        if params.capabilities is not None:
            # Who asks for extensions has the history in the answer; who does not, may know no such member.
            self._tells_history = not params.capabilities.experimental_api
            self._muted = frozenset(params.capabilities.opt_out_notification_methods or ())
        return greeting.result(
            version=self._about.version,
            provider=self._about.provider,
            home=self._about.home,
            options=True,
            reasoning=any(card.reasoning for card in self._models.cards()),
        )

    def choose(self, name: str, value: str) -> None:
        """Sets an option for the threads of this connection. Raises `InvalidCommand`."""
        check_option(self._models.selectors(), name, value)
        self._chosen.append((name, value))

    def _speak_codex(self) -> None:
        from hames.protocols.flint.codex.dialect import CodexDialect  # other clients need none of it

        if not isinstance(self._dialect, CodexDialect):
            self._dialect = CodexDialect(self._about, self._window)
            if not self._policy_chosen:
                self._defaults = replace(self._defaults, approval_policy="onRequest")

    def _session(self) -> Settings:
        """What the next turn of the thread opened last would run with; before there is one, what a new one would."""
        settings = self._defaults if self._last is None else self._last.settings
        applied = 0 if self._last is None else self._applied.get(self._last.id, 0)
        return with_options(settings, dict(self._chosen[applied:]))

    def _with_choices(self, given: Overrides, thread_id: ThreadId | None, params: Params) -> Overrides:
        """What `config/set` chose since this thread's last turn goes along; what the request says comes first."""
        applied = 0 if thread_id is None else self._applied.get(thread_id, 0)
        chosen = dict(self._chosen[applied:])
        agent = chosen.pop(inbound.AGENT_OPTION, None)
        given = with_provider(given, params, self._models, self._session().model)
        asked = {**chosen, **(given.options or {})}
        wanted = self._dialect.known_options(self._models.selectors(), lambda: self._model(given), asked)
        self._warn_about(asked.items() - wanted.items(), thread_id)
        return replace(
            given,
            approval_policy=None if self._repeats_policy(params, thread_id) else given.approval_policy,
            options=wanted or None,
            agent=given.agent or (inbound.agent(agent) if agent else None),
        )

    def _warn_about(self, ignored: Iterable[tuple[str, str]], thread_id: ThreadId | None) -> None:
        """Says once what the model does not offer: clients repeat themselves with every turn, and our own word for the
        effort of a model without efforts."""
        for name, value in sorted(ignored):
            words = f"the model does not offer {value!r} as {name}; its default is used"
            if value not in ("none", "default", "medium") and words not in self._warned:
                self._warned.add(words)
                named = None if thread_id is None else self._dialect.thread_id(thread_id)
                self.say([Notify(method="warning", params={"threadId": named, "message": words})])

    def _repeats_policy(self, params: Params, thread_id: ThreadId | None) -> bool:
        """Codex has one word for two of our policies: a client that repeats what it was told changes nothing."""
        if self._last is None or self._last.id != thread_id or params.get("approvalPolicy") != "untrusted":
            return False
        return self._last.settings.approval_policy == "always"

    def _model(self, given: Overrides) -> str:
        if given.model is not None:
            return self._models.find(given.model).id
        return (self._defaults if self._last is None else self._last.settings).model

    def _options(self, settings: Settings) -> list[m.ConfigOption]:
        return config_options(self._models.selectors(), {**settings.options, inbound.AGENT_OPTION: settings.agent})

    def _window(self, model: str) -> int | None:
        try:
            return self._models.find(model).context_window
        except HarnessError:
            return None

    # -- answers

    def _turn_answer(self, command: commands.Command, turn: Turn) -> Json:
        """As it begins: its items are told one by one, and each only once."""
        shown = self._dialect.begun_turn(turn)
        if isinstance(command, commands.StartTurn):  # and not before: a turn that was refused has taken no choice along
            self._applied[command.thread_id] = len(self._chosen)
        match command:
            case commands.StartReview(thread_id=thread_id):
                return {"turn": shown, "reviewThreadId": self._dialect.thread_id(thread_id)}
            case commands.SubmitPrompt():
                return {"queued": None, "turn": shown}
            case _:
                return {"turn": shown}

    def _thread_answer(self, request: JsonRpcRequest, command: commands.Command, state: ThreadState) -> Json:
        match command:
            case commands.CreateThread() | commands.ResumeThread() | commands.ForkThread():
                self._last = state
                if state.ephemeral and not isinstance(command, commands.ResumeThread):
                    self._ephemeral.append(state.id)
                if isinstance(command, commands.CreateThread):
                    self._applied[state.id] = len(self._chosen)
                opened = self._dialect.opened_thread(state, turns=not request.params.get("excludeTurns"))
                if isinstance(page := request.params.get("initialTurnsPage"), dict) and isinstance(opened, dict):
                    wanted = inbound.read({**page, "threadId": state.id}, m.ThreadTurnsListParams)
                    opened["initialTurnsPage"] = turns_page(state, self._dialect, wanted)
                return opened
            case commands.ReadThread():
                return self._read_answer(request, state)
            case commands.SteerTurn() if request.method == "turn/start":
                return {"turn": self._dialect.begun_turn(state.running or state.turns[-1])}
            case commands.SteerTurn():
                return {"turnId": state.running.id if state.running else ""}
            case commands.ArchiveThread(archived=False):
                return {"thread": self._dialect.thread(state, turns=False)}
            case commands.ChangeSettings() if request.method == "config/set":
                return m.ConfigOptions(options=self._options(state.settings))
            case _:
                return m.Empty()

    def _read_answer(self, request: JsonRpcRequest, state: ThreadState) -> Json:
        match request.method:
            case "config/list":
                return m.ConfigOptions(options=self._options(state.settings))
            case "config/read":
                return self._dialect.config(state.settings, self._options(state.settings))
            case "thread/queue/list":
                told = FlintDialect(self._about, self._window).queue(state)
                return m.ThreadQueueListResult(data=told.queue, held=told.held)
            case "thread/items/list":
                return items_page(state, self._dialect, inbound.read(request.params, m.ThreadItemsListParams))
            case "thread/turns/list":
                return turns_page(state, self._dialect, inbound.read(request.params, m.ThreadTurnsListParams))
            case _:
                given = request.params.get("includeTurns")
                turns = bool(given) if given is not None else self._dialect.reads_turns
                return {"thread": self._dialect.thread(state, turns=turns), "readState": None}
