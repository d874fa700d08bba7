"""A sandbox runner as an agent: turns run on another process or machine, and are told here as our own items.

A run is one request. It is cancelled by closing it, and it ends well only when the runner says so: silence, a broken
connection and an answer that is no stream are errors in words.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING
from urllib.parse import quote

import anyio
from msgspec.structs import replace

from hames.agents.runner_events import EventParser, Told, TooLong
from hames.domain.approvals import Answer, Elicit
from hames.domain.errors import ErrorInfo, HarnessError, Misconfigured, ProviderError, UnknownModel
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
)
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.domain.usage import Usage
from hames.ports import AgentTurn, Provider

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

NAME = "runner"
MODEL = "default"
CONNECT_SECONDS = 10.0
STALL_SECONDS = 120.0
OUTCOMES: dict[str, ItemStatus] = {"declined": "declined", "interrupted": "interrupted", "skipped": "skipped"}

RunnerTool = CommandExecution | FileChange | ToolCall


class RunnerAgent:
    """Implements `ports.Agent`."""

    name = NAME

    def __init__(self, url: str, *, token: str = "", stall_s: float = STALL_SECONDS) -> None:
        """`stall_s`: after so much silence, heartbeats included, the run is given up."""
        self._url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._stall_s = stall_s
        self._client: httpx2.AsyncClient | None = None

    async def run(self, turn: AgentTurn) -> str:
        failure: HarnessError | None = None
        stop_reason = ""
        async with anyio.create_task_group() as tasks:

            async def answer(told: Told, item: RunnerTool) -> None:
                nonlocal failure
                try:
                    await self._answer(turn, told, item)
                except HarnessError as why:
                    failure = why
                    tasks.cancel_scope.cancel()

            # A person takes his time, and the runner is listened to meanwhile: it may end.
            translation = _Translation(turn, lambda told, item: tasks.start_soon(answer, told, item))
            try:
                stop_reason = await self._follow(turn, translation)
            except HarnessError as why:
                failure = why
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return stop_reason

    async def _answer(self, turn: AgentTurn, told: Told, item: RunnerTool) -> None:
        import httpx2

        if told.intent is None:
            answer = Answer(decision="reject", note="this question cannot be passed on")
        elif isinstance(told.intent, Elicit):
            answer = await turn.elicit(item.id, told.intent)
        else:
            decision, note = await turn.ask(item.id, told.intent, told.reason)
            answer = Answer(decision=decision, note=note)
        try:
            await self._http().post(
                f"{self._url}/approvals/{quote(told.id, safe='')}",
                json={"decision": answer.decision, "note": answer.note, "content": answer.content},
            )
        except httpx2.HTTPError as why:
            # Its stream says the rest.
            log.warning("runner.unanswered", extra={"error": str(why) or type(why).__name__})

    async def _follow(self, turn: AgentTurn, translation: "_Translation") -> str:
        """The run, to its end."""
        import httpx2

        said = "\n".join(part.text for part in turn.prompt.content if isinstance(part, TextInput))
        request = {"prompt": said, "thread": turn.thread_id, "approvalPolicy": turn.settings.approval_policy}
        parser = EventParser()
        try:
            async with self._http().stream("POST", f"{self._url}/runs", json=request) as response:
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
                f"the runner said nothing for {self._stall_s:g} s; the run was given up",
                info="ResponseStreamDisconnected",
            ) from None
        except httpx2.ConnectError as why:
            raise ProviderError(
                f"the runner at {self._url} cannot be reached: {why}", info="HttpConnectionFailed"
            ) from None
        except (httpx2.HTTPError, TooLong) as why:
            raise ProviderError(
                f"the connection to the runner broke: {why or type(why).__name__}", info="ResponseStreamDisconnected"
            ) from None
        raise ProviderError("the runner ended before the run did", info="ResponseStreamDisconnected")

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _http(self) -> "httpx2.AsyncClient":
        if self._client is None:
            import httpx2

            timeout = httpx2.Timeout(CONNECT_SECONDS, read=self._stall_s)
            self._client = httpx2.AsyncClient(timeout=timeout, headers=self._headers, trust_env=False)
        return self._client


async def _refused(response: "httpx2.Response") -> ProviderError:
    body = (await response.aread())[:500].decode("utf-8", "replace")
    info: ErrorInfo = "Unauthorized" if response.status_code in (401, 403) else "HttpConnectionFailed"
    return ProviderError(
        f"the runner refused the run ({response.status_code}): {body}", status=response.status_code, info=info
    )


class _Translation:
    """A runner's events as our items."""

    def __init__(self, turn: AgentTurn, ask: Callable[[Told, RunnerTool], object]) -> None:
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
                    await self._turn.tell(item.id, told.text, "output")
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
                    await self._turn.report(told.usage)
                self.ended, self.stop_reason = True, told.stop_reason
            case "run.error":
                message = told.message or _words(told.error) or "it gave no reason"
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
        await self._turn.tell(self._talk.id, text, "text")

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


def _tool(told: Told, turn: AgentTurn, step: int) -> RunnerTool:
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


class RunnerShelf:
    """The runner's place in the catalogue: one model, that nobody here can ask anything."""

    name = NAME
    usable = True

    def cards(self) -> Sequence[ModelCard]:
        return [self.named(MODEL)]

    def selectors(self) -> Sequence[Selector]:
        return []

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002
        return None

    def named(self, model: str) -> ModelCard:
        if model != MODEL:
            raise UnknownModel(f"the runner has no model {model!r}; it is {NAME}/{MODEL}")
        return ModelCard(
            provider=NAME,
            model=MODEL,
            display_name="Sandbox runner",
            description="An agent in a sandbox of its own",
            images=False,
        )

    def provider(self, card: ModelCard) -> Provider:
        raise Misconfigured(f"{card.id} runs whole turns; it cannot be asked for a reply alone")
