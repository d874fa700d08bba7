"""The threads of an engine: created, loaded when they are needed, listed, forked, archived, unloaded."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress

import anyio
from msgspec.structs import replace

from hames.core.engine_rules import EngineRules
from hames.core.history import History, fork_point
from hames.core.loaded import LoadedThread, NotesOf
from hames.core.settings import overridden, with_host_questions
from hames.core.thread import CLOSE_SECONDS, Listener, Thread
from hames.domain import commands, errors
from hames.domain.endings import endings
from hames.domain.events import (
    REPAIRED,
    ApprovalResolved,
    Event,
    NotesRead,
    Noticed,
    Record,
    SettingsChanged,
    ThreadArchived,
    ThreadCreated,
    ThreadRenamed,
)
from hames.domain.foreign import disarmed
from hames.domain.grants import changed_servers, without_servers
from hames.domain.ids import ThreadId
from hames.domain.options import Overrides, Settings, ThreadServer, without_values
from hames.domain.processes import ProcessList
from hames.domain.project_notes import NoteFile, note_files
from hames.domain.state import ThreadState, apply, blank
from hames.ports import Checkpoints, Clock, Ids, Models, Notes, Store, Workspace

KEPT = 100
"""So many threads stay loaded, whatever they do."""
IDLE_SECONDS = 20.0
"""A thread that was used more recently may still be in use by a caller, and is not unloaded."""


class Threads:
    def __init__(
        self,
        *,
        store: Store,
        models: Models,
        workspace: Workspace,
        clock: Clock,
        ids: Ids,
        rules: EngineRules,
        agents: Collection[str] = (),
        notes: Notes | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """`agents` are the providers whose models have a loop of their own, and read notes of their own."""
        self.loaded: dict[ThreadId, LoadedThread] = {}
        self.observers: list[Listener] = []
        self.opened_for_writing: Callable[[Thread], Awaitable[None]] | None = None
        """Called with every thread that this process begins to write."""
        self.models = models
        self.workspace = workspace
        self.clock = clock
        self.rules = rules
        self.checkpoints = checkpoints
        self._store = store
        self._ids = ids
        self.agents = agents
        self.on_lost: Callable[[LoadedThread], None] = lambda _loaded: None
        """Called with a thread that another node has taken over, or may."""
        self.on_open: Callable[[LoadedThread], Awaitable[None]] | None = None
        """Called with every thread that was opened for writing, before anybody else sees it."""
        self._notes = notes
        self._opening = anyio.Lock()
        self._opening_each: dict[ThreadId, anyio.Lock] = {}
        self._ephemeral: set[ThreadId] = set()
        self._servers: dict[ThreadId, tuple[ThreadServer, ...]] = {}
        """The MCP servers that clients named, with the values of their environment and headers. In no file."""

    async def sweep(self) -> None:
        """Deletes the ephemeral threads that a killed process left."""
        await self._store.sweep()

    async def close(self) -> None:
        with anyio.move_on_after(CLOSE_SECONDS):
            for loaded in list(self.loaded.values()):
                if loaded.thread.failure is not None:  # what was told and not stored, if the disk takes it now
                    with suppress(errors.HarnessError):
                        await loaded.thread.write_unstored()
                await loaded.thread.close()
            for thread_id in self._ephemeral:
                with suppress(errors.HarnessError):
                    await self._store.delete(thread_id)
        await self._store.close()

    async def records(self, thread_id: ThreadId) -> list[Record]:
        """Every kept record, oldest first. Those of a foreign thread have nothing to obey in them."""
        if (loaded := self.loaded.get(thread_id)) is not None and (records := loaded.thread.in_memory):
            return records
        records, _ = await self._kept(thread_id)
        return records

    async def history(self, thread_id: ThreadId) -> History:
        records, foreign = await self._kept(thread_id)
        return History(blank(thread_id, foreign=foreign), records)

    async def _kept(self, thread_id: ThreadId) -> tuple[list[Record], bool]:
        """The records as they are on disk now, and whether they are of a foreign thread."""
        found = await self._store.examine(thread_id)
        if not found.foreign:
            return found.records, False
        return [disarmed(record, self.rules.defaults) for record in found.records], True

    async def create(self, command: commands.CreateThread) -> ThreadState:
        settings = await self._overridden(self.rules.defaults, command.overrides)
        first = ThreadCreated(
            settings=settings, title=command.title, meta=command.meta, ephemeral=command.ephemeral, by=command.by
        )
        thread = await self._new_thread([first], settings)
        self._keep_servers(thread.id, command.overrides)
        return thread.state

    def _keep_servers(self, thread_id: ThreadId, overrides: Overrides) -> None:
        if overrides.mcp_servers is not None:
            self._servers[thread_id] = overrides.mcp_servers

    def servers(self, thread_id: ThreadId, settings: Settings) -> tuple[ThreadServer, ...]:
        """The thread's own MCP servers, with their values as far as this process was told them."""
        known = {server.name: server for server in self._servers.get(thread_id, ())}
        return tuple(
            known[server.name] if server.name in known and without_values(known[server.name]) == server else server
            for server in settings.mcp_servers
        )

    async def _new_thread(
        self, events: list[Event], settings: Settings, shown: tuple[NoteFile, ...] = (), *, foreign: bool = False
    ) -> Thread:
        """`shown` are the project notes that the events speak of."""
        async with self._opening:
            await self._unload_idle()
        thread_id = ThreadId(self._ids.new("ses"))
        ephemeral = any(isinstance(event, ThreadCreated) and event.ephemeral for event in events[:1])
        opened = await self._store.create(thread_id, foreign=foreign, ephemeral=ephemeral)
        try:
            thread = Thread(opened, blank(thread_id, foreign=foreign), self.clock)
            thread.observers = self.observers
            loaded = self._load(thread)
            loaded.notes, read = await self.read_notes(settings, shown)
            await thread.emit(*events, *read)
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(errors.HarnessError):
                await opened.close()
                await self._store.delete(thread_id)
            raise
        if ephemeral:
            self._ephemeral.add(thread_id)
        if not self.rules.works:
            await thread.close()
            return thread
        self._touch(loaded)
        if self.opened_for_writing is not None:
            await self.opened_for_writing(thread)
        return thread

    async def read_notes(self, settings: Settings, shown: tuple[NoteFile, ...]) -> tuple[NotesOf | None, list[Event]]:
        """The project notes of the working directory, and an event if they are not the ones `shown`."""
        if self._notes is None or self.rules.system_prompt is not None:
            return None, []
        if self.rules.only_agent or settings.model.partition("/")[0] in self.agents:
            return None, []
        notes = await anyio.to_thread.run_sync(self._notes.read, settings.cwd)
        files = note_files(notes)
        return NotesOf(cwd=settings.cwd, notes=notes), [NotesRead(files=files)] if files != shown else []

    def _touch(self, loaded: LoadedThread) -> LoadedThread:
        """Marks a thread as used now: the least recently used are unloaded first."""
        loaded.used_at = self.clock.monotonic()
        self.loaded.pop(loaded.thread.id, None)
        self.loaded[loaded.thread.id] = loaded
        return loaded

    async def _unload_idle(self) -> None:
        """Unloads idle threads when many are loaded, to save memory and file descriptors."""
        idle_since = self.clock.monotonic() - IDLE_SECONDS
        for loaded in list(self.loaded.values()):
            if len(self.loaded) < KEPT or loaded.used_at > idle_since:
                return
            if loaded.can_unload and not loaded.thread.log.foreign:
                del self.loaded[loaded.thread.id]
                loaded.closed.set()
                await loaded.thread.close()

    async def page(self, command: commands.ListThreads) -> commands.ThreadPage:
        from hames.core.listing import list_threads

        page = await list_threads(command, self._load_page)
        return replace(page, threads=tuple(replace(one, standing=self._standing(one.id)) for one in page.threads))

    async def _load_page(self, command: commands.ListThreads) -> commands.ThreadPage:
        return await self._store.page(
            limit=command.limit, cursor=command.cursor, archived=command.archived, search=command.search
        )

    def _standing(self, thread_id: ThreadId) -> commands.Standing:
        loaded = self.loaded.get(thread_id)
        if loaded is None:
            return "away"
        return loaded.thread.state.standing

    async def read(self, thread_id: ThreadId) -> ThreadState:
        """Looking is only looking: nothing is written, nothing is locked, and a turn stays as it is in the log."""
        if loaded := self.loaded.get(thread_id):
            return self._touch(loaded).thread.told
        return await self.look(thread_id)

    async def look(self, thread_id: ThreadId) -> ThreadState:
        """The thread as its log says, whoever writes it. Nothing is opened for writing."""
        records, foreign = await self._kept(thread_id)
        state = blank(thread_id, foreign=foreign)
        for record in records:
            state = apply(state, record)
        if not state.format:
            raise errors.ThreadNotFound(f"thread {thread_id!r} cannot be opened: the start of its log is missing")
        return state

    async def running(self) -> list[ThreadId]:
        """The threads that may have a turn which a process left running."""
        return await self._store.running()

    async def unmark(self, thread_id: ThreadId) -> None:
        await self._store.unmark(thread_id)

    async def open(self, thread_id: ThreadId) -> LoadedThread:
        if loaded := self.loaded.get(thread_id):
            return self._touch(loaded)
        if not self.rules.works:
            raise errors.ThreadInUse(f"thread {thread_id!r} is left to other nodes: this one runs no turns")
        async with self._opening:
            if loaded := self.loaded.get(thread_id):
                return self._touch(loaded)
            await self._unload_idle()
        async with self._opening_only(thread_id):  # a long log does not keep others waiting for theirs
            if loaded := self.loaded.get(thread_id):
                return self._touch(loaded)
            opened = await self._store.open(thread_id)
            try:
                thread = await Thread.opened(opened, self.clock, self.rules.defaults)
                if not thread.state.format:
                    raise errors.ThreadNotFound(
                        f"thread {thread_id!r} cannot be opened: the start of its log is missing"
                    )
                thread.observers = self.observers
                if opened.repaired:
                    await thread.emit(Noticed(source="hames", name=REPAIRED, message=opened.repaired))
                if self.opened_for_writing is not None:
                    await self.opened_for_writing(thread)
                loaded = self._load(thread)
                if self.on_open is not None:
                    await self.on_open(loaded)
            except BaseException:
                await opened.close()
                raise
            return self._touch(loaded)

    @property
    def opening(self) -> list[ThreadId]:
        """Threads that are about to be loaded."""
        return list(self._opening_each)

    def _load(self, thread: Thread) -> LoadedThread:
        loaded = LoadedThread(thread)
        thread.on_lost = lambda: self.on_lost(loaded)
        return loaded

    @asynccontextmanager
    async def _opening_only(self, thread_id: ThreadId) -> AsyncGenerator[None]:
        lock = self._opening_each.setdefault(thread_id, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and not lock.statistics().tasks_waiting:
                self._opening_each.pop(thread_id, None)

    async def writable(self, thread_id: ThreadId) -> LoadedThread:
        loaded = await self.open(thread_id)
        if loaded.thread.failure is not None:
            with suppress(errors.StorageFailed):
                await loaded.thread.write_unstored()
        if loaded.thread.failure is not None:
            raise errors.ThreadReadOnly(f"thread {thread_id!r} cannot be written: {loaded.thread.failure}")
        return loaded

    async def resume(self, command: commands.ChangeSettings | commands.ResumeThread) -> ThreadState:
        loaded = await self.writable(command.thread_id)
        for event in await self.new_settings(loaded, command):
            await loaded.thread.emit(event)
        return loaded.thread.state

    async def new_settings(
        self, loaded: LoadedThread, command: commands.ChangeSettings | commands.ResumeThread | commands.StartTurn
    ) -> list[Event]:
        before = loaded.thread.state.settings
        after = await self._overridden(before, command.overrides)
        self._keep_servers(loaded.thread.id, command.overrides)
        return [SettingsChanged(settings=after, by=command.by)] if after != before else []

    async def _overridden(self, settings: Settings, overrides: Overrides) -> Settings:
        after = await overridden(settings, overrides, self.models, self.workspace)
        return with_host_questions(after, overrides) if self.rules.asks_about_hosts else after

    async def archive(self, command: commands.ArchiveThread) -> ThreadState:
        loaded = await self.writable(command.thread_id)
        if loaded.thread.state.archived != command.archived:
            await loaded.thread.emit(ThreadArchived(archived=command.archived, by=command.by))
        if command.archived and loaded.processes is not None:
            await loaded.processes.end_all()
        return loaded.thread.state

    async def processes(self, thread_id: ThreadId, *, end: int | None = None) -> ProcessList:
        """Raises `InvalidCommand` when there is none to end."""
        table = (await self.open(thread_id)).processes
        if end is not None and (table is None or not await table.end(end)):
            raise errors.InvalidCommand(f"thread {thread_id!r} runs no process {end}")
        return ProcessList(processes=table.statuses() if table is not None else ())

    async def rename(self, command: commands.RenameThread) -> ThreadState:
        loaded = await self.writable(command.thread_id)
        await loaded.thread.emit(ThreadRenamed(title=command.title, by=command.by))
        return loaded.thread.state

    async def delete(self, thread_id: ThreadId) -> None:
        loaded = await self.open(thread_id)
        if loaded.busy:
            raise errors.TurnBusy(f"thread {thread_id!r} runs a turn; interrupt it first")
        self.loaded.pop(thread_id)
        self._servers.pop(thread_id, None)
        loaded.closed.set()
        await loaded.thread.close()
        self._ephemeral.discard(thread_id)
        await self._store.delete(thread_id)

    async def fork(self, command: commands.ForkThread) -> ThreadState:
        """The same history under another name. What was open at that point is closed there.

        A fork of a foreign thread is foreign, at whatever record it begins.
        """
        await self.read(command.thread_id)
        records, foreign = await self._kept(command.thread_id)
        last = fork_point(records, command)
        kept = [record for record in records if record.seq <= last]
        if not kept:
            raise errors.InvalidCommand(f"thread {command.thread_id!r} has no record {last}")
        state = blank(command.thread_id, foreign=foreign)
        for record in kept:
            state = apply(state, record)
        settings = await self._overridden(self._forked_settings(state, command), command.overrides)
        first = ThreadCreated(
            settings=settings,
            title=state.title,
            forked_from=command.thread_id,
            meta=command.meta,
            ephemeral=command.ephemeral,
            by=command.by,
        )
        changed = changed_servers(state.settings, settings)
        rest = [_granting(record.event, changed, state) for record in kept if record.event.policy.forked]
        ends = endings(state, "the thread was forked while this turn ran")
        thread = await self._new_thread([first, *rest, *ends], settings, state.notes, foreign=foreign)
        self._servers[thread.id] = self._servers.get(command.thread_id, ())
        self._keep_servers(thread.id, command.overrides)
        return thread.state

    def _forked_settings(self, state: ThreadState, command: commands.ForkThread) -> Settings:
        """What the user chose for a foreign thread since it was opened is in no log that counts."""
        loaded = self.loaded.get(command.thread_id)
        if loaded is None or not state.foreign or (command.last_seq, command.last_turn_id) != (None, None):
            return state.settings
        return loaded.thread.state.settings if loaded.thread.state.foreign else state.settings


def _granting(event: Event, changed: frozenset[str], state: ThreadState) -> Event:
    """The event for a fork whose MCP servers of these names are others: nothing was allowed to them.

    What no longer holds in `state` does not hold in the fork either.
    """
    if not isinstance(event, ApprovalResolved) or event.grant is None:
        return event
    holds = event.grant in state.grants and without_servers((event.grant,), changed)
    return event if holds else replace(event, grant=None)
