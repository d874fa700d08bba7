"""The threads of an engine: made, opened when they are needed, listed, forked, put away."""

from collections.abc import Collection

import anyio
from msgspec.structs import replace

from hames.core.history import History, fork_point
from hames.core.live import Live, NotesOf
from hames.core.rules import Rules
from hames.core.settings import overridden
from hames.core.thread import Listener, Thread
from hames.domain.commands import (
    ArchiveThread,
    ChangeSettings,
    CreateThread,
    ForkThread,
    ListThreads,
    RenameThread,
    ResumeThread,
    Standing,
    StartTurn,
    ThreadPage,
)
from hames.domain.errors import InvalidCommand, ThreadInUse, ThreadNotFound, ThreadReadOnly, TurnBusy
from hames.domain.events import (
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
from hames.domain.ids import ThreadId
from hames.domain.notes import NoteFile, note_files
from hames.domain.options import Settings
from hames.domain.state import ThreadState, apply, blank, endings
from hames.ports import Clock, Ids, Models, Notes, Store

KEPT = 100
"""So many threads stay loaded, whatever they do."""
IDLE_SECONDS = 20.0
"""Whoever holds a thread in his hands is done with it by then."""


class Threads:
    def __init__(
        self,
        *,
        store: Store,
        models: Models,
        clock: Clock,
        ids: Ids,
        rules: Rules,
        agents: Collection[str] = (),
        notes: Notes | None = None,
    ) -> None:
        """`agents` are the providers whose models have a loop of their own, and read notes of their own."""
        self.live: dict[ThreadId, Live] = {}
        self.observers: list[Listener] = []
        self.models = models
        self.clock = clock
        self.rules = rules
        self._store = store
        self._ids = ids
        self._agents = agents
        self._notes = notes
        self._opening = anyio.Lock()

    async def close(self) -> None:
        for live in list(self.live.values()):
            await live.thread.close()
        await self._store.close()

    async def records(self, thread_id: ThreadId) -> list[Record]:
        """Every kept record, oldest first. Those of a foreign thread have nothing to obey in them."""
        records, _ = await self._kept(thread_id)
        return records

    async def history(self, thread_id: ThreadId) -> History:
        await self.read(thread_id)
        records, foreign = await self._kept(thread_id)
        return History(blank(thread_id, foreign=foreign), records)

    async def _kept(self, thread_id: ThreadId) -> tuple[list[Record], bool]:
        """The records as they are on disk now, and whether they are of a foreign thread."""
        found = await self._store.examine(thread_id)
        if not found.foreign:
            return found.records, False
        return [disarmed(record, self.rules.defaults) for record in found.records], True

    async def create(self, command: CreateThread) -> ThreadState:
        settings = overridden(self.rules.defaults, command.overrides, self.models)
        first = ThreadCreated(settings=settings, title=command.title, meta=command.meta)
        return (await self._new_thread([first], settings)).state

    async def _new_thread(
        self, events: list[Event], settings: Settings, shown: tuple[NoteFile, ...] = (), *, foreign: bool = False
    ) -> Thread:
        """`shown` are the project notes that the events speak of."""
        async with self._opening:
            await self._make_room()
        thread_id = ThreadId(self._ids.new("ses"))
        opened = await self._store.create(thread_id, foreign=foreign)
        thread = Thread(opened, blank(thread_id, foreign=foreign), self.clock)
        thread.observers = self.observers
        live = Live(thread)
        live.notes, read = await self.read_notes(settings, shown)
        await thread.emit(*events, *read)
        self._loaded(live)
        return thread

    async def read_notes(self, settings: Settings, shown: tuple[NoteFile, ...]) -> tuple[NotesOf | None, list[Event]]:
        """The project notes of the working directory, and an event if they are not the ones `shown`."""
        if self._notes is None or self.rules.system_prompt is not None:
            return None, []
        if self._agents and self.models.find(settings.model).provider in self._agents:
            return None, []
        notes = await anyio.to_thread.run_sync(self._notes.read, settings.cwd)
        files = note_files(notes)
        return NotesOf(cwd=settings.cwd, notes=notes), [NotesRead(files=files)] if files != shown else []

    def _loaded(self, live: Live) -> Live:
        """The one used last is the last to go."""
        live.used_at = self.clock.monotonic()
        self.live.pop(live.thread.id, None)
        self.live[live.thread.id] = live
        return live

    async def _make_room(self) -> None:
        """Memory and descriptors are few: of many threads, those that rest go back to the disk."""
        idle_since = self.clock.monotonic() - IDLE_SECONDS
        for live in list(self.live.values()):
            if len(self.live) < KEPT or live.used_at > idle_since:
                return
            if live.resting and not live.thread.log.foreign:
                del self.live[live.thread.id]
                live.closed.set()
                await live.thread.close()

    async def page(self, command: ListThreads) -> ThreadPage:
        page = await self._store.page(
            limit=command.limit, cursor=command.cursor, archived=command.archived, search=command.search
        )
        return replace(page, threads=tuple(replace(one, standing=self._standing(one.id)) for one in page.threads))

    def _standing(self, thread_id: ThreadId) -> Standing:
        live = self.live.get(thread_id)
        if live is None:
            return "away"
        return live.thread.state.standing

    async def read(self, thread_id: ThreadId) -> ThreadState:
        """Opening it closes what a dead process left open; where another process writes it, we only look."""
        try:
            return (await self.open(thread_id)).thread.state
        except (ThreadInUse, ThreadReadOnly):
            records, foreign = await self._kept(thread_id)
            state = blank(thread_id, foreign=foreign)
            for record in records:
                state = apply(state, record)
            return state

    async def open(self, thread_id: ThreadId) -> Live:
        if live := self.live.get(thread_id):
            return self._loaded(live)
        async with self._opening:
            if live := self.live.get(thread_id):
                return self._loaded(live)
            await self._make_room()
            opened = await self._store.open(thread_id)
            try:
                thread = await Thread.opened(opened, self.clock, self.rules.defaults)
                if not thread.state.format:
                    raise ThreadNotFound(f"no thread {thread_id!r}: its log does not say how it began")
                thread.observers = self.observers
                if opened.repaired:
                    await thread.emit(Noticed(source="hames", name="log_repaired", message=opened.repaired))
            except BaseException:
                await opened.close()
                raise
            return self._loaded(Live(thread))

    async def writable(self, thread_id: ThreadId) -> Live:
        live = await self.open(thread_id)
        if live.thread.failure is not None:
            raise ThreadReadOnly(f"thread {thread_id!r} cannot be written: {live.thread.failure}")
        return live

    async def resume(self, command: ChangeSettings | ResumeThread) -> ThreadState:
        live = await self.writable(command.thread_id)
        for event in self.new_settings(live, command):
            await live.thread.emit(event)
        return live.thread.state

    def new_settings(self, live: Live, command: ChangeSettings | ResumeThread | StartTurn) -> list[Event]:
        before = live.thread.state.settings
        after = overridden(before, command.overrides, self.models)
        return [SettingsChanged(settings=after)] if after != before else []

    async def archive(self, command: ArchiveThread) -> ThreadState:
        live = await self.writable(command.thread_id)
        if live.thread.state.archived != command.archived:
            await live.thread.emit(ThreadArchived(archived=command.archived))
        return live.thread.state

    async def rename(self, command: RenameThread) -> ThreadState:
        live = await self.writable(command.thread_id)
        await live.thread.emit(ThreadRenamed(title=command.title))
        return live.thread.state

    async def delete(self, thread_id: ThreadId) -> None:
        live = await self.open(thread_id)
        if live.busy:
            raise TurnBusy(f"thread {thread_id!r} runs a turn; interrupt it first")
        self.live.pop(thread_id)
        live.closed.set()
        await live.thread.close()
        await self._store.delete(thread_id)

    async def fork(self, command: ForkThread) -> ThreadState:
        """The same history under another name. What was open at that point is closed there.

        A fork of a foreign thread is foreign, at whatever record it begins.
        """
        await self.read(command.thread_id)
        records, foreign = await self._kept(command.thread_id)
        last = fork_point(records, command)
        kept = [record for record in records if record.seq <= last]
        if not kept:
            raise InvalidCommand(f"thread {command.thread_id!r} has no record {last}")
        state = blank(command.thread_id, foreign=foreign)
        for record in kept:
            state = apply(state, record)
        settings = overridden(self._forked_settings(state, command), command.overrides, self.models)
        first = ThreadCreated(settings=settings, title=state.title, forked_from=command.thread_id, meta=command.meta)
        rest = [record.event for record in kept if not isinstance(record.event, ThreadCreated | SettingsChanged)]
        ends = endings(state, "the thread was forked while this turn ran")
        return (await self._new_thread([first, *rest, *ends], settings, state.notes, foreign=foreign)).state

    def _forked_settings(self, state: ThreadState, command: ForkThread) -> Settings:
        """What the user chose for a foreign thread since it was opened is in no log that counts."""
        live = self.live.get(command.thread_id)
        if live is None or not state.foreign or (command.last_seq, command.last_turn_id) != (None, None):
            return state.settings
        return live.thread.state.settings if live.thread.state.foreign else state.settings
