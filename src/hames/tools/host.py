"""Tools that a program or an installed package brings: ordinary Python code behind our own tool port.

A tool in a thread cannot be stopped from outside. It is told instead: `cancelled()` becomes true, and whatever it
returns after that is thrown away.
"""

import inspect
import os
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

from anyio import to_thread
from msgspec.structs import replace

from hames.domain.approvals import Harmless, Intent, UseTool
from hames.domain.errors import Misconfigured
from hames.domain.items import ToolCall, ToolResult
from hames.domain.json import Json
from hames.domain.policy import SandboxPolicy
from hames.ports import HostTool, Job, Place, Report, Tell, Tool, Tools, ToolSpec

MAX_PATH = 4096


class CancelToken:
    """Says whether the call that a tool works on was cancelled. Safe to use from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleeps, but no longer than until the call is cancelled. True if it was."""
        return self._event.wait(seconds)

    def cancel(self) -> None:
        self._event.set()


_running: ContextVar[CancelToken | None] = ContextVar("hames_tool_call", default=None)


def cancel_token() -> CancelToken:
    """The token of the tool call this code runs in; outside of one, a token that nobody cancels."""
    return _running.get() or CancelToken()


def cancelled() -> bool:
    """Whether the tool call this code runs in was cancelled: a long loop in a synchronous tool should stop then."""
    return cancel_token().cancelled


def as_tool(tool: HostTool, *, vouched: bool) -> Tool:
    """`vouched`: the program that runs us brought the tool itself, so only the policy `always` asks about it."""
    return _AdaptedTool(tool, vouched=vouched)


class AddedTools:
    """Implements `ports.Tools`: these tools, then those of `others` that have other names. Raises `Misconfigured`."""

    def __init__(self, tools: Sequence[Tool], others: Tools | None = None) -> None:
        self._tools = tools
        self._others = others
        if len({tool.spec.name for tool in tools}) < len(tools):
            raise Misconfigured("two tools have the same name")

    @asynccontextmanager
    async def open(self, place: Place, report: Report) -> AsyncGenerator[Sequence[Tool]]:
        if self._others is None:
            yield self._tools
            return
        async with self._others.open(place, report) as others:
            names = {tool.spec.name for tool in self._tools}
            yield [*self._tools, *(tool for tool in others if tool.spec.name not in names)]


class _AdaptedTool:
    def __init__(self, tool: HostTool, *, vouched: bool) -> None:
        self.read_only = bool(getattr(tool, "read_only", False))
        self.spec = ToolSpec(
            name=tool.name, description=tool.description, schema=dict(tool.input_schema), writes=not self.read_only
        )
        self.tool = tool
        self.vouched = vouched

    async def prepare(self, job: Job) -> "_HostCall":
        return _HostCall(self, job)


class _HostCall:
    def __init__(self, adapted: _AdaptedTool, job: Job) -> None:
        self.item = ToolCall(
            id=job.item_id, step=job.step, call_id=job.call.id, name=job.call.name, arguments=job.arguments
        )
        self.intent: Intent = (
            Harmless(reads=_named_files(job))
            if adapted.read_only
            else UseTool(name=job.call.name, arguments=job.arguments, vouched=adapted.vouched)
        )
        self._tool = adapted.tool
        self._arguments: dict[str, Json] = job.arguments

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolCall:  # noqa: ARG002 - this is the program's own code
        token = CancelToken()
        outer = _running.set(token)
        try:
            text, failed = await self._execute(), False
        except Exception as problem:
            text, failed = str(problem) or type(problem).__name__, True
        finally:
            token.cancel()
            _running.reset(outer)
        status = "failed" if failed else "completed"
        return replace(self.item, status=status, result=ToolResult(text=text, failed=failed))

    async def _execute(self) -> str:
        if inspect.iscoroutinefunction(self._tool.execute):
            answer = await self._tool.execute(self._arguments)
        else:
            answer = await to_thread.run_sync(self._tool.execute, self._arguments, abandon_on_cancel=True)
            if inspect.isawaitable(answer):
                answer = await answer
        return answer if isinstance(answer, str) else str(answer)


def _named_files(job: Job) -> tuple[str, ...]:
    """What the arguments of a tool that only reads may name: rules about reading are about these."""
    texts = [text for text in job.arguments.values() if isinstance(text, str) and "\0" not in text]
    return tuple(os.path.normpath(Path(job.place.cwd, text)) for text in texts if 0 < len(text) <= MAX_PATH)
