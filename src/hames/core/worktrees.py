"""Threads in git worktrees of their own: started, forked, and finished."""

from collections.abc import Callable

import anyio
from msgspec.structs import replace

from hames.core.loaded import LoadedThread
from hames.core.settings import overridden
from hames.core.threads import Threads
from hames.domain.commands import CreateThread, FinishWorktree, ForkThread, ListWorktrees
from hames.domain.errors import InvalidCommand, ThreadNotFound, TurnBusy
from hames.domain.events import Noticed, SettingsChanged
from hames.domain.ids import ThreadId
from hames.domain.options import Settings
from hames.domain.state import ThreadState
from hames.domain.worktrees import Worktree, WorktreeList, WorktreeReport
from hames.ports import Worktrees

NOTICE = "worktree"
CLEAN_UP_SECONDS = 10.0


class ThreadWorktrees:
    """`find` is called when a worktree is first needed. None: there are none, because nothing runs on this machine."""

    def __init__(self, threads: Threads, find: Callable[[], Worktrees] | None) -> None:
        self._threads = threads
        self._find = find
        self._found_worktrees: Worktrees | None = None

    @property
    def _known(self) -> Worktrees:
        if self._find is None:
            raise InvalidCommand("there are no worktrees here: this engine runs no commands on this machine")
        if self._found_worktrees is None:
            self._found_worktrees = self._find()
        return self._found_worktrees

    async def open(self, command: CreateThread | ForkThread) -> ThreadState:
        """Creates or forks the thread of a command, in the worktree that it wants. Raises `InvalidCommand`."""
        settings = self._threads.rules.defaults
        if isinstance(command, ForkThread):
            settings = (await self._threads.read(command.thread_id)).settings
        settings = await overridden(settings, command.overrides, self._threads.models, self._threads.workspace)
        assert command.worktree is not None
        made = await self._known.add(settings.cwd, command.worktree, settings.sandbox)
        opening = replace(command, overrides=replace(command.overrides, cwd=made.cwd))
        try:
            threads = self._threads
            state = await (threads.create(opening) if isinstance(opening, CreateThread) else threads.fork(opening))
        except BaseException:
            with anyio.move_on_after(CLEAN_UP_SECONDS, shield=True):
                await self._known.remove_unused(made.worktree)
            raise
        await self._known.claim(made.worktree, state.id)
        tree = made.worktree
        about = {"name": tree.name, "branch": tree.branch, "path": tree.path, "base": tree.base}
        loaded = self._threads.loaded[state.id]
        loaded.notices.append(Noticed(source="hames", name=NOTICE, message=made.message, data=about))
        return state

    async def list(self, command: ListWorktrees) -> WorktreeList:
        if self._find is None:
            return WorktreeList(worktrees=())
        where = command.cwd or self._threads.rules.defaults.cwd
        return WorktreeList(worktrees=await self._known.list(None if command.everywhere else where))

    async def with_thread(self, command: FinishWorktree) -> FinishWorktree:
        """The command with the thread that works in the worktree: another process may write that one."""
        if command.thread_id is not None:
            return command
        tree = await self._known.find(command.name, workspace=command.cwd or self._threads.rules.defaults.cwd)
        return replace(command, thread_id=ThreadId(tree.thread_id)) if tree.thread_id else command

    async def finish(self, command: FinishWorktree) -> WorktreeReport:
        """Raises `TurnBusy`, `InvalidCommand`."""
        loaded = await self._opened(command)
        settings = loaded.thread.state.settings if loaded is not None else self._threads.rules.defaults
        tree = await self._found(command, settings if loaded is not None else None)
        if not command.preview:
            await self._quiet(tree, loaded)
        message = command.message or (loaded.thread.state.title if loaded is not None else "")
        report = await self._known.finish(
            tree,
            command.action,
            settings.sandbox,
            into=command.into,
            message=message,
            discard=command.discard,
            preview=command.preview,
        )
        if report.done and loaded is not None:
            await _tell(loaded, report, command)
        return report

    async def _opened(self, command: FinishWorktree) -> LoadedThread | None:
        if command.thread_id is None:
            return None
        try:
            return await self._threads.writable(command.thread_id)
        except ThreadNotFound:
            if not command.name:
                raise
            return None  # a worktree outlives its thread

    async def _found(self, command: FinishWorktree, settings: Settings | None) -> Worktree:
        if command.name:
            where = command.cwd or self._threads.rules.defaults.cwd
            return await self._known.find(command.name, workspace=where)
        if settings is None:
            raise InvalidCommand("name a worktree, or the thread that works in it")
        return await self._known.find("", workspace=None, path=settings.cwd)

    async def _quiet(self, tree: Worktree, loaded: LoadedThread | None) -> None:
        """Nothing may run in a worktree that is merged or deleted."""
        here = [one for one in self._threads.loaded.values() if _is_in(one, tree)]
        for one in {id(one): one for one in (*here, *([loaded] if loaded is not None else []))}.values():
            if one.busy:
                raise TurnBusy(f"thread {one.thread.id!r} runs a turn; wait for it, or interrupt it")
            if one.processes is not None:
                await one.processes.end_all()


def _is_in(loaded: LoadedThread, tree: Worktree) -> bool:
    cwd = loaded.thread.state.settings.cwd
    return cwd == tree.path or cwd.startswith(f"{tree.path}/")


async def _tell(loaded: LoadedThread, report: WorktreeReport, command: FinishWorktree) -> None:
    """The thread goes on where its worktree was made from, if that is gone."""
    state = loaded.thread.state
    if report.removed and _is_in(loaded, report.worktree):
        settings = replace(state.settings, cwd=report.worktree.workspace)
        await loaded.thread.emit(SettingsChanged(settings=settings, by=command.by))
    about = {"name": report.worktree.name, "action": report.action, "removed": report.removed}
    await loaded.thread.emit(Noticed(source="hames", name=NOTICE, message=report.message, data=about))
