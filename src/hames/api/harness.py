"""The library: `Harness(config, tools, handler)`, one conversation with tools.

By itself nothing is asked, nothing is sandboxed and nothing is written to disk: the tools are the host's own code.
Whoever wants more asks for it: approvals, our own tools in a sandbox, a thread on disk, another provider's models.
"""

import inspect
import logging
import os
import tempfile
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import anyio
import msgspec
from anyio import from_thread
from anyio.lowlevel import current_token

from hames import app
from hames.api.engine import execute_from_library
from hames.config.load import Options, Setting, sandbox_policy
from hames.config.paths import user_state
from hames.config.providers import variable
from hames.core.context import messages
from hames.core.engine import Engine
from hames.core.engine_rules import EngineRules
from hames.core.watcher import Watcher
from hames.domain.approvals import Approval
from hames.domain.commands import CreateThread, InterruptTurn, ResolveApproval, ResumeThread, StartTurn
from hames.domain.errors import ApprovalNotFound, HarnessError, Misconfigured, StepLimitReached, TurnBusy, TurnNotFound
from hames.domain.events import ApprovalRequested, ItemCompleted, ToolCalled
from hames.domain.ids import ThreadId
from hames.domain.items import Item, Reasoning, TextInput, ToolCall, ToolResult, UserMessage
from hames.domain.json import Json
from hames.domain.options import Settings
from hames.domain.policy import ApprovalPolicy, Decision, SandboxPolicy
from hames.domain.request import Message
from hames.domain.state import Change, ThreadState
from hames.domain.value import Value
from hames.ports import HostTool, Models, Provider, Store

if TYPE_CHECKING:
    from hames.server.app import Server

log = logging.getLogger(__name__)

ANTHROPIC_URL = "https://api.anthropic.com"
ANSWER_SECONDS = 1.0
"""An approval is rejected after that where neither the handler nor a client of `serve` can answer it."""


class Config(Value):
    """What a harness needs to know. Only the key has no default."""

    api_key: str
    model: str = "claude-3-haiku-20240307"
    """A model of Anthropic's; or `provider/model`, and then the key is that provider's."""
    max_tokens: int = 4096
    system_prompt: str = ""
    max_turns: int = 10
    base_url: str = ANTHROPIC_URL

    def __repr__(self) -> str:
        """Without the key: configurations end up in logs and tracebacks."""
        told = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "api_key")
        return f"Config(api_key=…, {', '.join(told)})"


class PromptCancelled(HarnessError):
    """`cancel()` was called while the prompt ran."""


@runtime_checkable
class EventHandler(Protocol):
    """Hears what happens, on the harness's own loop, as each block completes. It must not block.

    A handler may also have `on_user(text)`, `on_reasoning(text)` and `on_approval(approval)`. The last one decides what
    is asked under an approval policy: it returns `once`, `always` or `reject`, and may be a coroutine function.
    """

    def on_text(self, text: str) -> None: ...

    def on_tool_call(self, id: str, name: str, input: Json) -> None: ...  # noqa: A002

    def on_tool_result(self, id: str, result: str, is_error: bool) -> None: ...  # noqa: A002


class Harness:
    """One conversation. Make it once, then `await prompt(text)` each time the user says something.

    Each prompt opens the engine and closes it again. `async with harness:` keeps it open in between, for a host that
    prompts often.
    """

    def __init__(
        self,
        config: Config,
        tools: Sequence[HostTool] = (),
        handler: EventHandler | None = None,
        *,
        provider: Provider | None = None,
        approval_policy: ApprovalPolicy = "never",
        sandbox: SandboxPolicy | str = "dangerFullAccess",
        builtin_tools: bool = False,
        cwd: str | Path | None = None,
        data_dir: str | Path | None = None,
        thread_id: str | None = None,
    ) -> None:
        """Raises `Misconfigured`.

        `provider` replaces Anthropic's API, for tests and services of your own. `builtin_tools` offers our own tools
        too (shell, files, search), whose commands run in the `sandbox` on `cwd`. With a `data_dir` the conversation is
        kept there, and `thread_id` goes on with one that was.
        """
        other_service = "/" in config.model
        if provider is None and not other_service and not config.api_key:
            raise Misconfigured("an Anthropic API key is required: Config(api_key=…)")
        if config.max_turns < 1 or config.max_tokens < 1:
            raise Misconfigured("max_turns and max_tokens must be at least 1")
        if thread_id is not None and data_dir is None:
            raise Misconfigured("thread_id needs the data_dir that the thread is kept in")
        self._config = config
        self._handler = handler
        self._tools = app.host_tools(tools)
        if len({tool.spec.name for tool in self._tools}) < len(self._tools):
            raise Misconfigured("two tools have the same name")
        self._builtin_tools = builtin_tools
        self._approval_policy: ApprovalPolicy = approval_policy
        named = Setting(value=sandbox, origin="Harness")
        self._sandbox = sandbox_policy(named) if isinstance(sandbox, str) else sandbox
        self._options = _options(config, cwd, data_dir)
        self._models: Models | None = None
        if provider is not None or not other_service:
            provider = provider or app.anthropic(config.api_key, config.base_url)
            self._models = app.one_model(provider, config.model)
        self._store: Store | None = app.memory_store() if data_dir is None else None
        self.thread_id: str | None = thread_id
        """The conversation's thread, once it has begun."""
        self._state: ThreadState | None = None
        self._clock = app.SystemClock()
        self._held: tuple[AbstractAsyncContextManager[Engine], Engine] | None = None
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
        failure: HarnessError | None = None
        try:
            with anyio.CancelScope() as scope:
                self._scope, self._token = (
                    scope,
                    current_token(),
                )  # before the first await: a cancel counts from here on
                async with self._engine() as engine:
                    failure = await self._run(engine, content)
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

    async def __aenter__(self) -> Self:
        opened = self._opened()
        self._held = (opened, await opened.__aenter__())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._held is not None
        (opened, _engine), self._held = self._held, None
        await opened.__aexit__(None, None, None)

    @asynccontextmanager
    async def serve(
        self, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None
    ) -> "AsyncGenerator[Server]":
        """Serves this harness over HTTP, SSE, sync, bootstrap and flint on one port while the block lasts.

        `server.url` says where; `await server.wait()` waits until it is stopped. Port 0: any free one. Another host
        than this machine's own needs a `token`. `POST /prompt` continues this conversation. Raises `Misconfigured`.
        """
        from hames.server.listener import Address

        with tempfile.TemporaryDirectory(prefix="hames-") as directory:
            options = self._options
            if self._store is not None:
                options = msgspec.structs.replace(options, data_dir=Path(directory), state_dir=Path(directory))
            async with self:
                assert self._held is not None
                engine = self._held[1]
                await self._begin(engine)
                async with app.serve_engine(engine, options, Address(host=host, port=port), token=token) as server:
                    yield server

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, as the model is shown it."""
        return messages(self._state) if self._state else ()

    @asynccontextmanager
    async def _engine(self) -> AsyncGenerator[Engine]:
        """The engine that is held, or one for this prompt."""
        if self._held is not None:
            yield self._held[1]
            return
        async with self._opened() as engine:
            yield engine

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Engine]:
        models, config = self._models or app.catalogue(self._options), self._config
        # The host's tools need no instructions of ours; our own do.
        system_prompt = config.system_prompt if config.system_prompt or not self._builtin_tools else None
        model, cwd = models.find(config.model).id, str(self._options.cwd)
        settings = Settings(model=model, cwd=cwd, approval_policy=self._approval_policy, sandbox=self._sandbox)
        rules = EngineRules(
            defaults=settings,
            max_steps=config.max_turns,
            max_tokens=config.max_tokens,
            patience_s=ANSWER_SECONDS,
            system_prompt=system_prompt,
            compacts=False,  # messages are appended and never modified
            supervises=False,
            continues=False,  # a program decides for itself; its next prompt ends a turn that was cut off
            text_block_ended=self._hear_text,
        )
        async with app.open_engine(
            self._options,
            models=models,
            store=self._store,
            added_tools=self._tools,
            builtin_tools=self._builtin_tools,
            rules=rules,
            clock=self._clock,
            shares=False,  # tools and handler are here alone
        ) as engine:
            engine.observers.append(self._hear)
            yield engine

    async def _begin(self, engine: Engine) -> ThreadId:
        opening = ResumeThread(thread_id=ThreadId(self.thread_id)) if self.thread_id is not None else CreateThread()
        state = await execute_from_library(engine, opening)
        assert isinstance(state, ThreadState)
        self.thread_id, self._state = state.id, state
        return self.thread_id

    async def _run(self, engine: Engine, content: str) -> HarnessError | None:
        thread_id = await self._begin(engine)
        watcher = await engine.watch(thread_id) if self._approval_handler is not None else None
        if watcher is not None:
            engine.beside(partial(self._answer, engine, watcher))
        try:
            await execute_from_library(engine, StartTurn(thread_id=thread_id, content=(TextInput(text=content),)))
            try:
                return await engine.wait(thread_id)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await _interrupt(engine, thread_id)
                raise
        finally:
            if watcher is not None:
                watcher.close()

    @property
    def _approval_handler(self) -> "ApprovalHandler | None":
        return getattr(self._handler, "on_approval", None)

    async def _answer(self, engine: Engine, watcher: Watcher) -> None:
        """Puts each approval to the handler, one after the other."""
        while changes := await watcher.next():
            for change in changes:
                if isinstance(event := change.record.event, ApprovalRequested):
                    await self._decide(engine, event.approval)

    async def _decide(self, engine: Engine, approval: Approval) -> None:
        decision: Decision = "reject"
        try:
            if (decide := self._approval_handler) is not None:
                answer = decide(approval)
                decision = await answer if inspect.isawaitable(answer) else answer
        except Exception as problem:
            self._fail(problem)
        with suppress(ApprovalNotFound):  # somebody else was faster, or the turn has ended
            await execute_from_library(engine, ResolveApproval(approval_id=approval.id, decision=decision))

    def _hear(self, change: Change) -> None:
        if change.record.thread_id != self.thread_id:
            return
        self._state = change.after
        if self._handler is None or self._handler_failure is not None:
            return
        try:
            _deliver(self._handler, change)
        except Exception as problem:
            self._fail(problem)

    def _hear_text(self, thread_id: ThreadId, text: str) -> None:
        if self._handler is None or self._handler_failure is not None or thread_id != self.thread_id:
            return
        try:
            self._handler.on_text(text)  # each text block when it ends; a message may have several
        except Exception as problem:
            self._fail(problem)

    def _fail(self, problem: Exception) -> None:
        """An exception of the handler ends the prompt, which raises it."""
        if self._scope is None:  # a client of `serve` prompts: there is nobody here to raise it to
            log.exception("handler.failed", exc_info=problem)
            return
        self._handler_failure = problem
        self._scope.cancel()


class ApprovalHandler(Protocol):
    def __call__(self, approval: Approval, /) -> Decision | Awaitable[Decision]: ...


async def _interrupt(engine: Engine, thread_id: ThreadId) -> None:
    """Ends the turn if it still runs, and waits until its end is written."""
    try:
        await execute_from_library(engine, InterruptTurn(thread_id=thread_id))
    except TurnNotFound:
        return
    await engine.wait(thread_id)


def _options(config: Config, cwd: str | Path | None, data_dir: str | Path | None) -> Options:
    """What the arguments say, and nothing else: a library reads no configuration file."""
    environment = dict(os.environ)
    provider = config.model.partition("/")[0]
    if config.api_key:
        environment[variable(provider, "api_key")] = config.api_key
    if config.base_url != ANTHROPIC_URL:
        environment[variable(provider, "base_url")] = config.base_url
    here = Path(cwd or Path.cwd()).resolve()
    state = Path(user_state(environment))
    return Options(
        cwd=here,
        data_dir=Path(data_dir or here / ".harness").resolve(),
        state_dir=state,
        notes_dir=state,
        environment=environment,
    )


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
