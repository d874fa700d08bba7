"""A sandbox runner as an agent: turns run on another process or machine, and are told here as our own items.

A run is one request. It is cancelled by closing it, and it ends well only when the runner says so: silence, a broken
connection and an answer that is no stream are errors in words.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import replace

from hames.agents.asking import Answering, read_beside_questions
from hames.agents.runner.events import EventParser, Told
from hames.codecs.sse import EventTooLong
from hames.domain.approvals import Answer
from hames.domain.errors import ErrorInfo, InvalidCommand, ProviderError
from hames.domain.events import UsageReported
from hames.domain.ids import CallId, ItemId
from hames.domain.items import (
    AgentMessage,
    CommandExecution,
    FileChange,
    Item,
    ItemStatus,
    Reasoning,
    TextInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from hames.domain.json import Json
from hames.domain.servers import ServerStatus
from hames.domain.state import ThreadState
from hames.domain.usage import Usage
from hames.ports import Ability, Prompt, Task, TurnHandle

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
STALL_SECONDS = 120.0
OUTCOMES: dict[str, ItemStatus] = {"declined": "declined", "interrupted": "interrupted", "skipped": "skipped"}

RunnerTool = CommandExecution | FileChange | ToolCall


class RunnerAgent:
    """Implements `ports.Agent`."""

    name = "runner"

    def __init__(self, url: str, *, token: str = "", stall_s: float = STALL_SECONDS) -> None:
        """`stall_s`: after so much silence, heartbeats included, the run is given up."""
        self.url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self.stall_s = stall_s
        self._client: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def open(self, state: ThreadState) -> AsyncGenerator["RunnerThread"]:  # noqa: ARG002 - a run is one request
        yield RunnerThread(self)

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def http(self) -> "httpx2.AsyncClient":
        if self._client is None:
            import httpx2

            timeout = httpx2.Timeout(CONNECT_SECONDS, read=self.stall_s)
            self._client = httpx2.AsyncClient(timeout=timeout, headers=self._headers, trust_env=False)
        return self._client


class RunnerThread:
    """Implements `ports.AgentThread`. A run is one request: there is nothing to review, summarise or steer."""

    abilities: frozenset[Ability] = frozenset()

    def __init__(self, agent: RunnerAgent) -> None:
        self._agent = agent

    async def run(self, task: Task, turn: TurnHandle) -> str:
        if not isinstance(task, Prompt):
            raise ProviderError("the runner supports only prompts")
        return await read_beside_questions(partial(self._follow, turn, task.message))

    async def steer(self, message: UserMessage) -> None:  # noqa: ARG002
        raise InvalidCommand("the runner cannot be steered")

    def servers(self) -> Mapping[str, ServerStatus]:
        return {}

    async def _answer(self, turn: TurnHandle, told: Told, item: RunnerTool) -> None:
        import httpx2

        if told.intent is None:
            answer = Answer(decision="reject", note="this kind of question cannot be shown to you")
        else:
            answer = await turn.ask(item.id, told.intent, told.reason)
        try:
            await self._agent.http().post(
                f"{self._agent.url}/approvals/{quote(told.id, safe='')}",
                json={"decision": answer.decision, "note": answer.note, "content": answer.content},
            )
        except httpx2.HTTPError as why:
            # Its stream says the rest.
            log.warning("runner.answer_not_sent", extra={"error": str(why) or type(why).__name__})

    async def _follow(self, turn: TurnHandle, prompt: UserMessage, beside: Callable[[Answering], None]) -> str:
        """The run, to its end. People take their time, and the runner is read meanwhile: it may end."""
        import httpx2

        said = "\n".join(part.text for part in prompt.content if isinstance(part, TextInput))
        request = {"prompt": said, "thread": turn.thread_id, "approvalPolicy": turn.settings.approval_policy}
        parser = EventParser()
        translation = _Translation(turn, lambda told, item: beside(partial(self._answer, turn, told, item)))
        try:
            async with self._agent.http().stream("POST", f"{self._agent.url}/runs", json=request) as response:
                if response.status_code != 200:
                    raise await _refused(response)
                async with aclosing(response.aiter_raw()) as chunks:
                    async for chunk in chunks:
                        for name, told in parser.feed(chunk):
                            await translation.hear(name, told)
                            if translation.ended:
                                return translation.stop_reason
        except httpx2.ReadTimeout:
            raise ProviderError(
                f"the runner sent nothing for {self._agent.stall_s:g} s, so the run was stopped",
                info="ResponseStreamDisconnected",
            ) from None
        except httpx2.ConnectError as why:
            raise ProviderError(
                f"the runner at {self._agent.url} cannot be reached: {why}", info="HttpConnectionFailed"
            ) from None
        except (httpx2.HTTPError, EventTooLong) as why:
            raise ProviderError(
                f"the connection to the runner was lost: {why or type(why).__name__}", info="ResponseStreamDisconnected"
            ) from None
        raise ProviderError("the runner closed the connection before the run ended", info="ResponseStreamDisconnected")


async def _refused(response: "httpx2.Response") -> ProviderError:
    body = (await response.aread())[:500].decode("utf-8", "replace")
    info: ErrorInfo = "Unauthorized" if response.status_code in (401, 403) else "HttpConnectionFailed"
    return ProviderError(
        f"the runner refused the run ({response.status_code}): {body}", status=response.status_code, info=info
    )


class _Translation:
    """A runner's events as our items."""

    def __init__(self, turn: TurnHandle, ask: Callable[[Told, RunnerTool], object]) -> None:
        self._turn = turn
        self._ask = ask
        self._step = 1
        self._talk: AgentMessage | Reasoning | None = None
        self._tools: dict[str, RunnerTool] = {}
        self.ended = False
        self.stop_reason = ""

    async def hear(self, name: str, told: Told) -> None:
        """Raises `ProviderError` when the runner says that it failed."""
        match name:
            case "assistant.delta":
                await self._say(AgentMessage, told.text or told.delta)
            case "reasoning.delta":
                await self._say(Reasoning, told.text or told.delta)
            case "tool.started":
                await self._start_tool(told)
            case "tool.output":
                if (item := self._tools.get(told.id)) is not None:
                    await self._turn.append(item.id, told.text, "output")
            case "approval.requested":
                if (item := self._tools.get(told.item)) is not None:
                    self._ask(told, item)
            case "tool.completed":
                await self._end_tool(told, "completed", _words(told.result))
            case "tool.failed":
                why = _words(told.error) or _words(told.result) or "failed"
                await self._end_tool(told, OUTCOMES.get(told.outcome, "failed"), why)
            case "run.completed":
                await self._close("completed")
                if told.usage != Usage():
                    model = self._turn.settings.model
                    await self._turn.emit(UsageReported(turn_id=self._turn.turn_id, model=model, usage=told.usage))
                self.ended, self.stop_reason = True, told.stop_reason
            case "run.error":
                message = told.message or _words(told.error) or "no reason given"
                raise ProviderError(f"the runner failed: {message}")
            case _:
                pass  # `run.started`: the turn has started already; and what other runners may say

    async def _say(self, kind: type[AgentMessage] | type[Reasoning], text: str) -> None:
        if not text:
            return
        if not isinstance(self._talk, kind):
            await self._close_talk()
            await self._close_tools("completed")
            self._talk = kind(id=self._turn.new_item_id(), step=self._step)
            await self._turn.start(self._talk)
        await self._turn.append(self._talk.id, text, "text")

    async def _start_tool(self, told: Told) -> None:
        await self._close_talk()
        if told.id in self._tools:
            return
        item = _tool(told, self._turn, self._step)
        self._tools[told.id or item.id] = item  # a runner that names none starts another one each time
        await self._turn.start(item)

    async def _end_tool(self, told: Told, status: ItemStatus, text: str) -> None:
        item = self._tools.pop(told.id, None)
        if item is None:
            return
        done = replace(item, status=status, result=ToolResult(text=text, failed=status != "completed"))
        if isinstance(done, CommandExecution):
            done = replace(done, exit_code=told.exit_code, duration_ms=told.duration_ms)
        if isinstance(done, FileChange) and told.changes:
            done = replace(done, changes=told.changes)
        await self._turn.complete(done)

    async def _close(self, status: ItemStatus) -> None:
        await self._close_talk()
        await self._close_tools(status)

    async def _close_talk(self) -> None:
        if self._talk is not None:
            talk, self._talk = self._talk, None
            await self._turn.complete(replace(talk, status="completed"))

    async def _close_tools(self, status: ItemStatus) -> None:
        """A runner of the specification never says that a tool has ended: going on says it."""
        if self._tools:
            self._step += 1
        for item in list(self._tools.values()):
            closed: Item = replace(item, status=status, result=ToolResult(text=""))
            await self._turn.complete(closed)
        self._tools.clear()


def _tool(told: Told, turn: TurnHandle, step: int) -> RunnerTool:
    item_id = turn.new_item_id()
    call_id = CallId(told.id or item_id)
    given: dict[str, Json] = told.input if isinstance(told.input, dict) else {}
    command = told.command or (given.get("command") if told.kind == "command" else None)
    if isinstance(command, str) and command:
        cwd = told.cwd or turn.settings.cwd
        return CommandExecution(id=ItemId(item_id), step=step, call_id=call_id, command=command, cwd=cwd)
    if told.changes:
        return FileChange(id=item_id, step=step, call_id=call_id, changes=told.changes)
    return ToolCall(id=item_id, step=step, call_id=call_id, name=told.name or "tool", arguments=told.input)


def _words(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        return value["message"]
    return "" if value is None else str(value)
