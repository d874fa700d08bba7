"""The engine: one method per command, on threads that are opened when they are needed."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, assert_never

import anyio

from hames.core.engine_rules import EngineRules
from hames.core.history import changes_between
from hames.core.programs import run_program
from hames.core.threads import Threads
from hames.core.turn import CLOSE_SECONDS
from hames.core.turns import Turns
from hames.core.watcher import Watcher
from hames.domain.commands import (
    AddHistory,
    ArchiveThread,
    ChangeSettings,
    Command,
    CompactThread,
    CreateThread,
    DeleteThread,
    DropPrompt,
    ForkThread,
    InterruptTurn,
    ListProcesses,
    ListServers,
    ListThreads,
    ProgramEnded,
    ReadContext,
    ReadThread,
    RenameThread,
    ResolveApproval,
    ResumeThread,
    RunProgram,
    StartReview,
    StartTurn,
    SteerTurn,
    SubmitPrompt,
    ThreadPage,
)
from hames.domain.context_report import ContextReport
from hames.domain.errors import HarnessError, ThreadInUse, ThreadReadOnly
from hames.domain.ids import ThreadId
from hames.domain.processes import ProcessList
from hames.domain.servers import ServerList
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn, blank
from hames.ports import Agent, Clock, Environment, Ids, Models, Notes, Sandbox, Store, Tools, Trust, Workspace
from hames.ports.rules import RuleBook

Outcome = (
    ThreadState | ThreadPage | Turn | QueuedPrompt | ServerList | ProcessList | ContextReport | ProgramEnded | None
)


class Engine:
    def __init__(
        self,
        *,
        store: Store,
        models: Models,
        workspace: Workspace,
        tools: Tools,
        trust: Trust,
        clock: Clock,
        ids: Ids,
        rules: EngineRules,
        agents: Mapping[str, Agent] | None = None,
        notes: Notes | None = None,
        sandbox: Sandbox | None = None,
        environment: Environment | None = None,
        rulebook: RuleBook | None = None,
    ) -> None:
        """`agents` run the turns of threads whose model is theirs: by the provider's part of its name.

        `notes` reads the project notes that the model is shown; None: it is shown none.
        `sandbox` is where clients run programs of their own; None: they cannot.
        `rulebook` has the rules that people wrote down; None: there are none.
        `environment` finds what the model is told about the machine and the workspace; None: it is told nothing.
        """
        self.models = models
        self.workspace = workspace
        self.agents = agents if agents is not None else {}  # it may grow: installed agents are found when needed
        self.rules = rules
        self.clock = clock
        self._sandbox = sandbox
        self._threads = Threads(
            store=store,
            models=models,
            workspace=workspace,
            clock=clock,
            ids=ids,
            rules=rules,
            agents=self.agents,
            notes=notes,
        )
        self._turns = Turns(
            self._threads,
            tools=tools,
            trust=trust,
            ids=ids,
            agents=self.agents,
            environment=environment,
            rulebook=rulebook,
        )
        self.observers = self._threads.observers
        """Called at once with every change of every thread: metrics, traces, the handler of a library."""

    async def __aenter__(self) -> Self:
        await self._threads.sweep()
        self._turns.tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Interrupts what runs, closes every log."""
        tasks = self._turns.tasks
        assert tasks is not None
        with anyio.CancelScope(shield=True):
            await self._turns.stop()
            tasks.cancel_scope.cancel()
        try:
            # Without the error: the group would wrap it, and whoever left with it wants it as it was.
            await tasks.__aexit__(None, None, None)
        finally:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await self._threads.close()

    def beside(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Something to do while threads run; it ends with the engine, and must not fail."""
        assert self._turns.tasks is not None
        self._turns.tasks.start_soon(work)

    async def execute(self, command: Command) -> Outcome:
        """Raises `HarnessError` and nothing else."""
        threads, turns = self._threads, self._turns
        match command:
            case CreateThread():
                return await threads.create(command)
            case ListThreads():
                return await threads.page(command)
            case ReadThread(thread_id=thread_id):
                return await threads.read(thread_id)
            case ResumeThread() | ChangeSettings():
                return await threads.resume(command)
            case ForkThread():
                return await threads.fork(command)
            case ArchiveThread():
                return await threads.archive(command)
            case RenameThread():
                return await threads.rename(command)
            case DeleteThread(thread_id=thread_id, interrupt=interrupt):
                if interrupt:
                    await turns.end(thread_id)
                return await threads.delete(thread_id)
            case StartTurn():
                return await turns.start(command)
            case SubmitPrompt():
                return await turns.submit(command)
            case DropPrompt():
                return await turns.drop(command)
            case SteerTurn():
                return await turns.steer(command)
            case InterruptTurn():
                return await turns.interrupt(command)
            case CompactThread(thread_id=thread_id):
                return await turns.compact(thread_id)
            case StartReview():
                return await turns.review(command)
            case AddHistory():
                return await turns.add_history(command)
            case ListServers(thread_id=thread_id):
                return await turns.servers(thread_id)
            case ListProcesses(thread_id=thread_id, end=number):
                return await threads.processes(thread_id, end=number)
            case ReadContext(thread_id=thread_id):
                return await turns.context(thread_id)
            case RunProgram():
                return await run_program(command, self.rules.defaults, self._sandbox, self.workspace)
            case ResolveApproval(approval_id=name, decision=decision, note=note, content=content, scope=scope):
                return (await turns.questions.resolve(name, decision, note=note, content=content, scope=scope)).state
            case _ as never:
                assert_never(never)

    async def wait(self, thread_id: ThreadId) -> HarnessError | None:
        """Waits until the turn that runs on a thread has ended. Returns what it failed with."""
        return await self._turns.wait(thread_id)

    async def watch(self, thread_id: ThreadId, *, answers: bool = True) -> Watcher:
        """A snapshot and every change after it. `answers`: somebody there can decide approvals."""
        loaded = await self._threads.open(thread_id)
        return loaded.thread.watch(answers=answers)

    async def follow(
        self, thread_id: ThreadId, *, since: ThreadState | None = None, replay: bool = False, answers: bool = True
    ) -> Watcher:
        """Every change from now on; after an earlier state `since`; or (`replay`) from the first record.

        A thread that another process writes can only be read: its watcher ends with what was written so far.
        """
        try:
            watcher = await self.watch(thread_id, answers=answers)
        except (ThreadInUse, ThreadReadOnly):
            watcher = Watcher(await self._threads.read(thread_id))
            watcher.close()
        if replay:
            since = blank(thread_id, foreign=watcher.state.foreign)
        if since is not None and since is not watcher.state:
            watcher.precede(await self.changes_between(since, watcher.state))
        return watcher

    async def changes_between(self, since: ThreadState, until: ThreadState) -> Sequence[Change]:
        """What leads from one state of a thread to a later one."""
        return changes_between(await self._threads.records(until.id), since, until)

    def loaded(self, thread_id: ThreadId) -> ThreadState | None:
        """The thread as it stands if it is in memory. Nothing is opened for it."""
        loaded = self._threads.loaded.get(thread_id)
        return loaded.thread.state if loaded is not None else None

    async def history(self, thread_id: ThreadId) -> Sequence[Change]:
        """Every kept record, oldest first."""
        return await self._threads.history(thread_id)
