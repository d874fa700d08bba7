"""The turns of an engine: started, steered, interrupted, and queued one behind the other.

A turn belongs to the engine's task group and not to the client that asked for it: clients come and go.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from hames.core import attachments, compaction, lifecycle, review
from hames.core.agent import AgentTurnWork
from hames.core.history import already
from hames.core.live import Live, Run
from hames.core.loop import run_turn
from hames.core.prompts import effective, system_prompt
from hames.core.questions import Questions
from hames.core.thread import STOPPED
from hames.core.threads import Threads
from hames.core.turn import TurnWork
from hames.domain.commands import (
    DropPrompt,
    InterruptTurn,
    StartReview,
    StartTurn,
    SteerTurn,
    SubmitPrompt,
)
from hames.domain.errors import (
    HarnessError,
    InvalidCommand,
    ProviderError,
    QueueFull,
    TurnBusy,
    TurnNotFound,
)
from hames.domain.events import (
    Event,
    ItemCompleted,
    ItemStarted,
    Noticed,
    PromptQueued,
    PromptRemoved,
    QueueHeld,
    SettingsChanged,
    TurnKind,
    TurnStarted,
)
from hames.domain.ids import ItemId, PromptId, ThreadId, TurnId
from hames.domain.items import UserInput, UserMessage
from hames.domain.json import NOTHING, Json
from hames.domain.models import ModelCard
from hames.domain.notes import Note, complaint
from hames.domain.options import Settings
from hames.domain.servers import ServerList, ServerStatus, notice
from hames.domain.state import QueuedPrompt, ThreadState, Turn
from hames.ports import Agent, Ids, Place, Tool, Tools, Trust

log = logging.getLogger(__name__)

QUEUE_LENGTH = 32


class Turns:
    """`agents` run the turns of threads whose model is theirs: by the provider's part of its name."""

    def __init__(self, threads: Threads, *, tools: Tools, trust: Trust, ids: Ids, agents: Mapping[str, Agent]) -> None:
        self.tasks: TaskGroup | None = None
        self.closing = False
        self.questions = Questions(patience_s=threads.rules.patience_s)
        self._threads = threads
        self._tools = tools
        self._trust = trust
        self._ids = ids
        self._agents = agents

    async def stop(self) -> None:
        """Interrupts what runs, and waits for the last words."""
        self.closing = True
        runs = [live.run for live in self._threads.live.values() if live.run is not None]
        for run in runs:
            run.ending = STOPPED
            run.scope.cancel()
        with anyio.move_on_after(lifecycle.LAST_WORDS_SECONDS):
            for run in runs:
                await run.over.wait()

    async def start(self, command: StartTurn) -> Turn:
        live = await self._threads.writable(command.thread_id)
        with self._claim(live):
            changed = self._threads.new_settings(live, command)
            settings = changed[0].settings if changed and isinstance(changed[0], SettingsChanged) else None
            cwd = (settings or live.thread.state.settings).cwd
            message = await self._message(command.content, 0, cwd, command.client_id, command.meta)
            return await self._begin(live, "prompt", run_turn, message=message, before=changed, meta=command.meta)

    @contextmanager
    def _claim(self, live: Live) -> Generator[None]:
        """No await between looking and taking: two at once cannot both win."""
        if live.busy:
            raise TurnBusy(f"thread {live.thread.id!r} already runs a turn")
        if self.closing:
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
        return await attachments.user_message(
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
        meta: Json = NOTHING,
    ) -> Turn:
        """Keep that it has started, then let it run. Only whoever claimed the thread may."""
        turn_id = TurnId(self._ids.new("turn"))
        said: list[Event] = []
        if message is not None:
            said = [ItemStarted(turn_id=turn_id, item=message), ItemCompleted(turn_id=turn_id, item=message)]
        assert self.tasks is not None
        live.run = run = Run()
        with anyio.CancelScope(shield=True):  # a turn that is in the log runs, even if whoever asked has gone
            await live.thread.emit(*before, TurnStarted(turn_id=turn_id, kind=kind, meta=meta), *said)
            self.tasks.start_soon(self._turn, live, run, turn_id, work)
        return live.thread.state.turns[-1]

    async def _turn(self, live: Live, run: Run, turn_id: TurnId, work: Callable[[TurnWork], Awaitable[str]]) -> None:
        async def whole() -> str:
            await self._warn(live, turn_id)
            if work is run_turn and (found := self._agent(live)) is not None:
                agent, model = found
                return await agent.run(
                    AgentTurnWork(live.thread, turn_id, model=model, questions=self.questions, ids=self._ids)
                )
            run.work = await self._prepare(live, turn_id)
            return await work(run.work)

        try:
            await lifecycle.live(live.thread, turn_id, run, whole)
        finally:
            run.over.set()
            if live.run is run:
                live.run = None
        await self._next(live)

    async def _warn(self, live: Live, turn_id: TurnId) -> None:
        """Says what is wrong with the configuration, once for each thread that is opened."""
        warnings = () if live.warned else self._threads.rules.warnings
        live.warned = True
        if warnings:
            await live.thread.emit(*(_warning("config", words, turn_id) for words in warnings))

    async def _notes_of(self, live: Live, settings: Settings, turn_id: TurnId) -> tuple[Note, ...]:
        """The project notes of this thread. They are read once for each working directory while it is loaded."""
        events: list[Event] = []
        if live.notes is None or live.notes.cwd != settings.cwd:
            live.notes, events = await self._threads.read_notes(settings, live.thread.state.notes)
        if live.notes is None:
            return ()
        if live.notes is not live.notes_told:
            live.notes_told = live.notes
            problems = [words for note in live.notes.notes if (words := complaint(note))]
            events += [_warning("notes", words, turn_id) for words in problems]
        if events:
            await live.thread.emit(*events)
        return live.notes.notes

    def _agent(self, live: Live) -> tuple[Agent, str] | None:
        """Who runs this thread's turns, if not our own loop."""
        if not self._agents:
            return None
        card = self._threads.models.find(live.thread.state.settings.model)
        agent = self._agents.get(card.provider)
        return (agent, card.id) if agent is not None else None

    async def _prepare(self, live: Live, turn_id: TurnId) -> TurnWork:
        thread = live.thread
        settings = effective(thread.state.settings)
        card = self._threads.models.find(settings.model)
        place = _place(thread.id, turn_id, settings)
        offered = await self._tools_of(live, place)
        reads_only = settings.agent != "code"
        native = _native(card, settings)
        tools = {
            tool.spec.name: tool
            for tool in offered
            if not (reads_only and tool.spec.writes) and tool.spec.name not in native
        }
        rules = self._threads.rules
        notes = await self._notes_of(live, settings, turn_id)
        system = rules.system_prompt if rules.system_prompt is not None else system_prompt(settings, notes)
        return TurnWork(
            thread=thread,
            turn_id=turn_id,
            settings=settings,
            card=card,
            provider=self._threads.models.provider(card),
            tools=tools,
            place=place,
            system=system,
            trust=self._trust,
            questions=self.questions,
            clock=self._threads.clock,
            ids=self._ids,
            memory=live.memory,
            max_steps=settings.max_steps or rules.max_steps,
            max_tokens=settings.max_tokens or rules.max_tokens or card.max_output,
            notes=notes,
        )

    async def _tools_of(self, live: Live, place: Place) -> list[Tool]:
        """The thread's tools, opened if they are not yet."""
        async with live.opening:
            if live.tools is None:
                assert self.tasks is not None
                opened: list[Tool] = await self.tasks.start(self._hold_tools, live, place)
                live.tools = opened
            return live.tools

    async def _hold_tools(self, live: Live, place: Place, *, task_status: TaskStatus[list[Tool]]) -> None:
        """A task of their own: what a tool opens must be closed by whoever opened it, when the thread goes."""
        async with self._tools.open(place, lambda status: self._hear_server(live, status)) as tools:
            task_status.started(list(tools))
            await live.closed.wait()

    async def _hear_server(self, live: Live, status: ServerStatus) -> None:
        """Remembers how a server is doing, and says what people should know of it."""
        before = live.servers.get(status.name)
        live.servers[status.name] = status
        running = live.thread.state.running
        told = notice(before, status, running.id if running is not None else None)
        if told is not None and not live.closed.is_set():
            try:
                await live.thread.emit(told)
            except HarnessError:  # the disk failed: whoever runs the turn hears that soon enough
                log.exception("notice.unkept", extra={"thread_id": live.thread.id, "server": status.name})

    async def servers(self, thread_id: ThreadId | None) -> ServerList:
        """How each configured server is doing. Of a thread that has not run yet they begin to start."""
        names = self._threads.rules.mcp_servers
        known: dict[str, ServerStatus] = {}
        if thread_id is not None and names:
            live = await self._threads.open(thread_id)
            if self._agent(live) is None:
                known = live.servers
                if live.tools is None and not live.opening.locked() and self.tasks is not None:
                    self.tasks.start_soon(self._open_tools, live)
        return ServerList(
            servers=tuple(known.get(name) or ServerStatus(name=name, state="notStarted") for name in names)
        )

    async def _open_tools(self, live: Live) -> None:
        settings = live.thread.state.settings
        try:
            await self._tools_of(live, _place(live.thread.id, TurnId(""), settings))
        except Exception:  # the next turn tries again, and fails with it
            log.exception("tools.unopened", extra={"thread_id": live.thread.id})

    async def interrupt(self, command: InterruptTurn) -> ThreadState:
        live = await self._threads.open(command.thread_id)
        running = live.thread.state.running
        if running is None or (command.turn_id is not None and running.id != command.turn_id):
            raise TurnNotFound(
                f"turn {command.turn_id!r} is not running" if command.turn_id else "no turn is running on this thread"
            )
        if live.run is not None:
            live.run.scope.cancel()
        return live.thread.state

    async def steer(self, command: SteerTurn) -> ThreadState:
        live = await self._threads.writable(command.thread_id)
        running = live.thread.state.running
        if running is None or (command.turn_id is not None and running.id != command.turn_id):
            raise TurnNotFound("no such turn is running on this thread")
        if command.client_id is not None and already(live.thread.state, command.client_id) is not None:
            return live.thread.state
        if self._agent(live) is not None:
            raise InvalidCommand("this agent hears nothing while it works: queue the prompt, or interrupt the turn")
        cwd = live.thread.state.settings.cwd
        message = await self._message(command.content, 0, cwd, command.client_id, command.meta)
        now = live.thread.state.running
        if now is None or now.id != running.id:
            raise TurnNotFound("the turn has just ended")
        step = live.run.work.step if live.run is not None and live.run.work is not None else 0
        message = replace(message, step=step)
        await live.thread.emit(
            ItemStarted(turn_id=running.id, item=message), ItemCompleted(turn_id=running.id, item=message)
        )
        return live.thread.state

    async def compact(self, thread_id: ThreadId) -> Turn:
        async def work(work: TurnWork) -> str:
            if not await compaction.compact(work):
                raise ProviderError("the conversation could not be summarised; it stays as it is")
            return "compacted"

        return await self._special(thread_id, "compact", work, None)

    async def review(self, command: StartReview) -> Turn:
        live = await self._threads.open(command.thread_id)
        message = await self._message(review.prompt(command.target), 0, live.thread.state.settings.cwd, None, NOTHING)

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
        live = await self._threads.writable(thread_id)
        with self._claim(live):
            return await self._begin(live, kind, work, message=message)

    async def submit(self, command: SubmitPrompt) -> Turn | QueuedPrompt:
        live = await self._threads.writable(command.thread_id)
        state = live.thread.state
        if command.client_id is not None and (known := already(state, command.client_id)) is not None:
            return known
        if not live.busy and not state.queue:
            return await self.start(
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
        if live.busy or not state.queue or state.queue_held or self.closing or live.thread.failure is not None:
            return
        prompt = state.queue[0]
        with self._claim(live):
            removed = PromptRemoved(prompt_id=prompt.id)
            try:
                message = await self._message(prompt.content, 0, state.settings.cwd, prompt.id, prompt.meta)
            except InvalidCommand as problem:  # a file it points at has gone since
                why = f"a queued prompt was dropped: {problem}"
                await live.thread.emit(removed, Noticed(source="hames", name="prompt_dropped", message=why))
            else:
                await self._begin(live, "prompt", run_turn, message=message, before=[removed], meta=prompt.meta)
        await self._next(live)  # where that one was dropped, it is the next one's turn

    async def drop(self, command: DropPrompt) -> ThreadState:
        live = await self._threads.writable(command.thread_id)
        if any(prompt.id == command.prompt_id for prompt in live.thread.state.queue):
            await live.thread.emit(PromptRemoved(prompt_id=command.prompt_id))
        return live.thread.state


def _warning(name: str, words: str, turn_id: TurnId) -> Noticed:
    return Noticed(source="hames", name=name, severity="warning", message=words, turn_id=turn_id)


def _place(thread_id: ThreadId, turn_id: TurnId, settings: Settings) -> Place:
    return Place(
        thread_id=thread_id, turn_id=turn_id, workspace=settings.cwd, cwd=settings.cwd, sandbox=settings.sandbox
    )


def _native(card: ModelCard, settings: Settings) -> frozenset[str]:
    """What the model's service does itself: a tool of ours by that name would only confuse it."""
    searches = card.web_search and settings.options.get("web_search") == "on"
    return frozenset({"web_search"}) if searches else frozenset()
