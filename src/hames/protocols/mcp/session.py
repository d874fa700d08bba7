"""MCP: one client of `hames mcp serve` or of `/mcp`. A tool call starts a turn and is answered when the turn ends.

Two eras of MCP are spoken, and each request says which it is of: up to 2025-11-25 a connection begins with
`initialize` and questions to the user are requests of ours; from 2026-07-28 on each request is complete in itself, and
a question is a result (`input_required`) after which the client sends its call again with the answer.
"""

from collections.abc import Sequence

from hames.codecs.jsonrpc_peer import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    JsonRpcPeer,
    JsonRpcRefusal,
    JsonRpcRequest,
    JsonRpcResponse,
    Notification,
)
from hames.codecs.jsontext import clipped, encode
from hames.codecs.lines import Line
from hames.domain import commands
from hames.domain.approvals import Approval
from hames.domain.errors import HarnessError, InvalidCommand, NotFound, TurnNotFound
from hames.domain.events import ApprovalRequested, ApprovalResolved, ItemCompleted, TurnEnded, TurnStarted
from hames.domain.ids import ApprovalId, ThreadId, TurnId
from hames.domain.items import TextInput
from hames.domain.json import Json
from hames.domain.options import Settings
from hames.domain.state import Change, ThreadState, Turn
from hames.protocols.mcp import calls, greeting, outbound, tools
from hames.protocols.mcp.inbound import read_decision, read_retry
from hames.protocols.mcp.lines import ServerLines
from hames.protocols.session import Action, Crashed, Defer, Execute, Follow, Outcome, Session, Unfollow


class McpServerSession(Session):
    protocol = "mcp"

    def __init__(self, defaults: Settings) -> None:
        """`defaults` is what a new thread runs with."""
        self._defaults = defaults
        self._rpc = JsonRpcPeer(greeting.RULES, greeting.METHODS)
        self._abilities: calls.Abilities | None = None
        """What the client said with `initialize`."""
        self._calls = calls.OpenCalls()
        self._asked: dict[str, Approval] = {}
        """Questions that the client was asked, by request id."""
        self._followed: dict[ThreadId, ThreadState] = {}
        self._subscribed: set[ThreadId] = set()
        self._later: list[Action] = []
        self._lines = ServerLines(self._rpc)

    # -- from the client

    def receive(self, message: Line, _now: float) -> Sequence[Action]:
        actions: list[Action] = []
        for one in self._rpc.receive(message):
            match one:
                case JsonRpcRefusal(line=line):
                    self._lines.add(line)
                case JsonRpcResponse():
                    actions += self._answered(one)
                case JsonRpcRequest():
                    # Nothing here depends on the order of requests, and a call may take hours.
                    actions.append(Defer(context=one, urgency="read"))
                case Notification(method="notifications/cancelled", params={"requestId": str() | int() as request_id}):
                    actions.append(Defer(context=encode(request_id), urgency="urgent"))
                case Notification():
                    pass
        return actions

    def resume(self, action: Defer, now: float) -> Sequence[Action]:
        if isinstance(action.context, bytes):
            call = self._calls.get(action.context)
            return self._cancel(call) if call is not None else []
        request = action.context
        assert isinstance(request, JsonRpcRequest)
        try:
            return self._request(request, now)
        except HarnessError as error:
            self._lines.refuse(request, INVALID_PARAMS, str(error))
        except Exception as error:
            self._lines.refuse(request, INTERNAL_ERROR, "internal error")
            return [Crashed(error=error, method=request.method)]
        return []

    def _request(self, request: JsonRpcRequest, now: float) -> Sequence[Action]:
        method, params = request.method, request.params
        if method == "initialize":
            return self._initialize(request)
        if calls.is_modern(params):
            if (version := calls.meta_of(params)[calls.VERSION_KEY]) != greeting.MODERN:
                data = {"supported": [*greeting.VERSIONS, greeting.MODERN], "requested": version}
                self._lines.refuse(
                    request, greeting.UNSUPPORTED_VERSION, f"this version is not spoken here: {version!r}", data
                )
                return []
            self.client_name = calls.read_client_name(calls.meta_of(params).get(calls.CLIENT_KEY)) or self.client_name
        elif self._abilities is None and method not in ("ping", "server/discover"):
            self._lines.refuse(request, INVALID_REQUEST, "send 'initialize' first")
            return []
        match method:
            case "server/discover":
                self._lines.answer(request, greeting.discover_result())
            case "ping":
                self._lines.answer(request, {})
            case "tools/list":
                self._lines.answer(request, {"tools": tools.TOOLS, **greeting.CACHING})
            case "tools/call":
                return self._call(request, now)
            case "resources/list":
                cursor = params.get("cursor")
                command = commands.ListThreads(cursor=cursor if isinstance(cursor, str) else None, limit=50)
                return [Execute(command=command, context=request)]
            case "resources/templates/list":
                template = {"uriTemplate": outbound.uri_of("{threadId}"), "name": "thread", "mimeType": "text/markdown"}
                self._lines.answer(request, {"resourceTemplates": [template], **greeting.CACHING})
            case "resources/read":
                return [
                    Execute(
                        command=commands.ReadThread(thread_id=outbound.thread_of(params.get("uri"))), context=request
                    )
                ]
            case "resources/subscribe":
                return [Follow(thread_id=outbound.thread_of(params.get("uri")), can_answer=False, context=request)]
            case _:
                thread_id = outbound.thread_of(params.get("uri"))
                self._subscribed.discard(thread_id)
                self._lines.answer(request, {})
                self._unfollow(thread_id)
        return []

    def _initialize(self, request: JsonRpcRequest) -> Sequence[Action]:
        self._abilities = calls.read_abilities(request.params.get("capabilities"))
        self.client_name = calls.read_client_name(request.params.get("clientInfo"))
        self._lines.answer(request, greeting.initialize_result(request.params.get("protocolVersion")))
        return []

    # -- tool calls

    def _call(self, request: JsonRpcRequest, now: float) -> Sequence[Action]:
        tool, meta = request.params.get("name"), calls.meta_of(request.params)
        if not isinstance(tool, str) or tool not in tools.NAMES:
            named = f"no tool {clipped(tool)!r}" if isinstance(tool, str) else "params.name: must be the name of a tool"
            raise InvalidCommand(f"{named}; there are: {', '.join(sorted(tools.NAMES))}")
        if self._calls.get(request.id) is not None:
            raise InvalidCommand("a call with this id is not answered yet")
        abilities = (
            calls.read_abilities(meta.get(calls.CAPABILITIES_KEY))
            if calls.is_modern(request.params)
            else self._abilities
        )
        try:
            arguments = tools.read_arguments(tool, request.params.get("arguments"))
            call = calls.OpenCall(request, tool, arguments, abilities or calls.Abilities())
            self._calls.add(call)
            seconds = getattr(arguments, "wait_seconds", None)
            if seconds is None and tool == tools.STATUS:
                seconds = 0.0
            call.deadline = None if seconds is None else now + seconds
            if (retried := read_retry(request.params)) is not None:
                return self._go_on(call, *retried)
            return self._begin(call)
        except HarnessError as error:  # what is wrong with arguments is for the model to read
            if (failed := self._calls.get(request.id)) is not None:
                self._calls.remove(failed)
            self._lines.answer(request, outbound.failure(str(error)))
            return []

    def _begin(self, call: calls.OpenCall) -> Sequence[Action]:
        match call.arguments:
            case tools.StartArguments() as given:
                overrides = tools.overrides_of(given, self._defaults)
                return [Execute(command=commands.CreateThread(title=given.title, overrides=overrides), context=call)]
            case tools.ReplyArguments() as given:
                return [self._follow(call, ThreadId(given.thread_id or given.conversation_id))]
            case tools.AnswerArguments(thread_id=thread_id):
                return [self._follow(call, ThreadId(thread_id))]
            case tools.ThreadArguments(thread_id=thread_id) if call.tool == tools.INTERRUPT:
                return [Execute(command=commands.InterruptTurn(thread_id=ThreadId(thread_id)), context=call)]
            case tools.ThreadArguments(thread_id=thread_id):
                if not call.arguments.wait_seconds:
                    return [Execute(command=commands.ReadThread(thread_id=ThreadId(thread_id)), context=call)]
                return [self._follow(call, ThreadId(thread_id))]
            case tools.ListArguments(search=search, limit=limit, cursor=cursor):
                return [Execute(command=commands.ListThreads(search=search, limit=limit, cursor=cursor), context=call)]

    def _follow(self, call: calls.OpenCall, thread_id: ThreadId) -> Follow:
        call.thread_id = thread_id
        return Follow(thread_id=thread_id, context=call)

    def _go_on(
        self, call: calls.OpenCall, thread_id: ThreadId, turn_id: TurnId, answers: dict[str, Json]
    ) -> list[Action]:
        """The client sends its call again, with the answers to what it was asked."""
        call.turn_id = turn_id
        resolved: list[Action] = []
        for approval_id, answer in answers.items():
            approval = self._asked.pop(approval_id, None)
            resolved.append(Execute(command=read_decision(ApprovalId(approval_id), approval, answer)))
        return [*resolved, self._follow(call, thread_id)]

    def _cancel(self, call: calls.OpenCall) -> Sequence[Action]:
        """Interrupts what the call started. It is not answered any more."""
        call.is_cancelled = True
        if call.turn_id is None or call.thread_id is None:
            return []  # as soon as its turn has started
        self._calls.remove(call)
        return self._interrupt_for(call)

    def _interrupt_for(self, call: calls.OpenCall) -> list[Action]:
        if call.tool == tools.STATUS or call.thread_id is None:
            return []
        return [Execute(command=commands.InterruptTurn(thread_id=call.thread_id, turn_id=call.turn_id))]

    # -- outcomes

    def done(self, action: Execute, outcome: Outcome) -> Sequence[Action]:
        match action.context, outcome:
            case JsonRpcRequest(method="resources/list") as request, commands.ThreadPage():
                self._lines.answer(request, {**outbound.resource_page(outcome), **greeting.CACHING})
            case JsonRpcRequest(method="resources/read") as request, ThreadState(id=thread_id):
                text = outbound.thread_markdown(outcome)
                found = {"uri": outbound.uri_of(thread_id), "mimeType": "text/markdown", "text": text}
                self._lines.answer(request, {"contents": [found], **greeting.CACHING})
            case calls.OpenCall() as call, _:
                return self._call_done(call, outcome)
            case _:
                pass
        return []

    def _call_done(self, call: calls.OpenCall, outcome: Outcome) -> Sequence[Action]:
        match call.tool, outcome:
            case tools.START, ThreadState(id=thread_id, settings=settings):
                if why := tools.looser(self._defaults, settings):
                    self._finish(call, outbound.failure(why))
                    return [Execute(command=commands.DeleteThread(thread_id=thread_id))]
                if call.is_cancelled:
                    self._calls.remove(call)
                    return [Execute(command=commands.DeleteThread(thread_id=thread_id))]
                return [self._follow(call, thread_id)]
            case _, Turn(id=turn_id):
                call.turn_id = turn_id
                if call.is_cancelled:
                    self._calls.remove(call)
                    return self._interrupt_for(call)
            case tools.INTERRUPT, _:
                assert isinstance(call.arguments, tools.ThreadArguments)
                self._finish(call, outbound.interrupted_result(call.arguments.thread_id))
            case tools.STATUS, ThreadState():
                last = outcome.turns[-1] if outcome.turns else None
                self._finish(call, outbound.thread_result(outcome, last, can_answer=self.can_answer))
            case tools.LIST, commands.ThreadPage():
                self._finish(call, outbound.list_result(outcome))
            case tools.ANSWER, _:
                pass  # answered when the turn ends, or asks again
            case _:
                self._finish(call, outbound.failure("internal error"))
        return []

    def followed(self, action: Follow, state: ThreadState, _history: Sequence[Change], _now: float) -> Sequence[Action]:
        self._followed[state.id] = state
        match action.context:
            case JsonRpcRequest() as request:
                self._subscribed.add(state.id)
                self._lines.answer(request, {})
            case calls.OpenCall() as call:
                return self._call_followed(call, state)
            case _:
                pass
        return []

    def _call_followed(self, call: calls.OpenCall, state: ThreadState) -> Sequence[Action]:
        match call.arguments:
            case tools.StartArguments() | tools.ReplyArguments() as given if call.turn_id is None:
                # A model names the thread: it must not find one that may do more than this server's own.
                if why := tools.looser(self._defaults, state.settings):
                    self._finish(call, outbound.failure(why))
                    self._unfollow(state.id)
                    return self._take_later()
                content = (TextInput(text=given.prompt),)
                schema = tools.output_schema_of(given)
                command = commands.StartTurn(thread_id=state.id, content=content, output_schema=schema)
                return [Execute(command=command, context=call)]
            case tools.AnswerArguments() as given if call.turn_id is None:
                asked = next((one for one in state.approvals if one.id == given.approval_id), None)
                call.turn_id = asked.turn_id if asked is not None else None
                return [Execute(command=tools.answer_command(given), context=call)]
            case _:
                turn = state.turn(call.turn_id) if call.turn_id is not None else state.running
                if turn is None or turn.status != "running":
                    last = turn or (state.turns[-1] if state.turns else None)
                    self._finish(call, outbound.thread_result(state, last))
                else:
                    call.turn_id = turn.id
                    for approval in state.approvals:
                        self._ask(call, state, approval)
        return []

    def failed(self, action: Action, error: HarnessError) -> Sequence[Action]:
        if not isinstance(action, Execute | Follow):
            return []
        match action.context:
            case JsonRpcRequest() as request:
                code = greeting.RESOURCE_NOT_FOUND if isinstance(error, NotFound) else INTERNAL_ERROR
                self._lines.refuse(request, INVALID_PARAMS if isinstance(error, InvalidCommand) else code, str(error))
            case calls.OpenCall() as call:
                why = "no turn runs on this thread" if isinstance(error, TurnNotFound) else str(error)
                self._finish(call, outbound.failure(why))
            case _:
                pass
        return self._take_later()

    # -- to the client

    def tell(self, changes: Sequence[Change], _now: float) -> None:
        told = [change for change in changes if change.record.thread_id in self._followed]
        for thread_id in dict.fromkeys(change.record.thread_id for change in told):
            some = [change for change in told if change.record.thread_id == thread_id]
            self._followed[thread_id] = some[-1].after
            for call in self._calls.on(thread_id):
                for line in outbound.progress_lines(some) if call.wants_progress else ():
                    self._lines.notify("notifications/progress", call.progress(line), call.request.id)
            for change in some:
                self._tell(change)

    def _tell(self, change: Change) -> None:
        thread_id, event = change.record.thread_id, change.record.event
        match event:
            case ApprovalRequested(approval=approval):
                for call in self._calls.waiting(thread_id, approval.turn_id):
                    self._ask(call, change.after, approval)
            case ApprovalResolved(approval_id=approval_id):
                if self._rpc.is_asking(approval_id):
                    self._rpc.withdraw(approval_id)
                    params = {"requestId": approval_id, "reason": "it was answered elsewhere"}
                    self._lines.notify("notifications/cancelled", params)
                self._asked.pop(approval_id, None)
            case TurnEnded(turn_id=turn_id):
                turn = change.after.turn(turn_id)
                for call in self._calls.waiting(thread_id, turn_id):
                    self._finish(call, outbound.thread_result(change.after, turn))
                self._unfollow(thread_id)
            case _:
                pass
        if thread_id in self._subscribed and isinstance(event, TurnStarted | ItemCompleted | TurnEnded):
            self._lines.notify("notifications/resources/updated", {"uri": outbound.uri_of(thread_id)})

    def _ask(self, call: calls.OpenCall, state: ThreadState, approval: Approval) -> None:
        if not self.can_answer:
            return  # somebody else has to
        if not call.abilities.can_show(approval):
            self._finish(call, outbound.thread_result(state, state.turn(approval.turn_id)))
        elif call.is_modern:
            self._asked[approval.id] = approval
            asked = {approval.id: {"method": "elicitation/create", "params": outbound.elicitation(approval)}}
            result = {"resultType": "input_required", "inputRequests": asked}
            self._finish(call, {**result, "requestState": f"{state.id} {approval.turn_id}"})
        elif not self._rpc.is_asking(approval.id):
            self._asked[approval.id] = approval
            self._lines.ask("elicitation/create", outbound.elicitation(approval), approval.id, call.request.id)

    def _answered(self, response: JsonRpcResponse) -> Sequence[Action]:
        approval = self._asked.pop(response.request_id, None)
        answer: Json = response.result if response.error is None else {"action": "error"}
        return [Execute(command=read_decision(ApprovalId(response.request_id), approval, answer))]

    def lost(self, thread_id: ThreadId, why: str) -> None:
        self._followed.pop(thread_id, None)
        self._subscribed.discard(thread_id)
        for call in self._calls.on(thread_id):
            self._finish(call, outbound.failure(why))

    def next_deadline(self) -> float | None:
        return 0.0 if self._later else self._calls.next_deadline()

    def expire(self, now: float) -> Sequence[Action]:
        for call in self._calls:
            if call.deadline is None or call.deadline > now or call.thread_id is None or call.turn_id is None:
                continue
            if (state := self._followed.get(call.thread_id)) is not None:
                self._finish(call, outbound.thread_result(state, state.turn(call.turn_id), can_answer=self.can_answer))
        for call in self._calls:  # its turn has not started: it is looked at again then
            if call.deadline is not None and call.deadline <= now:
                call.deadline = now + 1.0
        return self._take_later()

    def _take_later(self) -> list[Action]:
        actions, self._later = self._later, []
        return actions

    def _unfollow(self, thread_id: ThreadId) -> None:
        """Unless somebody waits for the thread."""
        if self._calls.on(thread_id) or thread_id in self._subscribed or thread_id not in self._followed:
            return
        del self._followed[thread_id]
        self._later.append(Unfollow(thread_id=thread_id))

    # -- output

    def take_output(self) -> bytes:
        return self._lines.take()

    def keep_routes(self) -> None:
        """From now on `take_routes` is called after `take_output`."""
        self._lines.routed = True

    def take_routes(self) -> list[bytes]:
        """For each line of the output that was taken, the id of the client's request that it is about, or nothing."""
        return self._lines.take_routes()

    def _finish(self, call: calls.OpenCall, result: dict[str, Json]) -> None:
        if self._calls.remove(call) and not call.is_cancelled:
            self._lines.answer(call.request, result)
