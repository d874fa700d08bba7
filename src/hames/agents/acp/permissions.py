"""What an ACP agent asks a person: permissions for its tool calls, and forms. Several may be open at once."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio
from msgspec.structs import replace

from hames.agents.acp.items import AcpItem, ToolState, command_of, intent
from hames.agents.process import AgentProcess
from hames.codecs.jsonrpc_peer import INVALID_PARAMS, ServerRequest
from hames.domain.approvals import Answer, Elicit
from hames.domain.ids import CallId
from hames.domain.items import CommandExecution, FileChange, ToolCall, ToolResult
from hames.domain.json import Json
from hames.domain.policy import Decision
from hames.ports import TurnHandle

CANCELLED_REQUEST = -32800
CANCELLED: Json = {"outcome": {"outcome": "cancelled"}}
KINDS: dict[Decision, tuple[str, ...]] = {
    "once": ("allow_once", "allow_always"),
    "always": ("allow_always", "allow_once"),
    "reject": ("reject_once", "reject_always"),
    "void": (),
}
"""Which kind of option stands for a decision, the best first."""
ALLOWED: frozenset[Decision] = frozenset({"once", "always"})


class Permissions:
    """`declined` are the calls that a person, or a rule, said no to."""

    def __init__(self, process: AgentProcess, turn: TurnHandle, name: str) -> None:
        self.declined: set[str] = set()
        self._process = process
        self._turn = turn
        self._name = name
        self._open: dict[str | int, anyio.CancelScope] = {}
        self._allowed_commands: set[str] = set()
        self._allowed_paths: set[str] = set()

    def is_allowed_command(self, command: str) -> bool:
        """Whether a person allowed exactly this command in this turn."""
        return command in self._allowed_commands

    def is_allowed_path(self, path: str) -> bool:
        return path in self._allowed_paths

    async def ask(self, request: ServerRequest, item: AcpItem, state: ToolState) -> None:
        with self._answering(request) as scope:
            answer = await self._decide(item, state)
            if answer.decision in ALLOWED:
                self._remember(item, state)
            else:
                self.declined.add(state.call_id)
            await self._process.answer(request.id, _outcome(request.params, answer.decision))
        if scope.cancelled_caught:
            await self._process.refuse(request.id, "the request was cancelled", code=CANCELLED_REQUEST)

    async def _decide(self, item: AcpItem, state: ToolState) -> Answer:
        settings = self._turn.settings
        if settings.agent != "code" and state.kind == "switch_mode":
            return Answer(decision="reject", note=f"{settings.agent} mode changes nothing")
        wanted, why = intent(item, state), f"{self._name} asks"
        if settings.approval_policy != "never":
            return await self._turn.ask(item.id, wanted, why)
        denied = await self._turn.find_denial(wanted)
        return Answer(decision="reject", note=denied) if denied else Answer(decision="once")

    def _remember(self, item: AcpItem, state: ToolState) -> None:
        match item:
            case CommandExecution():
                self._allowed_commands.add(command_of(state))
            case FileChange():
                self._allowed_paths |= {one.path for one in state.changes} | set(state.locations)
            case ToolCall():
                pass

    async def elicit(self, request: ServerRequest) -> None:
        """A form to fill in, or an address to visit."""
        match request.params:
            case {"mode": "form", "message": str(message), "requestedSchema": dict(schema)}:
                question = Elicit(server=self._name, message=message, schema=schema)
            case {"mode": "url", "message": str(message), "url": str(url)}:
                question = Elicit(server=self._name, message=message, url=url)
            case _:
                self._open.pop(request.id, None)
                await self._process.refuse(request.id, "a form or an address is needed", code=INVALID_PARAMS)
                return
        turn = self._turn
        item = ToolCall(
            id=turn.new_item_id(), step=turn.step, call_id=CallId(""), name="question", arguments={"message": message}
        )
        await turn.start(item)
        with self._answering(request) as scope:
            answer = await turn.ask(item.id, question)
            agreed = answer.decision in ALLOWED
            said: dict[str, Json] = {"action": "accept" if agreed else "decline"}
            if agreed and question.schema is not None:
                said["content"] = answer.content
            result = ToolResult(text=said["action"], failed=not agreed, reason=answer.note)
            await turn.complete(replace(item, status="completed" if agreed else "declined", result=result))
            await self._process.answer(request.id, said)
        if scope.cancelled_caught:
            await turn.complete(replace(item, status="interrupted"))
            await self._process.refuse(request.id, "the request was cancelled", code=CANCELLED_REQUEST)

    def withdraw(self, request_id: str | int) -> None:
        """The agent no longer needs the answer."""
        if (scope := self._open.get(request_id)) is not None:
            scope.cancel()

    async def cancel_all(self) -> None:
        """A client that cancels a turn answers the permissions that are still open."""
        for request_id in list(self._open):
            await self._process.answer(request_id, CANCELLED)
        self._open.clear()

    def begin(self, request: ServerRequest) -> None:
        """From now on the request can be withdrawn. Its answering is a task, which starts later."""
        self._open[request.id] = anyio.CancelScope()

    @contextmanager
    def _answering(self, request: ServerRequest) -> Generator[anyio.CancelScope]:
        scope = self._open[request.id]
        with scope:
            yield scope
            self._open.pop(request.id, None)
        if scope.cancelled_caught:
            self._open.pop(request.id, None)


def permission_call(request: ServerRequest) -> dict[str, Json]:
    """The tool call that a permission is about, in the shape of an update of it."""
    unnamed = f"permission-{request.id}"
    match request.params:
        case {"toolCall": {"toolCallId": str()} as call}:
            return call
        case {"subject": {"type": "tool_call", "toolCall": {"toolCallId": str()} as call}}:
            return call
        case {"subject": {"type": "command", "command": str(command)} as subject}:
            named = subject.get("toolCallId")
            call_id = named if isinstance(named, str) else unnamed
            return {"toolCallId": call_id, "kind": "execute", "title": command, "rawInput": {"command": command}}
        case {"title": str(title)}:
            return {"toolCallId": unnamed, "title": title}
        case _:
            return {"toolCallId": unnamed, "title": "a tool"}


def _outcome(params: Json, decision: Decision) -> Json:
    options: list[Json] = params.get("options") or [] if isinstance(params, dict) else []
    for kind in KINDS[decision]:
        for option in options:
            if isinstance(option, dict) and option.get("kind") == kind:
                return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
    return CANCELLED
