"""The engine: one method per command, threads opened when they are needed, turns run side by side.

A turn belongs to the engine's task group and not to the client that asked for
it: clients come and go.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, assert_never

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from hames.core import compaction, inputs, lifecycle, review
from hames.core.agent import AgentTurnWork
from hames.core.approvals import Questions
from hames.core.broadcast import Watcher
from hames.core.context import Memory
from hames.core.instructions import effective, system_prompt
from hames.core.loop import run_turn
from hames.core.settings import overridden
from hames.core.thread import Listener, Thread
from hames.core.turn import TurnWork
from hames.domain.commands import (
    ArchiveThread,
    ChangeSettings,
    Command,
    CompactThread,
    CreateThread,
    DeleteThread,
    DropPrompt,
    ForkThread,
    InterruptTurn,
    ListThreads,
    ReadThread,
    RenameThread,
    ResolveApproval,
    ResumeThread,
    StartReview,
    StartTurn,
    SteerTurn,
    SubmitPrompt,
    ThreadPage,
)
from hames.domain.errors import (
    HarnessError,
    InvalidCommand,
    ProviderError,
    QueueFull,
    ThreadInUse,
    ThreadReadOnly,
    TurnBusy,
    TurnNotFound,
)
from hames.domain.events import (
    Event,
    ItemCompleted,
    ItemDelta,
    ItemStarted,
    Noticed,
    PromptQueued,
    PromptRemoved,
    QueueHeld,
    Record,
    SettingsChanged,
    ThreadArchived,
    ThreadCreated,
    ThreadRenamed,
    TurnKind,
    TurnStarted,
)
from hames.domain.ids import ItemId, PromptId, ThreadId, TurnId
from hames.domain.items import STREAMS, UserInput, UserMessage
from hames.domain.json import Json
from hames.domain.options import Settings
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn, apply, blank, endings
from hames.domain.value import Value
from hames.ports import Agent, Clock, Ids, Models, Place, Store, Tool, Tools, Trust

log = logging.getLogger(__name__)

QUEUE_LENGTH = 32
Outcome = ThreadState | ThreadPage | Turn | QueuedPrompt | None


class Rules(Value):
    """How this engine runs turns, beside what each thread says."""

    defaults: Settings
    max_steps: int = 200
    max_tokens: int = 0
    """Per reply; 0: what the model allows, within reason."""
    patience_s: float = 600.0
    """How long an approval waits when nobody who could answer is there."""
    system_prompt: str | None = None
    """Replaces our own instructions altogether."""


class Run:
    """A turn under way. It may still be tidying up when the next one starts."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.work: TurnWork | None = None
        self.over = anyio.Event()


class Live:
    """A loaded thread and what runs on it."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.claimed = False
        self.run: Run | None = None
        self.memory = Memory()
        self.tools: list[Tool] | None = None
        self.closed = anyio.Event()

    @property
    def busy(self) -> bool:
        """Free the moment watchers hear that the turn has ended: whoever hears it may start the next."""
        return self.claimed or self.thread.state.running is not None


class Engine:
    def __init__(
        self,
        *,
        store: Store,
        models: Models,
        tools: Tools,
        trust: Trust,
        clock: Clock,
        ids: Ids,
        rules: Rules,
        agents: Mapping[str, Agent] | None = None,
    ) -> None:
        """`agents` run the turns of threads whose model is theirs: by the provider's part of its name."""
        self.models = models
        self.agents = agents or {}
        self.rules = rules
        self.clock = clock
        self.observers: list[Listener] = []
        """Hear every change of every thread, at once: for metrics and traces."""
        self._store = store
        self._tools = tools
        self._trust = trust
        self._ids = ids
        self._questions = Questions(patience_s=rules.patience_s)
        self._live: dict[ThreadId, Live] = {}
        self._opening = anyio.Lock()
        self._tasks: TaskGroup | None = None
        self._closing = False

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Interrupts what runs, closes every log."""
        tasks, self._closing = self._tasks, True
        assert tasks is not None
        with anyio.CancelScope(shield=True):
            runs = [live.run for live in self._live.values() if live.run is not None]
            for run in runs:
                run.scope.cancel()
            with anyio.move_on_after(lifecycle.LAST_WORDS_SECONDS):
                for run in runs:
                    await run.over.wait()
            tasks.cancel_scope.cancel()
        try:
            # Without the error: the group would wrap it, and whoever left with it wants it as it was.
            await tasks.__aexit__(None, None, None)
        finally:
            with anyio.move_on_after(lifecycle.LAST_WORDS_SECONDS, shield=True):
                for live in self._live.values():
                    await live.thread.close()
                await self._store.close()

    def beside(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Something to do while threads run; it ends with the engine, and must not fail."""
        assert self._tasks is not None
        self._tasks.start_soon(work)

    async def execute(self, command: Command) -> Outcome:
        """Raises `HarnessError` and nothing else."""
        match command:
            case CreateThread():
                return await self._create(command)
            case ListThreads():
                return await self._list(command)
            case ReadThread(thread_id=thread_id):
                return await self._read(thread_id)
            case ResumeThread() | ChangeSettings():
                return await self._resume(command)
            case StartTurn():
                return await self._start_turn(command)
            case SubmitPrompt():
                return await self._submit(command)
            case DropPrompt():
                return await self._drop(command)
            case SteerTurn():
                return await self._steer(command)
            case InterruptTurn():
                return await self._interrupt(command)
            case ResolveApproval(approval_id=approval_id, decision=decision, note=note):
                return (await self._questions.resolve(approval_id, decision, note=note)).state
            case ForkThread():
                return await self._fork(command)
            case ArchiveThread():
                return await self._archive(command)
            case RenameThread():
                return await self._rename(command)
            case DeleteThread(thread_id=thread_id):
                return await self._delete(thread_id)
            case CompactThread(thread_id=thread_id):
                return await self._compact(thread_id)
            case StartReview():
                return await self._review(command)
            case _ as never:
                assert_never(never)

    async def watch(self, thread_id: ThreadId, *, after: int | None = None, answers: bool = True) -> Watcher:
        """A snapshot and everything after it; `after=n` begins behind record n."""
        live = await self._open(thread_id)
        watcher = live.thread.watch(answers=answers)
        if after is not None:
            watcher.precede(_past(await self._store.read(thread_id), after=after, until=watcher.state))
        return watcher

    def loaded(self, thread_id: ThreadId) -> ThreadState | None:
        """The thread as it stands if it is in memory. Nothing is opened for it."""
        live = self._live.get(thread_id)
        return live.thread.state if live is not None else None

    async def history(self, thread_id: ThreadId) -> list[Change]:
        """Every kept record, oldest first."""
        await self._read(thread_id)
        return _changes(thread_id, await self._store.read(thread_id))

    # -- threads

    async def _create(self, command: CreateThread) -> ThreadState:
        settings = overridden(self.rules.defaults, command.overrides, self.models)
        thread = await self._new_thread([ThreadCreated(settings=settings, title=command.title)])
        return thread.state

    async def _new_thread(self, events: list[Event]) -> Thread:
        thread_id = ThreadId(self._ids.new("ses"))
        opened = await self._store.create(thread_id)
        thread = Thread(opened, blank(thread_id), self.clock)
        thread.observers = self.observers
        await thread.emit(*events)
        self._live[thread_id] = Live(thread)
        return thread

    async def _list(self, command: ListThreads) -> ThreadPage:
        return await self._store.page(
            limit=command.limit, cursor=command.cursor, archived=command.archived, search=command.search
        )

    async def _read(self, thread_id: ThreadId) -> ThreadState:
        """Opening it closes what a dead process left open; where another process writes it, we only look."""
        try:
            return (await self._open(thread_id)).thread.state
        except (ThreadInUse, ThreadReadOnly):
            state = blank(thread_id)
            for record in await self._store.read(thread_id):
                state = apply(state, record)
            return state

    async def _open(self, thread_id: ThreadId) -> Live:
        if live := self._live.get(thread_id):
            return live
        async with self._opening:
            if live := self._live.get(thread_id):
                return live
            opened = await self._store.open(thread_id)
            try:
                thread = await Thread.opened(opened, self.clock)
                thread.observers = self.observers
                if opened.foreign:
                    await self._distrust(thread)
                if opened.repaired:
                    await thread.emit(Noticed(source="hames", name="log_repaired", message=opened.repaired))
            except BaseException:
                await opened.close()
                raise
            live = self._live[thread_id] = Live(thread)
            return live

    async def _distrust(self, thread: Thread) -> None:
        """A log that came with somebody's repository may tell a story; it may not set the rules."""
        if thread.state.settings != self.rules.defaults:
            await thread.emit(SettingsChanged(settings=self.rules.defaults))
        thread.state = replace(thread.state, grants=())

    async def _writable(self, thread_id: ThreadId) -> Live:
        live = await self._open(thread_id)
        if live.thread.failure is not None:
            raise ThreadReadOnly(f"thread {thread_id!r} cannot be written: {live.thread.failure}")
        return live

    async def _resume(self, command: ChangeSettings | ResumeThread) -> ThreadState:
        live = await self._writable(command.thread_id)
        for event in self._new_settings(live, command):
            await live.thread.emit(event)
        return live.thread.state

    def _new_settings(self, live: Live, command: ChangeSettings | ResumeThread | StartTurn) -> list[Event]:
        before = live.thread.state.settings
        after = overridden(before, command.overrides, self.models)
        return [SettingsChanged(settings=after)] if after != before else []

    async def _archive(self, command: ArchiveThread) -> ThreadState:
        live = await self._writable(command.thread_id)
        if live.thread.state.archived != command.archived:
            await live.thread.emit(ThreadArchived(archived=command.archived))
        return live.thread.state

    async def _rename(self, command: RenameThread) -> ThreadState:
        live = await self._writable(command.thread_id)
        await live.thread.emit(ThreadRenamed(title=command.title))
        return live.thread.state

    async def _delete(self, thread_id: ThreadId) -> None:
        live = await self._open(thread_id)
        if live.busy:
            raise TurnBusy(f"thread {thread_id!r} runs a turn; interrupt it first")
        self._live.pop(thread_id)
        live.closed.set()
        await live.thread.close()
        await self._store.delete(thread_id)

    async def _fork(self, command: ForkThread) -> ThreadState:
        """The same history under another name. What was open at that point is closed there."""
        await self._read(command.thread_id)
        records = await self._store.read(command.thread_id)
        last = _fork_point(records, command)
        kept = [record for record in records if record.seq <= last]
        if not kept:
            raise InvalidCommand(f"thread {command.thread_id!r} has no record {last}")
        state = blank(command.thread_id)
        for record in kept:
            state = apply(state, record)
        settings = overridden(state.settings, command.overrides, self.models)
        first = ThreadCreated(settings=settings, title=state.title, forked_from=command.thread_id)
        rest = [record.event for record in kept if not isinstance(record.event, ThreadCreated | SettingsChanged)]
        thread = await self._new_thread([first, *rest, *endings(state, "the thread was forked while this turn ran")])
        return thread.state

    # -- turns

    async def _start_turn(self, command: StartTurn) -> Turn:
        live = await self._writable(command.thread_id)
        with self._claim(live):
            changed = self._new_settings(live, command)
            settings = changed[0].settings if changed and isinstance(changed[0], SettingsChanged) else None
            cwd = (settings or live.thread.state.settings).cwd
            message = await self._message(command.content, 0, cwd, command.client_id, command.meta)
            return await self._begin(live, "prompt", run_turn, message=message, before=changed, meta=command.meta)

    @contextmanager
    def _claim(self, live: Live) -> Generator[None]:
        """No await between looking and taking: two at once cannot both win."""
        if live.busy:
            raise TurnBusy(f"thread {live.thread.id!r} already runs a turn")
        if self._closing:
            raise HarnessError("the harness is stopping")
        live.claimed = True
        try:
            yield
        finally:
            live.claimed = False

    async def _message(
        self, content: tuple[UserInput, ...], step: int, cwd: str, client_id: str | None, meta: Json
    ) -> UserMessage:
        if not content:
            raise InvalidCommand("the input is empty")
        return await inputs.user_message(
            content, item_id=ItemId(self._ids.new("item")), step=step, cwd=cwd, client_id=client_id, meta=meta
        )

    async def _begin(
        self,
        live: Live,
        kind: TurnKind,
        work: Callable[[TurnWork], Awaitable[str]],
        *,
        message: UserMessage | None,
        before: Sequence[Event] = (),
        meta: Json = None,
    ) -> Turn:
        """Keep that it has started, then let it run. Only whoever claimed the thread may."""
        turn_id = TurnId(self._ids.new("turn"))
        said: list[Event] = []
        if message is not None:
            said = [ItemStarted(turn_id=turn_id, item=message), ItemCompleted(turn_id=turn_id, item=message)]
        assert self._tasks is not None
        live.run = run = Run()
        with anyio.CancelScope(shield=True):  # a turn that is in the log runs, even if whoever asked has gone
            await live.thread.emit(*before, TurnStarted(turn_id=turn_id, kind=kind, meta=meta), *said)
            self._tasks.start_soon(self._turn, live, run, turn_id, work)
        return live.thread.state.turns[-1]

    async def _turn(self, live: Live, run: Run, turn_id: TurnId, work: Callable[[TurnWork], Awaitable[str]]) -> None:
        async def whole() -> str:
            if work is run_turn and (found := self._agent(live)) is not None:
                agent, model = found
                return await agent.run(
                    AgentTurnWork(live.thread, turn_id, model=model, questions=self._questions, ids=self._ids)
                )
            run.work = await self._prepare(live, turn_id)
            return await work(run.work)

        try:
            await lifecycle.live(live.thread, turn_id, run.scope, whole)
        finally:
            run.over.set()
            if live.run is run:
                live.run = None
        await self._next(live)

    def _agent(self, live: Live) -> tuple[Agent, str] | None:
        """Who runs this thread's turns, if not our own loop."""
        if not self.agents:
            return None
        card = self.models.find(live.thread.state.settings.model)
        agent = self.agents.get(card.provider)
        return (agent, card.id) if agent is not None else None

    async def _prepare(self, live: Live, turn_id: TurnId) -> TurnWork:
        thread = live.thread
        settings = effective(thread.state.settings)
        card = self.models.find(settings.model)
        place = Place(
            thread_id=thread.id,
            turn_id=turn_id,
            workspace=settings.cwd,
            cwd=settings.cwd,
            sandbox=settings.sandbox,
        )
        offered = live.tools
        if offered is None:
            assert self._tasks is not None
            offered = live.tools = list(await self._tasks.start(self._hold_tools, live, place))
        reads_only = settings.agent != "code"
        tools = {tool.spec.name: tool for tool in offered if not (reads_only and tool.spec.writes)}
        system = self.rules.system_prompt if self.rules.system_prompt is not None else system_prompt(settings)
        return TurnWork(
            thread=thread,
            turn_id=turn_id,
            settings=settings,
            card=card,
            provider=self.models.provider(card),
            tools=tools,
            place=place,
            system=system,
            trust=self._trust,
            questions=self._questions,
            clock=self.clock,
            ids=self._ids,
            memory=live.memory,
            max_steps=settings.max_steps or self.rules.max_steps,
            max_tokens=settings.max_tokens or self.rules.max_tokens or card.max_output,
        )

    async def _hold_tools(self, live: Live, place: Place, *, task_status: TaskStatus[list[Tool]]) -> None:
        """A task of their own: what a tool opens must be closed by whoever opened it, when the thread goes."""
        async with self._tools.open(place) as tools:
            task_status.started(list(tools))
            await live.closed.wait()

    async def _interrupt(self, command: InterruptTurn) -> ThreadState:
        live = await self._open(command.thread_id)
        running = live.thread.state.running
        if running is None or (command.turn_id is not None and running.id != command.turn_id):
            raise TurnNotFound(
                f"turn {command.turn_id!r} is not running" if command.turn_id else "no turn is running on this thread"
            )
        if live.run is not None:
            live.run.scope.cancel()
        return live.thread.state

    async def _steer(self, command: SteerTurn) -> ThreadState:
        live = await self._writable(command.thread_id)
        running = live.thread.state.running
        if running is None or (command.turn_id is not None and running.id != command.turn_id):
            raise TurnNotFound("no such turn is running on this thread")
        if command.client_id is not None and _already(live.thread.state, command.client_id) is not None:
            return live.thread.state
        cwd = live.thread.state.settings.cwd
        message = await self._message(command.content, 0, cwd, command.client_id, None)
        now = live.thread.state.running
        if now is None or now.id != running.id:
            raise TurnNotFound("the turn has just ended")
        step = live.run.work.step if live.run is not None and live.run.work is not None else 0
        message = replace(message, step=step)
        await live.thread.emit(
            ItemStarted(turn_id=running.id, item=message), ItemCompleted(turn_id=running.id, item=message)
        )
        return live.thread.state

    async def _compact(self, thread_id: ThreadId) -> Turn:
        async def work(work: TurnWork) -> str:
            if not await compaction.compact(work):
                raise ProviderError("the conversation could not be summarised; it stays as it is")
            return "compacted"

        return await self._special(thread_id, "compact", work, None)

    async def _review(self, command: StartReview) -> Turn:
        live = await self._open(command.thread_id)
        message = await self._message(review.prompt(command.target), 0, live.thread.state.settings.cwd, None, None)

        async def work(work: TurnWork) -> str:
            assert live.run is not None
            live.run.work = review.reading(work)
            return await run_turn(live.run.work)

        return await self._special(command.thread_id, "review", work, message)

    async def _special(
        self,
        thread_id: ThreadId,
        kind: TurnKind,
        work: Callable[[TurnWork], Awaitable[str]],
        message: UserMessage | None,
    ) -> Turn:
        live = await self._writable(thread_id)
        with self._claim(live):
            return await self._begin(live, kind, work, message=message)

    # -- the queue

    async def _submit(self, command: SubmitPrompt) -> Turn | QueuedPrompt:
        live = await self._writable(command.thread_id)
        state = live.thread.state
        if command.client_id is not None and (known := _already(state, command.client_id)) is not None:
            return known
        if not live.busy and not state.queue:
            return await self._start_turn(
                StartTurn(
                    thread_id=command.thread_id,
                    content=command.content,
                    client_id=command.client_id,
                    meta=command.meta,
                )
            )
        if len(state.queue) >= QUEUE_LENGTH:
            raise QueueFull(f"{QUEUE_LENGTH} prompts wait already; remove one, or wait")
        if not command.content:
            raise InvalidCommand("the input is empty")
        prompt_id = PromptId(command.client_id or self._ids.new("prompt"))
        rearmed = [QueueHeld(held=False)] if state.queue_held else []
        await live.thread.emit(*rearmed, PromptQueued(prompt_id=prompt_id, content=command.content, meta=command.meta))
        queued = live.thread.state.queue[-1]
        await self._next(live)
        return queued

    async def _next(self, live: Live) -> None:
        """Start what waits, if nothing holds it."""
        state = live.thread.state
        if live.busy or not state.queue or state.queue_held or self._closing or live.thread.failure is not None:
            return
        prompt = state.queue[0]
        with self._claim(live):
            removed = PromptRemoved(prompt_id=prompt.id)
            try:
                message = await self._message(prompt.content, 0, state.settings.cwd, prompt.id, prompt.meta)
            except InvalidCommand as problem:  # a file it points at has gone since
                why = f"a queued prompt was dropped: {problem}"
                await live.thread.emit(removed, Noticed(source="hames", name="prompt_dropped", message=why))
                return
            await self._begin(live, "prompt", run_turn, message=message, before=[removed], meta=prompt.meta)

    async def _drop(self, command: DropPrompt) -> ThreadState:
        live = await self._writable(command.thread_id)
        if any(prompt.id == command.prompt_id for prompt in live.thread.state.queue):
            await live.thread.emit(PromptRemoved(prompt_id=command.prompt_id))
        return live.thread.state


def _changes(thread_id: ThreadId, records: list[Record]) -> list[Change]:
    changes: list[Change] = []
    state = blank(thread_id)
    for record in records:
        before, state = state, apply(state, record)
        changes.append(Change(record=record, before=before, after=state))
    return changes


def _fork_point(records: list[Record], command: ForkThread) -> int:
    if command.last_turn_id is None:
        return records[-1].seq if command.last_seq is None else command.last_seq
    turn = [record.seq for record in records if getattr(record.event, "turn_id", None) == command.last_turn_id]
    if not turn:
        raise InvalidCommand(f"thread {command.thread_id!r} has no turn {command.last_turn_id!r}")
    return turn[-1]


def _past(records: list[Record], *, after: int, until: ThreadState) -> list[Change]:
    """What a late watcher missed, up to its snapshot and not a letter further.

    The last record may be a bundle that has grown since, or has not been written yet.
    """
    whole = [record for record in records if record.seq <= until.seq]
    if whole and isinstance(whole[-1].event, ItemDelta) and whole[-1].seq == until.seq:
        whole.pop()
    changes = _changes(until.id, whole)
    before = changes[-1].after if changes else blank(until.id)
    if before.seq < until.seq and (rest := _rest(before, until)) is not None:
        at = Record(seq=until.seq, at_ms=until.updated_at_ms, thread_id=until.id, event=rest)
        changes.append(Change(record=at, before=before, after=until))
    return [change for change in changes if change.record.seq > after]


def _rest(before: ThreadState, after: ThreadState) -> ItemDelta | None:
    """The one stream that grew."""
    turn = after.running
    for item in reversed(turn.items if turn else ()):
        known = before.item(item.id)
        for stream in STREAMS[type(item)]:
            there: str = getattr(item, stream)
            here: str = getattr(known, stream) if known is not None else ""
            if turn is not None and len(there) > len(here):
                return ItemDelta(turn_id=turn.id, item_id=item.id, stream=stream, text=there[len(here) :])
    return None


def _already(state: ThreadState, client_id: str) -> Turn | QueuedPrompt | None:
    """A submit that is sent again after a broken connection must not run again."""
    for prompt in state.queue:
        if prompt.id == client_id:
            return prompt
    for turn in reversed(state.turns):
        if any(isinstance(item, UserMessage) and item.client_id == client_id for item in turn.items):
            return turn
    return None
