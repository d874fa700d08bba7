"""The engine inside your own program: threads, prompts, events and approvals, with the options of the commands.

    async with hames.open_engine(cwd="/repo", model="anthropic/claude-sonnet-5-5") as engine:
        thread = await engine.start_thread()
        async for change in thread.prompt("Run the tests"):
            print(change.record.event)

Values (events, items, states) are those of `hames.domain`. Everything raises `HarnessError` and nothing else.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from inspect import isawaitable
from pathlib import Path
from typing import TypedDict, Unpack

import msgspec
from msgspec.structs import replace

from hames import app
from hames.config.load import load
from hames.core.engine import Engine, Outcome
from hames.core.watcher import Watcher
from hames.domain import commands
from hames.domain.approvals import Approval
from hames.domain.budgets import Budgets
from hames.domain.errors import HarnessError
from hames.domain.events import ApprovalRequested, TurnEnded
from hames.domain.ids import ApprovalId, ThreadId, TurnId
from hames.domain.items import TextInput, UserInput
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Overrides
from hames.domain.policy import AfterCrash, AgentName, ApprovalPolicy, Decision, DefaultAnswer, SandboxPolicy
from hames.domain.state import Change, ThreadState, Turn
from hames.domain.undo import UndoReport
from hames.domain.worktrees import NewWorktree, Worktree, WorktreeAction, WorktreeList, WorktreeReport
from hames.ports import HostTool, Provider
from hames.stdio.principals import Principal, local_user

Approve = Callable[[Approval], Decision | Awaitable[Decision]]
"""Decides an approval: `once`, `always` or `reject`."""


class EngineOptions(TypedDict, total=False):
    """What the commands take as flags and configuration keys. What is not given comes from the user's configuration,
    the environment and the defaults, as it does for the commands."""

    cwd: str | Path
    data_dir: str | Path
    model: str
    approval_policy: ApprovalPolicy
    sandbox: str | dict[str, Json] | SandboxPolicy
    allow_degraded: bool
    instructions: str
    max_steps: int
    after_crash: AfterCrash
    approval_deadline: int
    approval_default: DefaultAnswer
    extra_path: Sequence[str]
    extra_read: Sequence[str]
    extra_cache: Sequence[str]
    max_memory_mb: int | str
    max_file_mb: int
    max_processes: int
    search_command: Sequence[str]
    mcp_servers: dict[str, Json]


class ThreadSettings(TypedDict, total=False):
    """What one thread may have of its own."""

    model: str
    cwd: str
    approval_policy: ApprovalPolicy
    sandbox: SandboxPolicy
    agent: AgentName
    options: dict[str, str]
    instructions: str
    budgets: Budgets


@asynccontextmanager
async def open_engine(
    *,
    tools: Sequence[HostTool] = (),
    builtin_tools: bool = True,
    provider: Provider | None = None,
    environment: Mapping[str, str] | None = None,
    continue_turns: bool = False,
    **options: Unpack[EngineOptions],
) -> AsyncGenerator["LocalEngine"]:
    """An engine for one workspace, closed with the block. Raises `Misconfigured`.

    `tools` are your own; without `builtin_tools` they are the only ones. `provider` replaces every model service.
    `environment` is where keys and endpoints come from; None: the environment of this process.
    `continue_turns`: opening a thread goes on with a turn whose process stopped; else the next prompt ends that turn.
    """
    given = {name: _plain(value) for name, value in options.items() if value is not None}
    loaded = load(given, os.environ if environment is None else environment)
    models = None
    if provider is not None:
        models = app.one_model(provider, options.get("model", "model"))
        loaded = replace(loaded, model="")  # what is configured belongs to another provider
    async with app.open_engine(
        loaded,
        models=models,
        added_tools=app.host_tools(tools),
        builtin_tools=builtin_tools,
        shares=not tools and builtin_tools and provider is None,
        continues=continue_turns,
    ) as engine:
        yield LocalEngine(engine)


def _plain(value: object) -> Json:
    """A value in the form it has in a configuration file."""
    if isinstance(value, tuple | Path):
        return list(value) if isinstance(value, tuple) else str(value)
    return msgspec.to_builtins(value)


async def execute_from_library(engine: Engine, command: commands.Command) -> Outcome:
    """The log names this program's account, unless the command says for whom it is given (`by`)."""
    if isinstance(command, commands.ChangingCommand) and command.by is not None:
        return await engine.execute(command)
    return await Principal(local_user("library")).execute(engine, command)


class LocalEngine:
    """Threads in this process. Every command of `hames.domain.commands` can be given to `execute`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def execute(self, command: commands.Command) -> Outcome:
        return await execute_from_library(self._engine, command)

    async def start_thread(
        self, title: str = "", *, worktree: NewWorktree | None = None, **settings: Unpack[ThreadSettings]
    ) -> "LocalThread":
        """`worktree`: the thread works in a git worktree of its own."""
        command = commands.CreateThread(title=title, overrides=Overrides(**settings), worktree=worktree)
        state = await execute_from_library(self._engine, command)
        assert isinstance(state, ThreadState)
        return LocalThread(self._engine, state.id)

    async def open_thread(self, thread_id: str, **settings: Unpack[ThreadSettings]) -> "LocalThread":
        """A thread that exists. `settings` change it from now on. Raises `ThreadNotFound`, `ThreadInUse`."""
        await execute_from_library(
            self._engine, commands.ResumeThread(thread_id=ThreadId(thread_id), overrides=Overrides(**settings))
        )
        return LocalThread(self._engine, ThreadId(thread_id))

    async def list_threads(
        self, *, limit: int | None = None, cursor: str | None = None, archived: bool = False, search: str = ""
    ) -> commands.ThreadPage:
        command = commands.ListThreads(limit=limit, cursor=cursor, archived=archived, search=search)
        page = await execute_from_library(self._engine, command)
        assert isinstance(page, commands.ThreadPage)
        return page

    async def list_worktrees(self) -> tuple[Worktree, ...]:
        """Those that were made for threads of this repository, with what is in them."""
        found = await execute_from_library(self._engine, commands.ListWorktrees())
        assert isinstance(found, WorktreeList)
        return found.worktrees

    async def finish_worktree(
        self,
        name: str,
        action: WorktreeAction,
        *,
        into: str = "",
        message: str = "",
        discard: str = "",
        preview: bool = False,
    ) -> WorktreeReport:
        """Merges a worktree, keeps it, or drops it (`domain.commands.FinishWorktree`)."""
        command = commands.FinishWorktree(
            action=action, name=name, into=into, message=message, discard=discard, preview=preview
        )
        report = await execute_from_library(self._engine, command)
        assert isinstance(report, WorktreeReport)
        return report

    def models(self) -> Sequence[ModelCard]:
        return self._engine.models.cards()


class LocalThread:
    """One thread of a `LocalEngine`."""

    def __init__(self, engine: Engine, thread_id: ThreadId) -> None:
        self._engine = engine
        self.id = thread_id

    async def read(self) -> ThreadState:
        """The thread as it is now: its settings, turns, items and open approvals."""
        state = await execute_from_library(self._engine, commands.ReadThread(thread_id=self.id))
        assert isinstance(state, ThreadState)
        return state

    async def prompt(self, content: "str | Sequence[UserInput]") -> AsyncGenerator[Change]:
        """Starts a turn, and yields what changes until it has ended. Raises `TurnBusy` while another one runs.

        A turn goes on when you stop listening; `interrupt` stops it. Approvals wait for `answer`.
        """
        watcher = await self._engine.watch(self.id)
        try:
            turn = await execute_from_library(
                self._engine, commands.StartTurn(thread_id=self.id, content=_input(content))
            )
            assert isinstance(turn, Turn)
            async for change in _changes(watcher):
                yield change
                if isinstance(event := change.record.event, TurnEnded) and event.turn_id == turn.id:
                    return
        finally:
            watcher.close()

    async def run(self, content: "str | Sequence[UserInput]", approve: Approve | None = None) -> Turn:
        """A prompt from its start to its end. `approve` decides what is asked; without it everything is rejected."""
        turn: Turn | None = None
        async with aclosing(self.prompt(content)) as changes:
            async for change in changes:
                event = change.record.event
                if isinstance(event, ApprovalRequested):
                    decision = approve(event.approval) if approve is not None else "reject"
                    await self.answer(event.approval.id, await decision if isawaitable(decision) else decision)
                turn = change.after.turns[-1]
        if turn is None:
            raise HarnessError("the engine was closed before the turn began")
        return turn

    async def follow(self, *, replay: bool = False) -> AsyncGenerator[Change]:
        """Every change from now on, or from the beginning with `replay`, until the engine closes."""
        watcher = await self._engine.follow(self.id, replay=replay)
        try:
            async for change in _changes(watcher):
                yield change
        finally:
            watcher.close()

    async def answer(self, approval_id: str, decision: Decision, note: str = "") -> None:
        """Raises `ApprovalNotFound` when somebody else was faster. `note` goes to the model."""
        await execute_from_library(
            self._engine, commands.ResolveApproval(approval_id=ApprovalId(approval_id), decision=decision, note=note)
        )

    async def steer(self, content: "str | Sequence[UserInput]") -> None:
        """Says something to the turn that runs. Raises `TurnNotFound`."""
        await execute_from_library(self._engine, commands.SteerTurn(thread_id=self.id, content=_input(content)))

    async def undo(
        self,
        turn_id: str | None = None,
        *,
        redo: bool = False,
        later: bool = False,
        paths: Sequence[str] = (),
        overwrite: bool = False,
        preview: bool = False,
    ) -> UndoReport:
        """Takes back what a turn did to files (`domain.commands.UndoTurn`): the last one that changed some, if none is
        named."""
        chosen = TurnId(turn_id) if turn_id is not None else None
        report = await self._engine.execute(
            commands.UndoTurn(
                thread_id=self.id,
                turn_id=chosen,
                later=later,
                redo=redo,
                paths=tuple(paths),
                overwrite=overwrite,
                preview=preview,
            )
        )
        assert isinstance(report, UndoReport)
        return report

    async def fork(self, *, last_turn_id: str | None = None, worktree: NewWorktree | None = None) -> "LocalThread":
        """A new thread with this one's history. `worktree`: it works in a git worktree of its own."""
        last = TurnId(last_turn_id) if last_turn_id is not None else None
        command = commands.ForkThread(thread_id=self.id, last_turn_id=last, worktree=worktree)
        state = await execute_from_library(self._engine, command)
        assert isinstance(state, ThreadState)
        return LocalThread(self._engine, state.id)

    async def interrupt(self) -> None:
        """Stops the turn that runs, and waits for its end. Raises `TurnNotFound`."""
        await execute_from_library(self._engine, commands.InterruptTurn(thread_id=self.id))
        await self._engine.wait(self.id)


def _input(content: "str | Sequence[UserInput]") -> tuple[UserInput, ...]:
    return (TextInput(text=content),) if isinstance(content, str) else tuple(content)


async def _changes(watcher: Watcher) -> AsyncGenerator[Change]:
    while changes := await watcher.next():
        for change in changes:
            yield change
    if watcher.cut_off:
        raise HarnessError(f"the reader of this thread {watcher.cut_off}; follow it again")
