"""The library: `Harness(config, tools, handler)`, one conversation with tools.

Nothing is asked and nothing is walled in here: the tools are the host's own code.
Conversations live in memory; a host that wants them kept uses the engine with a store on disk.
"""

import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import anyio
import msgspec
from anyio import from_thread, to_thread
from anyio.lowlevel import current_token
from msgspec.structs import replace

from hames.clock_and_ids import RandomIds, SystemClock
from hames.core import context
from hames.core.loop import run_loop
from hames.core.questions import Questions
from hames.core.thread import Thread
from hames.core.turn import LoopTurn, RunningTurn
from hames.domain.approvals import Harmless
from hames.domain.errors import HarnessError, Misconfigured, StepLimitReached, TurnBusy
from hames.domain.events import ItemCompleted, ItemStarted, ThreadCreated, ToolCalled, TurnStarted
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import AgentMessage, Item, Reasoning, TextInput, ToolCall, ToolResult, UserMessage
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Settings
from hames.domain.policy import DangerFullAccess, SandboxPolicy
from hames.domain.request import Message
from hames.domain.state import Change, blank
from hames.domain.value import Value
from hames.ports import Job, Place, Provider, Tell, ToolSpec, Verdict
from hames.providers.anthropic.provider import AnthropicProvider
from hames.store.memory import MemoryStore

log = logging.getLogger(__name__)


class Config(Value):
    """What a harness needs to know. Only the key has no default."""

    api_key: str
    model: str = "claude-3-haiku-20240307"
    max_tokens: int = 4096
    system_prompt: str = ""
    max_turns: int = 10
    base_url: str = "https://api.anthropic.com"

    def __repr__(self) -> str:
        """Without the key: configurations end up in logs and tracebacks."""
        told = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "api_key")
        return f"Config(api_key=…, {', '.join(told)})"


class PromptCancelled(HarnessError):
    """`cancel()` was called while the prompt ran."""


class Tool(Protocol):
    """Something the agent can do. An exception from `execute` is an error the agent reads."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def input_schema(self) -> Mapping[str, Json]: ...

    def execute(self, input: dict[str, Json]) -> str | Awaitable[str]: ...  # noqa: A002 - the specification's word


@runtime_checkable
class EventHandler(Protocol):
    """Hears what happens, on the harness's own loop, as each block completes. It must not block.

    A handler may also have `on_user(text)` and `on_reasoning(text)`.
    """

    def on_text(self, text: str) -> None: ...

    def on_tool_call(self, id: str, name: str, input: Json) -> None: ...  # noqa: A002

    def on_tool_result(self, id: str, result: str, is_error: bool) -> None: ...  # noqa: A002


class Harness:
    """One conversation. Make it once, then `await prompt(text)` each time the user says something."""

    def __init__(
        self,
        config: Config,
        tools: Sequence[Tool] = (),
        handler: EventHandler | None = None,
        *,
        provider: Provider | None = None,
    ) -> None:
        """`provider` replaces Anthropic's API, for tests and other models. Raises `Misconfigured`."""
        if provider is None and not config.api_key:
            raise Misconfigured("an Anthropic API key is required: Config(api_key=…)")
        if config.max_turns < 1 or config.max_tokens < 1:
            raise Misconfigured("max_turns and max_tokens must be at least 1")
        self._config = config
        self._handler = handler
        self._provider: Provider = provider or AnthropicProvider(
            clock=SystemClock(), api_key=config.api_key, base_url=config.base_url
        )
        self._tools = {tool.name: _HostTool(tool) for tool in tools}
        if len(self._tools) < len(tools):
            raise Misconfigured("two tools have the same name")
        self._clock, self._ids = SystemClock(), RandomIds()
        self._thread: Thread | None = None
        self._scope: anyio.CancelScope | None = None
        self._token: object = None
        self._busy = False
        self._cancelled = False
        self._handler_failure: Exception | None = None
        self._portal: _Portal | None = None

    async def prompt(self, content: str) -> None:
        """Runs the agent until it answers without a tool call, or `max_turns` is reached.

        Raises:
            TurnBusy: another prompt is running.
            ProviderError: the model service failed.
            PromptCancelled: `cancel()` was called.
        """
        if self._busy:
            raise TurnBusy("another prompt is running on this harness")
        self._busy, self._cancelled = True, False
        try:
            failure = await self._run(content)
        finally:
            self._busy, self._scope = False, None
        if (problem := self._handler_failure) is not None:
            self._handler_failure = None
            raise problem
        if self._cancelled:
            raise PromptCancelled("the prompt was cancelled")
        if failure is not None and not isinstance(failure, StepLimitReached):
            raise failure

    def cancel(self) -> None:
        """Cancels the running prompt; does nothing when none runs. May be called from any thread."""
        scope, token = self._scope, self._token
        if scope is None:
            return
        self._cancelled = True
        try:
            if current_token() == token:
                scope.cancel()
                return
        except anyio.NoEventLoopError:
            pass
        from_thread.run_sync(scope.cancel, token=token)  # pyright: ignore[reportArgumentType] - anyio's own token

    def prompt_sync(self, content: str) -> None:
        """`prompt` for code without an event loop. The loop behind it is kept between prompts."""
        if self._portal is None:
            self._portal = _Portal()
        self._portal.call(partial(self.prompt, content))

    def close(self) -> None:
        """Ends the loop behind `prompt_sync`."""
        if self._portal is not None:
            self._portal.close()
            self._portal = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, as the model is shown it."""
        return context.messages(self._thread.state) if self._thread else ()

    async def _run(self, content: str) -> HarnessError | None:
        scope = anyio.CancelScope()
        self._scope, self._token = scope, current_token()  # before the first await: a cancel counts from here on
        thread = self._thread or await self._begin()
        turn_id = TurnId(self._ids.new("turn"))
        said = UserMessage(id=ItemId(self._ids.new("item")), step=0, content=(TextInput(text=content),))
        with anyio.CancelScope(shield=True):  # a turn that has started also ends
            await thread.emit(
                TurnStarted(turn_id=turn_id),
                ItemStarted(turn_id=turn_id, item=said),
                ItemCompleted(turn_id=turn_id, item=said),
            )
        questions = Questions(patience_s=0.0)
        turn = RunningTurn(thread, turn_id, questions=questions, ids=self._ids, scope=scope)
        return await turn.run(lambda: run_loop(self._loop_turn(turn)))

    async def _begin(self) -> Thread:
        thread_id = ThreadId(self._ids.new("ses"))
        thread = Thread(await MemoryStore().create(thread_id), blank(thread_id), self._clock)
        settings = Settings(
            model=f"{self._provider.name}/{self._config.model}",
            cwd="",
            approval_policy="never",
            sandbox=DangerFullAccess(),
        )
        await thread.emit(ThreadCreated(settings=settings))
        thread.listeners.append(self._hear)
        self._thread = thread
        return thread

    def _loop_turn(self, turn: RunningTurn) -> LoopTurn:
        sandbox = turn.settings.sandbox
        return LoopTurn(
            handle=turn,
            settings=turn.settings,
            card=ModelCard(provider=self._provider.name, model=self._config.model, display_name=self._config.model),
            provider=self._provider,
            tools=self._tools,
            place=Place(thread_id=turn.thread_id, turn_id=turn.turn_id, workspace="", cwd="", sandbox=sandbox),
            system=self._config.system_prompt,
            trust=_NoTrust(),
            clock=self._clock,
            max_steps=self._config.max_turns,
            max_tokens=self._config.max_tokens,
            compacts=False,
        )

    def _hear(self, change: Change) -> None:
        if self._handler is None or self._handler_failure is not None:
            return
        try:
            _deliver(self._handler, change)
        except Exception as problem:
            self._handler_failure = problem
            if self._scope is not None:
                self._scope.cancel()


def _deliver(handler: EventHandler, change: Change) -> None:
    match change.record.event:
        case ToolCalled(call=call):
            handler.on_tool_call(call.id, call.name, _decoded(call.arguments))
        case ItemCompleted(item=item):
            _deliver_item(handler, item)
        case _:
            pass


def _deliver_item(handler: EventHandler, item: Item) -> None:
    match item:
        case AgentMessage(text=text, status="completed"):
            handler.on_text(text)
        case ToolCall(status="skipped"):
            pass  # the specification has no result for a call that was not executed
        case ToolCall(call_id=call_id, result=ToolResult(text=text, failed=failed)):
            handler.on_tool_result(call_id, text, failed)
        case UserMessage(content=content) if on_user := getattr(handler, "on_user", None):
            on_user("".join(part.text for part in content if isinstance(part, TextInput)))
        case Reasoning(status="completed", text=text, summary=summary) if thought := text or summary:
            if on_reasoning := getattr(handler, "on_reasoning", None):
                on_reasoning(thought)
        case _:
            pass


def _decoded(arguments: str) -> Json:
    try:
        return msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return arguments


class _HostTool:
    """A host's tool behind our own port."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.spec = ToolSpec(name=tool.name, description=tool.description, schema=dict(tool.input_schema))

    async def prepare(self, job: Job) -> "_HostWork":
        return _HostWork(self.tool, job)


class _HostWork:
    def __init__(self, tool: Tool, job: Job) -> None:
        self.item = ToolCall(
            id=job.item_id, step=job.step, call_id=job.call.id, name=job.call.name, arguments=job.arguments
        )
        self.intent = Harmless()
        self._tool = tool
        self._arguments: dict[str, Json] = job.arguments

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolCall:  # noqa: ARG002 - the host's own code
        try:
            text, failed = await self._execute(), False
        except Exception as problem:
            text, failed = str(problem) or type(problem).__name__, True
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


class _NoTrust:
    def judge(self, command: str, *, cwd: str, workspace: str) -> Verdict:  # noqa: ARG002 - nothing is run here
        return Verdict(trusted=False)


class _Portal:
    """An event loop in a thread of its own, which does not keep the program from ending."""

    def __init__(self) -> None:
        ready = threading.Event()
        self._portal: from_thread.BlockingPortal
        threading.Thread(target=anyio.run, args=(self._serve, ready), daemon=True, name="hames").start()
        ready.wait()

    async def _serve(self, ready: threading.Event) -> None:
        async with from_thread.BlockingPortal() as self._portal:
            ready.set()
            await self._portal.sleep_until_stopped()

    def call(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        future = self._portal.start_task_soon(work)
        try:
            future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self) -> None:
        self._portal.call(self._portal.stop)
