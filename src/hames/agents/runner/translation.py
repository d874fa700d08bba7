"""A runner's events as items of ours."""

from collections.abc import Callable
from typing import cast, get_args

from msgspec.structs import replace

from hames.agents.runner.events import Told
from hames.domain.errors import ErrorInfo, ProviderError
from hames.domain.events import Noticed, StepVoided, UsageReported
from hames.domain.ids import CallId, ItemId
from hames.domain.items import (
    AgentMessage,
    CommandExecution,
    Compaction,
    FileChange,
    ItemStatus,
    McpToolCall,
    Plan,
    Reasoning,
    Stream,
    ToolCall,
    ToolResult,
    WebSearch,
)
from hames.domain.json import Json
from hames.domain.usage import Usage
from hames.ports import TurnHandle

OUTCOMES: dict[str, ItemStatus] = {"declined": "declined", "interrupted": "interrupted", "skipped": "skipped"}
ERROR_INFOS = frozenset(get_args(ErrorInfo))

RunnerTool = CommandExecution | FileChange | ToolCall | Plan | McpToolCall | WebSearch | Compaction


class Translation:
    def __init__(self, turn: TurnHandle, ask: Callable[[Told, RunnerTool], object]) -> None:
        self._turn = turn
        self._ask = ask
        self._step = turn.step = turn.step + 1  # an answer may be asked for again in the same turn
        self._talk: AgentMessage | Reasoning | None = None
        self._tools: dict[str, RunnerTool] = {}
        self._streamed: dict[str, int] = {}
        """How much of each tool's text has been told."""
        self._counted = False
        """Whether the runner reports each model call by itself."""
        self.run_id = ""
        self.ended = False
        self.stop_reason = ""

    async def hear(self, name: str, told: Told) -> None:
        """Raises `ProviderError` when the runner says that it failed."""
        match name:
            case "run.started":
                self.run_id = told.run_id
            case "assistant.delta":
                await self._say(AgentMessage, told.text or told.delta, "text")
            case "reasoning.delta":
                await self._say(Reasoning, told.text or told.delta, "summary" if told.stream == "summary" else "text")
            case "message.completed":
                await self._close_talk()
            case "tool.started":
                await self._start_tool(told)
            case "tool.output":
                await self._stream(told.id, told.text)
            case "approval.requested":
                if (item := self._tools.get(told.item)) is not None:
                    self._ask(told, item)
            case "tool.completed":
                await self._end_tool(told, "completed", _words(told.result))
            case "tool.failed":
                why = _words(told.error) or _words(told.result) or "failed"
                await self._end_tool(told, OUTCOMES.get(told.outcome, "failed"), why)
            case "step.voided":
                await self._void()
            case "usage.reported":
                self._counted = True
                await self._count(told.usage)
            case "notice":
                await self._notice(told)
            case "run.completed":
                await self._close("completed")
                if told.usage != Usage() and not self._counted:
                    await self._count(told.usage)
                self.ended, self.stop_reason = True, told.stop_reason
            case "run.error":
                message = told.message or _words(told.error) or "no reason given"
                info = cast("ErrorInfo", told.info) if told.info in ERROR_INFOS else "Other"
                raise ProviderError(f"the runner failed: {message}", info=info, status=told.http_status)
            case _:
                pass  # what other runners may say

    async def _say(self, kind: type[AgentMessage] | type[Reasoning], text: str, stream: Stream) -> None:
        if not text:
            return
        if not isinstance(self._talk, kind):
            await self._close_talk()
            await self._close_tools("completed")
            self._talk = kind(id=self._turn.new_item_id(), step=self._step)
            await self._turn.start(self._talk)
        await self._turn.append(self._talk.id, text, stream)

    async def _start_tool(self, told: Told) -> None:
        await self._close_talk()
        if told.id in self._tools:
            return
        item = _tool(told, self._turn, self._step)
        name = told.id or item.id  # a runner that names none starts another one each time
        self._tools[name] = item
        self._streamed[name] = len(_streamed_text(item))
        await self._turn.start(item)

    async def _stream(self, name: str, text: str) -> None:
        item = self._tools.get(name)
        if item is not None and text and (stream := _stream_of(item)) is not None:
            self._streamed[name] += len(text)
            await self._turn.append(item.id, text, stream)

    async def _end_tool(self, told: Told, status: ItemStatus, text: str) -> None:
        item = self._tools.get(told.id)
        if item is None:
            return
        if told.detail is not None and type(told.detail) is type(item):
            item = _placed(told.detail, item.id, item.step, _call_id(item))
            # What was never streamed, or not to its end.
            await self._stream(told.id, _streamed_text(item)[self._streamed[told.id] :])
        if isinstance(item, Compaction):
            done: RunnerTool = replace(item, status=status)
        else:
            done = replace(item, status=status, result=ToolResult(text=text, failed=status != "completed"))
        if isinstance(done, CommandExecution):
            done = replace(done, exit_code=told.exit_code, duration_ms=told.duration_ms)
        if isinstance(done, FileChange) and told.changes:
            done = replace(done, changes=told.changes)
        del self._tools[told.id], self._streamed[told.id]
        await self._turn.complete(done)

    async def _count(self, usage: Usage) -> None:
        model = self._turn.settings.model
        await self._turn.emit(UsageReported(turn_id=self._turn.turn_id, model=model, usage=usage))

    async def _notice(self, told: Told) -> None:
        severity = "warning" if told.severity == "warning" else "info"
        await self._turn.emit(
            Noticed(
                source="runner",
                name=told.name or "notice",
                message=told.message,
                severity=severity,
                turn_id=self._turn.turn_id,
            )
        )

    async def _void(self) -> None:
        """The reply broke off at the runner, and is perhaps asked for again."""
        await self._close("interrupted")
        await self._turn.emit(StepVoided(turn_id=self._turn.turn_id, step=self._step))
        self._next_step()

    async def _close(self, status: ItemStatus) -> None:
        await self._close_talk()
        await self._close_tools(status)

    async def _close_talk(self) -> None:
        if self._talk is not None:
            talk, self._talk = self._talk, None
            await self._turn.complete(replace(talk, status="completed"))

    async def _close_tools(self, status: ItemStatus) -> None:
        """A runner of the specification never says that a tool has ended: going on says it."""
        for item in list(self._tools.values()):
            done = isinstance(item, Compaction)
            await self._turn.complete(replace(item, status=status, **({} if done else {"result": ToolResult(text="")})))
        if self._tools:
            self._next_step()
        self._tools.clear()
        self._streamed.clear()

    def _next_step(self) -> None:
        self._step += 1
        self._turn.step = self._step


def _tool(told: Told, turn: TurnHandle, step: int) -> RunnerTool:
    item_id = turn.new_item_id()
    call_id = CallId(told.id or item_id)
    if told.detail is not None:
        return _placed(told.detail, item_id, step, call_id)
    given: dict[str, Json] = told.input if isinstance(told.input, dict) else {}
    command = told.command or (given.get("command") if told.kind == "command" else None)
    if isinstance(command, str) and command:
        cwd = told.cwd or turn.settings.cwd
        return CommandExecution(id=ItemId(item_id), step=step, call_id=call_id, command=command, cwd=cwd)
    if told.changes:
        return FileChange(id=item_id, step=step, call_id=call_id, changes=told.changes)
    return ToolCall(id=item_id, step=step, call_id=call_id, name=told.name or "tool", arguments=told.input)


def _placed(
    detail: Plan | McpToolCall | WebSearch | Compaction, item_id: ItemId, step: int, call_id: CallId
) -> RunnerTool:
    """The runner's item as one of this turn. What a model service wrote for itself is not kept: it is not ours."""
    match detail:
        case Compaction():
            return replace(detail, id=item_id, step=step, status="running")
        case WebSearch():
            blank = {"opaque": None, "provider": ""}
            return replace(detail, id=item_id, step=step, call_id=call_id, status="running", result=None, **blank)
        case Plan() | McpToolCall():
            return replace(detail, id=item_id, step=step, call_id=call_id, status="running", result=None)


def _call_id(item: RunnerTool) -> CallId:
    return CallId("") if isinstance(item, Compaction) else item.call_id


def _stream_of(item: RunnerTool) -> Stream | None:
    match item:
        case Plan():
            return "text"
        case Compaction():
            return "summary"
        case WebSearch():
            return None
        case CommandExecution() | FileChange() | ToolCall() | McpToolCall():
            return "output"


def _streamed_text(item: RunnerTool) -> str:
    stream = _stream_of(item)
    return getattr(item, stream) if stream is not None else ""


def _words(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        return value["message"]
    return "" if value is None else str(value)
