"""The engine: one method per command, on threads that are opened when they are needed."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, assert_never

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from hames import ports
from hames.core.engine_rules import EngineRules
from hames.core.history import changes_between
from hames.core.loaded import LoadedThread
from hames.core.lost_threads import LostThreads
from hames.core.outcome import Outcome
from hames.core.sharing import Sharing
from hames.core.thread import CLOSE_SECONDS
from hames.core.threads import Threads
from hames.core.watcher import Watcher
from hames.deferred import deferred, is_built
from hames.domain import commands, errors
from hames.domain.ids import ThreadId
from hames.domain.state import Change, ThreadState, blank

if TYPE_CHECKING:
    from hames.core.node_work import NodeWork
    from hames.core.turns import Turns
    from hames.core.worktrees import ThreadWorktrees


REACH_SECONDS = 0.5
"""Between two tries of a client that watched before to reach a database that is gone."""


class Engine:
    def __init__(
        self,
        *,
        store: ports.Store,
        models: ports.Models,
        workspace: ports.Workspace,
        tools: ports.Tools,
        trust: ports.Trust,
        clock: ports.Clock,
        ids: ports.Ids,
        rules: EngineRules,
        agents: Mapping[str, ports.Agent] | None = None,
        notes: ports.Notes | None = None,
        sandbox: ports.Sandbox | None = None,
        environment: ports.Environment | None = None,
        checkpoints: ports.Checkpoints | None = None,
        peers: ports.Peers | None = None,
        rulebook: ports.RuleBook | None = None,
        worktrees: Callable[[], ports.Worktrees] | None = None,
        nodes: ports.Nodes | None = None,
    ) -> None:
        """`agents` run the turns of threads whose model is theirs: by the provider's part of its name.

        `notes` reads the project notes that the model is shown; None: it is shown none.
        `sandbox` is where clients run programs of their own; None: they cannot.
        `rulebook` has the rules that people wrote down; None: there are none.
        `environment` finds what the model is told about the machine and the workspace; None: it is told nothing.
        `checkpoints` keep what turns change, for undo; None: nothing can be undone.
        `worktrees` makes git worktrees for threads, when one is first needed; None: there are none.
        `peers` are other processes on the same threads; None: what they write can be watched, and nothing else.
        `nodes` makes this engine a node of a shared store; None: the store is this machine's.
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
            checkpoints=checkpoints,
        )
        self._tasks: TaskGroup | None = None
        self._closing = False

        def turns() -> "Turns":  # most of the engine's code is imported with the first turn
            from hames.core.turns import Turns

            made = Turns(
                self._threads,
                tools=tools,
                trust=trust,
                ids=ids,
                agents=self.agents,
                environment=environment,
                rulebook=rulebook,
            )
            made.tasks, made.closing = self._tasks, self._closing
            made.slots.limit = nodes.slots if nodes is not None else 0
            return made

        self._turns = deferred(turns)
        self._threads.on_open = self._take_up

        def thread_worktrees() -> "ThreadWorktrees":
            from hames.core.worktrees import ThreadWorktrees

            return ThreadWorktrees(self._threads, worktrees)

        self._worktrees = deferred(thread_worktrees)
        self._sharing = Sharing(self._threads, store, peers, ids, self._execute)
        self._lost = LostThreads(self._threads)
        self.node = self._node(nodes, store) if nodes is not None else None
        """None: the store is this machine's."""
        if self.node is not None:
            self.node.tell_waiting = self._sharing.tell_waiting
        self._sharing.before_take_up = self._lost.wait_until_left
        self.observers = self._threads.observers
        """Called at once with every change of every thread: metrics, traces, the handler of a library."""

    def _node(self, nodes: ports.Nodes, store: ports.Store) -> "NodeWork":
        from hames.core import node_work  # most engines are no node

        here = self._sharing.service
        return node_work.NodeWork(nodes, store, self._threads, self._lost, here, is_closing=lambda: self._closing)

    async def __aenter__(self) -> Self:
        self._tasks = tasks = await anyio.create_task_group().__aenter__()
        if is_built(self._turns):
            self._turns.tasks = tasks
        try:
            self._lost.start_task = tasks.start_soon
            if self.node is not None:
                await self.node.start(tasks)
            await self._threads.sweep()
            self._sharing.attach(tasks, at_once=self.node is not None)
        except BaseException as problem:
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)
            raise problem from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Interrupts what runs, closes every log."""
        tasks = self._tasks
        assert tasks is not None
        with anyio.CancelScope(shield=True):
            await self._sharing.close()
            self._closing = True
            if is_built(self._turns):
                await self._turns.stop()
            if self.node is not None:  # other nodes go on with its turns at once
                with anyio.move_on_after(CLOSE_SECONDS):
                    await self.node.nodes.leave()
                self._lost.abandon_all()
            tasks.cancel_scope.cancel()
        try:
            # Without the error: the group would wrap it, and whoever left with it wants it as it was.
            await tasks.__aexit__(None, None, None)
        finally:
            with anyio.move_on_after(3 * CLOSE_SECONDS, shield=True):
                await self._threads.close()

    def beside(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Something to do while threads run; it ends with the engine, and must not fail."""
        assert self._tasks is not None
        self._tasks.start_soon(work)

    async def execute(self, command: commands.Command) -> Outcome:
        """Raises `HarnessError` and nothing else."""
        if isinstance(command, commands.FinishWorktree):
            command = await self._worktrees.with_thread(command)
        try:
            outcome = await self._execute(command)
        except errors.ThreadInUse:
            if isinstance(thread_id := getattr(command, "thread_id", None), str):
                return await self._sharing.execute(command, ThreadId(thread_id))
            raise
        except errors.Fenced as lost:  # another node has the thread by now, and what was written of the command, too
            if isinstance(thread_id := getattr(command, "thread_id", None), str):
                return await self._sharing.execute(command, ThreadId(thread_id), before=lost.seen)
            if isinstance(command, commands.ResolveApproval):
                return await self._sharing.resolve(command)
            raise
        except errors.ApprovalNotFound:
            if isinstance(command, commands.ResolveApproval):
                return await self._sharing.resolve(command)
            raise
        if isinstance(outcome, commands.ThreadPage) and (elsewhere := await self._sharing.standings()):
            return replace(outcome, threads=tuple(_standing_elsewhere(one, elsewhere) for one in outcome.threads))
        if isinstance(command, commands.DeleteThread):
            self._sharing.list_changed()
        return outcome

    async def _execute(self, command: commands.Command) -> Outcome:
        """In this process alone. Raises `ThreadInUse` for a thread that another one writes."""
        threads, turns = self._threads, self._turns
        match command:
            case commands.CreateThread(worktree=None):
                return await threads.create(command)
            case commands.ForkThread(worktree=None):
                return await threads.fork(command)
            case commands.CreateThread() | commands.ForkThread():
                return await self._worktrees.open(command)
            case commands.ListWorktrees():
                return await self._worktrees.list(command)
            case commands.FinishWorktree():
                return await self._worktrees.finish(command)
            case commands.ListThreads():
                return await threads.page(command)
            case commands.ReadThread(thread_id=thread_id):
                return await threads.read(thread_id)
            case commands.ResumeThread() | commands.ChangeSettings():
                return await threads.resume(command)
            case commands.ArchiveThread():
                return await threads.archive(command)
            case commands.RenameThread():
                return await threads.rename(command)
            case commands.DeleteThread(thread_id=thread_id, interrupt=interrupt):
                if interrupt:
                    await turns.end(thread_id, command.by)
                return await threads.delete(thread_id)
            case commands.StartTurn():
                return await turns.start(command)
            case commands.SubmitPrompt():
                return await turns.submit(command)
            case commands.DropPrompt():
                return await turns.drop(command)
            case commands.SteerTurn():
                return await turns.steer(command)
            case commands.InterruptTurn():
                return await turns.interrupt(command)
            case commands.CompactThread():
                return await turns.compact(command)
            case commands.StartReview():
                return await turns.review(command)
            case commands.AddHistory():
                return await turns.add_history(command)
            case commands.ListServers(thread_id=thread_id):
                return await turns.servers(thread_id)
            case commands.ListProcesses(thread_id=thread_id, end=number):
                return await threads.processes(thread_id, end=number)
            case commands.ReadContext(thread_id=thread_id):
                return await turns.context(thread_id)
            case commands.UndoTurn():
                from hames.core.undo import undo_turn

                return await undo_turn(threads, command)
            case commands.RunProgram():
                from hames.core.programs import run_program

                return await run_program(command, self.rules.defaults, self._sandbox, self.workspace)
            case commands.ResolveApproval(approval_id=approval_id, decision=decision, note=note, content=content):
                answered = await turns.questions.resolve(
                    approval_id, decision, note=note, content=content, scope=command.scope, by=command.by
                )
                return answered.state
            case _ as never:
                assert_never(never)

    async def _take_up(self, loaded: LoadedThread) -> None:
        state = loaded.thread.state
        if state.running is not None or state.queue:
            await self._turns.cut_off.take_up(loaded)

    async def continue_turns(self) -> None:
        """Goes on with the turns that a stopped process left running. Nobody needs to open their threads for it."""
        await self._turns.cut_off.continue_all()

    async def wait(self, thread_id: ThreadId) -> errors.HarnessError | None:
        """Waits until the turn that runs on a thread has ended. Returns what it failed with."""
        if thread_id in self._threads.loaded:
            return await self._turns.wait(thread_id)
        return await self._wait_elsewhere(thread_id)

    async def _wait_elsewhere(self, thread_id: ThreadId) -> errors.HarnessError | None:
        """The same for a turn of another process."""
        watcher = await self.watch(thread_id, answers=False)
        try:
            state = watcher.state
            while state.running is not None and (changes := await watcher.next()):
                state = changes[-1].after
        finally:
            watcher.close()
        error = state.turns[-1].error if state.turns and state.turns[-1].status == "failed" else None
        return errors.HarnessError(error.message) if error is not None else None

    async def watch(self, thread_id: ThreadId, *, answers: bool = True, again: bool = False) -> Watcher:
        """A snapshot and every change after it. `answers`: somebody there can decide approvals.

        `again`: the client watched before, and waits for a database that is gone, however long that takes.
        """
        while True:
            try:
                return await self._sharing.watch(thread_id, answers=answers)
            except errors.StoreUnreachable:
                if not again:
                    raise
                await self.clock.sleep(REACH_SECONDS)

    async def follow_again(self, watcher: Watcher) -> Watcher:
        """What a watcher that was cut off has not heard, and everything after it. Waits for a database that is gone."""
        while True:
            try:
                return await self.follow(watcher.state.id, since=watcher.state, answers=watcher.answers)
            except errors.StoreUnreachable:
                await self.clock.sleep(REACH_SECONDS)

    async def follow(
        self, thread_id: ThreadId, *, since: ThreadState | None = None, replay: bool = False, answers: bool = True
    ) -> Watcher:
        """Every change from now on; after an earlier state `since`; or (`replay`) from the first record.

        A thread that cannot be written can only be read: its watcher ends with what was written so far.
        """
        try:
            watcher = await self.watch(thread_id, answers=answers)
        except errors.ThreadReadOnly:
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
        return loaded.thread.told if loaded is not None else self._sharing.state(thread_id)

    def follow_lists(self, listener: Callable[[], None]) -> None:
        """Calls the listener when another process has changed the list of threads."""
        self._sharing.follow_lists(listener)

    def unfollow_lists(self, listener: Callable[[], None]) -> None:
        self._sharing.list_listeners.remove(listener)

    async def history(self, thread_id: ThreadId) -> Sequence[Change]:
        """Every kept record, oldest first."""
        return await self._threads.history(thread_id)


def _standing_elsewhere(
    one: commands.ThreadSummary, elsewhere: Mapping[ThreadId, commands.Standing]
) -> commands.ThreadSummary:
    """A thread that another process has in memory, as that process says."""
    return replace(one, standing=elsewhere[one.id]) if one.standing == "away" and one.id in elsewhere else one
