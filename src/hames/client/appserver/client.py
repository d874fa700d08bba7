"""The Python client of an app server: `AppServerClient`, over any pair of byte streams.

    async with AppServerClient.spawn(["hames", "app-server"]) as client:
        thread = (await client.start_thread(cwd="/project")).thread
        turn = await client.run(thread.id, "Run the tests")

Notifications arrive as typed events (`client.events()`), approvals through a callback, and what this
version does not know is kept, not dropped. A seed-only flint server will do: members beside the
specification's are read where they are and missed where they are not.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Self, TypedDict, TypeVar, Unpack

import anyio
import msgspec
from anyio.streams.stapled import StapledByteStream

from hames.client.appserver.events import TurnCompleted, with_items
from hames.client.appserver.link import AppServerConnection, ConnectionClosed, OnApproval, Stream
from hames.domain.json import Json
from hames.domain.options import Personality
from hames.domain.policy import ApprovalPolicy
from hames.domain.value import Value
from hames.protocols.flint import messages as m
from hames.protocols.flint.items import AgentMessageItem, TextInput, UserInput
from hames.protocols.flint.wire import Wire

R = TypeVar("R", bound=Value)

Inputs = str | Sequence[UserInput]

CLOSE_SECONDS = 5.0
PAGE = 100


class ClientName(TypedDict, total=False):
    """Who the client says it is."""

    name: str
    version: str
    title: str | None


class TurnSettings(TypedDict, total=False):
    """What the next turn runs with, and every later one."""

    model: str | None
    cwd: str | None
    approval_policy: ApprovalPolicy | None
    sandbox_policy: m.SandboxPolicy | None
    config: dict[str, str] | None
    developer_instructions: str | None
    base_instructions: str | None
    personality: Personality | None


class ThreadOptions(TypedDict, total=False):
    """What a new thread runs with."""

    model: str | None
    cwd: str | None
    approval_policy: ApprovalPolicy | None
    sandbox: m.SandboxPolicy | None
    developer_instructions: str | None
    base_instructions: str | None
    personality: Personality | None
    meta: Json
    """Saved with the thread. Nothing depends on it."""
    worktree: m.WorktreeOptions | None
    """A git worktree of its own."""


class AppServerClient(AppServerConnection):
    """One connection. Make it with `spawn` or `connect`: both initialize and clean up."""

    agent: m.InitializeResult
    """What the agent said of itself."""

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, stream: Stream, *, on_approval: OnApproval | None = None, **who: Unpack[ClientName]
    ) -> AsyncGenerator[Self]:
        """Over streams that exist. Raises `AppServerError` or `ConnectionClosed` when the handshake fails."""
        async with anyio.create_task_group() as tasks:
            client = cls(stream, tasks, on_approval)
            tasks.start_soon(client.listen)
            try:
                await client._initialize(**who)
                yield client
            finally:
                client.end("closed by this side")
                with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                    await stream.aclose()
                tasks.cancel_scope.cancel()

    @classmethod
    @asynccontextmanager
    async def spawn(
        cls,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        on_approval: OnApproval | None = None,
        **who: Unpack[ClientName],
    ) -> AsyncGenerator[Self]:
        """Over the pipes of a new process, which ends with the client. Its stderr is ours."""
        process = await anyio.open_process(list(command), cwd=cwd, env=env, stderr=None)
        assert process.stdin is not None
        assert process.stdout is not None
        pipes = StapledByteStream(process.stdin, process.stdout)
        try:
            async with cls.connect(pipes, on_approval=on_approval, **who) as client:
                yield client
        finally:
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(CLOSE_SECONDS):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                await process.aclose()

    # -- threads

    async def start_thread(self, **options: Unpack[ThreadOptions]) -> m.ThreadOpened:
        return await self._call("thread/start", m.ThreadStartParams(**options), m.ThreadOpened)

    async def resume_thread(
        self, thread_id: str, *, model: str | None = None, cwd: str | None = None
    ) -> m.ThreadOpened:
        """With its history in `thread.turns`."""
        given = m.ThreadResumeParams(thread_id=thread_id, model=model, cwd=cwd)
        return await self._call("thread/resume", given, m.ThreadOpened)

    async def fork_thread(
        self, thread_id: str, *, last_turn_id: str | None = None, worktree: m.WorktreeOptions | None = None
    ) -> m.ThreadOpened:
        given = m.ThreadForkParams(thread_id=thread_id, last_turn_id=last_turn_id, worktree=worktree)
        return await self._call("thread/fork", given, m.ThreadOpened)

    async def read_thread(self, thread_id: str) -> m.Thread:
        """Look, without following it."""
        given = m.ThreadReadParams(thread_id=thread_id, include_turns=True)
        return (await self._call("thread/read", given, m.ThreadResult)).thread

    async def list_threads(
        self, *, cursor: str | None = None, limit: int | None = None, archived: bool = False, search: str | None = None
    ) -> m.ThreadListResult:
        given = m.ThreadListParams(cursor=cursor, limit=limit, archived=archived, search_term=search)
        return await self._call("thread/list", given, m.ThreadListResult)

    async def latest_thread(self) -> m.Thread | None:
        """The newest that this user has written; where there is none, the newest of all."""
        first: m.Thread | None = None
        cursor: str | None = None
        while True:
            page = await self.list_threads(limit=PAGE, cursor=cursor)
            for thread in page.data:
                if not thread.foreign:
                    return thread
                first = first or thread
            if not isinstance(page.next_cursor, str):
                return first
            cursor = page.next_cursor

    async def archive_thread(self, thread_id: str) -> None:
        await self._call("thread/archive", m.ThreadIdParams(thread_id=thread_id), m.Empty)

    async def unarchive_thread(self, thread_id: str) -> m.Thread:
        return (await self._call("thread/unarchive", m.ThreadIdParams(thread_id=thread_id), m.ThreadResult)).thread

    async def delete_thread(self, thread_id: str) -> None:
        await self._call("thread/delete", m.ThreadIdParams(thread_id=thread_id), m.Empty)

    async def rename_thread(self, thread_id: str, name: str) -> None:
        await self._call("thread/name/set", m.ThreadNameSetParams(thread_id=thread_id, name=name), m.Empty)

    async def compact_thread(self, thread_id: str) -> m.Turn:
        return (await self._call("thread/compact", m.ThreadIdParams(thread_id=thread_id), m.TurnResult)).turn

    async def unsubscribe(self, thread_id: str) -> None:
        """Hear no more of it; it goes on."""
        await self._call("thread/unsubscribe", m.ThreadIdParams(thread_id=thread_id), m.ThreadUnsubscribeResult)

    async def change_settings(self, thread_id: str, **settings: Unpack[TurnSettings]) -> None:
        given = m.ThreadSettingsUpdateParams(thread_id=thread_id, **settings)
        await self._call("thread/settings/update", given, m.Empty)

    # -- turns

    async def start_turn(
        self,
        thread_id: str,
        inputs: Inputs,
        *,
        output_schema: dict[str, Json] | None = None,
        meta: Json = msgspec.UNSET,
        **settings: Unpack[TurnSettings],
    ) -> m.Turn:
        """Returns as it begins; events tell the rest. The settings given here hold for later turns, too."""
        given = m.TurnStartParams(
            thread_id=thread_id, input=_inputs(inputs), output_schema=output_schema, meta=meta, **settings
        )
        return (await self._call("turn/start", given, m.TurnResult)).turn

    async def run(self, thread_id: str, inputs: Inputs, *, config: dict[str, str] | None = None) -> m.Turn:
        """A whole turn: returns when it has ended, however it did."""
        with self.events(thread_id) as events:
            turn = await self.start_turn(thread_id, inputs, config=config)
            async for event in events:
                if isinstance(event, TurnCompleted) and event.turn.id == turn.id:
                    return event.turn
        raise ConnectionClosed(self.closed)

    async def steer_turn(self, thread_id: str, inputs: Inputs, *, turn_id: str | None = None) -> str:
        given = m.TurnSteerParams(thread_id=thread_id, input=_inputs(inputs), expected_turn_id=turn_id)
        return (await self._call("turn/steer", given, m.TurnSteerResult)).turn_id

    async def interrupt_turn(self, thread_id: str, turn_id: str) -> None:
        await self._call("turn/interrupt", m.TurnInterruptParams(thread_id=thread_id, turn_id=turn_id), m.Empty)

    async def start_review(self, thread_id: str, target: m.ReviewTarget, *, reviewer: str = "") -> m.Turn:
        given = m.ReviewStartParams(thread_id=thread_id, target=target, reviewer=reviewer)
        return (await self._call("review/start", given, m.ReviewStartResult)).turn

    async def queue_prompt(self, thread_id: str, inputs: Inputs) -> m.ThreadQueueAddResult:
        """Starts a turn, or waits behind the one that runs."""
        given = m.ThreadQueueAddParams(thread_id=thread_id, input=_inputs(inputs))
        return await self._call("thread/queue/add", given, m.ThreadQueueAddResult)

    async def drop_prompt(self, thread_id: str, prompt_id: str) -> None:
        given = m.ThreadQueueDeleteParams(thread_id=thread_id, prompt_id=prompt_id)
        await self._call("thread/queue/delete", given, m.Empty)

    # -- models and selectors

    async def models(self, *, limit: int | None = None, hidden: bool = False) -> list[m.Model]:
        """`hidden`: the retired ones, too."""
        given = m.ModelListParams(limit=limit, include_hidden=hidden or None)
        return (await self._call("model/list", given, m.ModelListResult)).data

    async def config_options(self, thread_id: str | None = None) -> list[m.ConfigOption]:
        given = m.ConfigListParams(thread_id=thread_id)
        return (await self._call("config/list", given, m.ConfigOptions)).options

    async def mcp_servers(self, thread_id: str | None = None) -> list[m.McpServerStatus]:
        """How each MCP server is doing. Those of a thread that has not run yet begin to start."""
        given = m.McpServerStatusListParams(thread_id=thread_id)
        return (await self._call("mcpServerStatus/list", given, m.McpServerStatusList)).data

    async def processes(self, thread_id: str) -> list[m.ThreadProcess]:
        """What the agent runs in the background, and the last that ended."""
        given = m.ThreadIdParams(thread_id=thread_id)
        return (await self._call("thread/processes/list", given, m.ThreadProcesses)).data

    async def end_process(self, thread_id: str, process: int) -> list[m.ThreadProcess]:
        given = m.ThreadProcessEndParams(thread_id=thread_id, process=process)
        return (await self._call("thread/processes/end", given, m.ThreadProcesses)).data

    async def context(self, thread_id: str) -> m.ThreadContext:
        """What fills the window of the thread's model."""
        return await self._call("thread/context/read", m.ThreadIdParams(thread_id=thread_id), m.ThreadContext)

    async def undo(self, given: m.ThreadUndoParams) -> m.ThreadUndoResult:
        """Takes back what a turn did to files, or does it again."""
        return await self._call("thread/undo", given, m.ThreadUndoResult)

    async def worktrees(self, *, cwd: str | None = None, everywhere: bool = False) -> list[m.WorktreeEntry]:
        given = m.WorktreeListParams(cwd=cwd, everywhere=everywhere or None)
        return (await self._call("worktree/list", given, m.WorktreeListResult)).data

    async def finish_worktree(self, given: m.WorktreeFinishParams) -> m.WorktreeFinishResult:
        """Merges a worktree, keeps it, or drops it."""
        return await self._call("worktree/finish", given, m.WorktreeFinishResult)

    async def set_config(self, option_id: str, value: str, *, thread_id: str | None = None) -> list[m.ConfigOption]:
        """The whole list as it is now: one choice may change another."""
        given = m.ConfigSetParams(id=option_id, value=value, thread_id=thread_id)
        return (await self._call("config/set", given, m.ConfigOptions)).options

    async def read_config(self, thread_id: str | None = None) -> m.ConfigReadResult:
        return await self._call("config/read", m.ConfigListParams(thread_id=thread_id), m.ConfigReadResult)

    # -- the wire

    async def _call(self, method: str, params: Wire, shape: type[R]) -> R:
        result = await self.request(method, _without_none(msgspec.to_builtins(params)))
        return msgspec.convert(with_items(result), shape, from_attributes=True)

    async def _initialize(self, name: str = "hames-client", version: str = "1", title: str | None = None) -> None:
        info = m.ClientInfo(name=name, version=version, title=title)
        who = m.InitializeParams(client_info=info, capabilities=m.ClientCapabilities(experimental_api=True))
        self.agent = await self._call("initialize", who, m.InitializeResult)
        await self.notify("initialized", {})


def _without_none(value: Json) -> Json:
    """None is "as it was": such members are left out, for servers that know no null."""
    if not isinstance(value, dict):
        return value
    return {
        name: inner if name == "_meta" else _without_none(inner) for name, inner in value.items() if inner is not None
    }


def _inputs(inputs: Inputs) -> list[UserInput]:
    return [TextInput(text=inputs)] if isinstance(inputs, str) else list(inputs)


def text_of(turn: m.Turn) -> str:
    """What the agent said at the end of a turn."""
    said = [item.text for item in turn.items if isinstance(item, AgentMessageItem)]
    return said[-1] if said else ""
