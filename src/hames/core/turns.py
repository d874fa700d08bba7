"""The turns of an engine: started, steered, interrupted, and queued one behind the other.

A turn belongs to the engine's task group and not to the client that asked for it: clients come and go.
"""

import logging
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from hames.core import attachments
from hames.core.abilities import REFUSALS, moved_model, needed_abilities, tell_agent_rules, warn_once
from hames.core.continuing import CutOffTurns, after_crash, is_ours
from hames.core.history import find_duplicate_submit, past_events
from hames.core.loaded import LoadedThread
from hames.core.loop_agent import LoopAgent, LoopThread
from hames.core.output_schema import run_task
from hames.core.prompts import review_prompt
from hames.core.questions import Questions
from hames.core.reviewers import find_reviewer, turn_model
from hames.core.slots import Slots, try_next
from hames.core.thread import CLOSE_SECONDS, STOPPED
from hames.core.threads import Threads
from hames.core.turn import RunningTurn
from hames.core.turn_budget import BudgetedAgent, turn_budget, within
from hames.core.undo import checkpointed
from hames.domain import commands
from hames.domain.actors import Actor
from hames.domain.context_report import ContextReport
from hames.domain.endings import endings
from hames.domain.errors import HarnessError, InvalidCommand, QueueFull, Stopping, TurnBusy, TurnNotFound
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
from hames.domain.options import Settings
from hames.domain.servers import ServerList, ServerStatus
from hames.domain.state import QueuedPrompt, ThreadState, Turn
from hames.ports import Ability, Agent, AgentThread, Compact, Environment, Ids, Prompt, Review, Task, Tools, Trust
from hames.ports.rules import RuleBook

log = logging.getLogger(__name__)

QUEUE_LENGTH = 32


class Turns:
    """`agents` run the turns of threads whose model is theirs: by the provider's part of its name."""

    def __init__(
        self,
        threads: Threads,
        *,
        tools: Tools,
        trust: Trust,
        ids: Ids,
        agents: Mapping[str, Agent],
        environment: Environment | None = None,
        rulebook: RuleBook | None = None,
    ) -> None:
        self.closing = False
        rules = threads.rules
        self.questions = Questions(
            patience_s=rules.patience_s,
            deadline_s=rules.approval_deadline_s,
            default=rules.approval_default,
            rulebook=rulebook,
        )
        self.cut_off = CutOffTurns(
            threads,
            self.questions,
            handle=self._handle,
            run=lambda loaded, turn, task: self._start(self._run, loaded, turn, task),
            start_next=lambda loaded: self._start(try_next, self._next, loaded),
            new_item_id=lambda: ItemId(ids.new("item")),
        )
        self._threads = threads
        self._loop = LoopAgent(threads, tools=tools, trust=trust, environment=environment, rulebook=rulebook)
        self._ids = ids
        self._agents = agents
        self.slots = Slots(threads)

    @property
    def tasks(self) -> TaskGroup | None:
        return self._loop.tasks

    @tasks.setter
    def tasks(self, tasks: TaskGroup | None) -> None:
        self._loop.tasks = tasks

    async def stop(self) -> None:
        """Interrupts the running turns, and waits until their ends are written."""
        self.closing = True
        leaves = self.questions.stopping = self._threads.rules.leaves_turns
        running = [loaded.turn for loaded in self._threads.loaded.values() if loaded.turn is not None]
        for turn in running:
            turn.interrupted_by, turn.pauses = STOPPED, leaves
            turn.scope.cancel()
        with anyio.move_on_after(CLOSE_SECONDS):
            for turn in running:
                await turn.over.wait()

    async def end(self, thread_id: ThreadId, by: Actor | None = None) -> None:
        """Interrupts the turn that runs on a thread, if one does, and waits until its end is written."""
        loaded = self._threads.loaded.get(thread_id)
        if loaded is not None and (turn := loaded.turn) is not None:
            turn.interrupted_for = by
            turn.scope.cancel()
            await turn.over.wait()

    async def start(self, command: commands.StartTurn) -> Turn:
        loaded = await self._ready(command.thread_id)
        await self.slots.wait()
        with self._claim(loaded):
            changed = await self._threads.new_settings(loaded, command)
            settings = changed[0].settings if changed and isinstance(changed[0], SettingsChanged) else None
            settings = settings or loaded.thread.state.settings
            message = await self._message(command.content, settings.cwd, command.client_id, command.meta, command.by)
            prompt = Prompt(message=message, output_schema=command.output_schema)
            await self._check_abilities(loaded, settings)
            return await self._begin(loaded, prompt, command.by, before=changed, meta=command.meta)

    @contextmanager
    def _claim(self, loaded: LoadedThread) -> Generator[None]:
        """Reserves the thread for a new turn. No await lies between check and claim, so only one caller wins."""
        if loaded.busy:
            raise TurnBusy(f"thread {loaded.thread.id!r} already runs a turn")
        if self.closing:
            raise Stopping("the harness is stopping")
        loaded.claimed = True
        try:
            yield
        finally:
            loaded.claimed = False

    async def _message(
        self, content: tuple[UserInput, ...], cwd: str, client_id: str | None, meta: Json, by: Actor | None
    ) -> UserMessage:
        if not content:
            raise InvalidCommand("the input is empty")
        item_id, workspace = ItemId(self._ids.new("item")), self._threads.workspace
        message = await attachments.user_message(
            content, workspace, item_id=item_id, step=0, cwd=cwd, client_id=client_id, meta=meta
        )
        return replace(message, by=by)

    async def _begin(
        self, loaded: LoadedThread, task: Task, by: Actor | None, *, before: Sequence[Event] = (), meta: Json = NOTHING
    ) -> Turn:
        """Writes that the turn has started, then lets it run. The caller has claimed the thread."""
        model = task.model if isinstance(task, Review) else ""
        turn = self._handle(loaded, TurnId(self._ids.new("turn")), model)
        schema = task.output_schema if isinstance(task, Prompt) else NOTHING
        kind = _KINDS[type(task)]
        started = TurnStarted(turn_id=turn.turn_id, kind=kind, output_schema=schema, meta=meta, by=by, model=model)
        events: list[Event] = [*before, *moved_model(loaded.thread.state, before, self._threads.rules), started]
        if not isinstance(task, Compact):
            events.append(ItemStarted(turn_id=turn.turn_id, item=task.message))
            events.append(ItemCompleted(turn_id=turn.turn_id, item=task.message))
        loaded.turn = turn
        with anyio.CancelScope(shield=True):  # a turn that is in the log runs, even if the client that asked has gone
            try:
                await loaded.thread.emit(*events)
            finally:  # and whatever else went wrong in telling it
                if (running := loaded.thread.state.running) is not None and running.id == turn.turn_id:
                    self._start(self._run, loaded, turn, task)
                else:
                    loaded.turn = None
        return loaded.thread.state.turns[-1]

    def _handle(self, loaded: LoadedThread, turn_id: TurnId, model: str | None = None) -> RunningTurn:
        """`model` None: another process began the turn."""
        continued = model is None
        turn = RunningTurn(
            loaded.thread,
            turn_id,
            questions=self.questions,
            ids=self._ids,
            servers=lambda: self._threads.servers(loaded.thread.id, loaded.thread.state.settings),
            continued=continued,
            patient=continued and self._threads.rules.leaves_turns,
            rulebook=self._loop.rulebook,
            own_tools=self._loop.own_tools,
            model=turn_model(loaded.thread.state) if model is None else model,
        )
        turn.keeps_questions = is_ours(loaded, self._threads)
        turn.can_continue = turn.keeps_questions and after_crash(loaded, self._threads) != "end"
        return turn

    async def _ready(self, thread_id: ThreadId) -> LoadedThread:
        """A thread for a new turn. One that nothing runs is ended first: no turn is without a task."""
        loaded = await self._threads.writable(thread_id)
        if loaded.abandoned and not loaded.claimed:
            await self.cut_off.end(loaded)
        return loaded

    def _start(self, work: Callable[..., Coroutine[object, object, None]], *about: object) -> None:
        assert self.tasks is not None
        self.tasks.start_soon(work, *about)

    async def add_history(self, command: commands.AddHistory) -> ThreadState:
        loaded = await self._ready(command.thread_id)
        with self._claim(loaded):
            events = [event for turn in command.turns for event in past_events(turn, self._ids.new)]
            if events:
                await loaded.thread.emit(*events)
        return loaded.thread.state

    async def _run(self, loaded: LoadedThread, turn: RunningTurn, task: Task) -> None:
        async def work() -> str:
            await warn_once(loaded, self._threads.rules, turn.turn_id)
            agent = await self._agent(loaded, turn.settings)
            turn.keeps_questions = isinstance(agent, LoopThread)
            turn.can_continue = "continue" in agent.abilities and after_crash(loaded, self._threads) != "end"
            if turn.continued:
                await self.cut_off.permit(loaded, turn, agent)
            budget = turn.budget = turn_budget(turn, self._threads.rules, self._threads.models, loaded.budget)
            if isinstance(agent, LoopThread):
                return await within(budget, partial(run_task, agent, task, turn))
            await tell_agent_rules(self._loop.rulebook, loaded, turn)
            if budget is not None:
                agent = BudgetedAgent(agent, budget)
            async with checkpointed(self._threads, loaded, turn.turn_id):
                return await within(budget, partial(run_task, agent, task, turn))

        try:
            await turn.run(work)
        finally:
            if loaded.turn is turn:
                loaded.turn = None
        await try_next(self._next, loaded)
        self.slots.free(lambda one: self._start(try_next, self._next, one))

    async def _agent(self, loaded: LoadedThread, settings: Settings | None = None) -> AgentThread:
        """Who runs this thread's turns: the agent that its model belongs to, else our own loop.

        `settings` are those that the next turn will have, if not the thread's.
        """
        provider = self._threads.rules.only_agent
        if not provider:
            provider = self._threads.models.find((settings or loaded.thread.state.settings).model).provider
        agent = self._agents.get(provider, self._loop)
        name = provider if provider in self._agents else self._loop.name
        if name in loaded.agents:
            return loaded.agents[name]
        async with loaded.opening_agent:
            if name not in loaded.agents:
                loaded.agents[name] = await self._opened(loaded, agent)
            return loaded.agents[name]

    async def _opened(self, loaded: LoadedThread, agent: Agent) -> AgentThread:
        if agent is self._loop:  # a task for each thread would cost half as much again as the thread does
            return self._loop.open(loaded.thread.state)
        assert self.tasks is not None
        return await self.tasks.start(self._hold_agent, loaded, agent)

    async def _hold_agent(self, loaded: LoadedThread, agent: Agent, *, task_status: TaskStatus[AgentThread]) -> None:
        """A task of its own, because what an agent opens must be closed by the task that opened it."""
        async with agent.open(loaded.thread.state) as opened:
            task_status.started(opened)
            await loaded.closed.wait()

    async def servers(self, thread_id: ThreadId | None) -> ServerList:
        """How each MCP server is doing. The servers of a thread that has not run yet begin to start."""
        names = dict.fromkeys(self._threads.rules.mcp_servers, True)
        known: Mapping[str, ServerStatus] = {}
        if thread_id is not None:
            loaded = await self._threads.open(thread_id)
            names |= {server.name: False for server in loaded.thread.state.settings.mcp_servers}
            known = (await self._agent(loaded)).servers() if names else {}
        return ServerList(
            servers=tuple(
                known.get(name) or ServerStatus(name=name, state="notStarted", configured=configured)
                for name, configured in names.items()
            )
        )

    async def context(self, thread_id: ThreadId) -> ContextReport:
        """Raises `InvalidCommand` for a thread whose agent keeps its own context."""
        agent = await self._agent(await self._threads.open(thread_id))
        if not isinstance(agent, LoopThread):
            raise InvalidCommand("the agent of this thread keeps its own context")
        return agent.context()

    async def wait(self, thread_id: ThreadId) -> HarnessError | None:
        """Waits until the running turn of a loaded thread has ended. Returns what it failed with."""
        turn = self._threads.loaded[thread_id].turn
        if turn is None:
            return None
        await turn.over.wait()
        return turn.failure

    async def interrupt(self, command: commands.InterruptTurn) -> ThreadState:
        loaded = await self._threads.open(command.thread_id)
        running = loaded.thread.state.running
        if running is None or (command.turn_id is not None and running.id != command.turn_id):
            raise TurnNotFound(
                f"turn {command.turn_id!r} is not running" if command.turn_id else "no turn is running on this thread"
            )
        if loaded.turn is not None:
            loaded.turn.interrupted_for = loaded.turn.interrupted_for or command.by
            loaded.turn.scope.cancel()
        else:  # nothing runs it, so nothing else would ever end it
            await loaded.thread.emit(*endings(loaded.thread.state, STOPPED))
        return loaded.thread.state

    async def steer(self, command: commands.SteerTurn) -> ThreadState:
        loaded = await self._threads.writable(command.thread_id)
        running = loaded.thread.state.running
        if running is None or (command.turn_id is not None and running.id != command.turn_id):
            raise TurnNotFound("no such turn is running on this thread")
        if command.client_id is not None and find_duplicate_submit(loaded.thread.state, command.client_id) is not None:
            return loaded.thread.state
        agent = await self._agent_with(loaded, "steer")
        cwd = loaded.thread.state.settings.cwd
        message = await self._message(command.content, cwd, command.client_id, command.meta, command.by)
        message = replace(message, step=loaded.turn.step if loaded.turn is not None else 0)
        await agent.steer(message)
        now = loaded.thread.state.running
        if now is None or now.id != running.id:
            raise TurnNotFound("the turn has just ended")
        await loaded.thread.emit(
            ItemStarted(turn_id=running.id, item=message), ItemCompleted(turn_id=running.id, item=message)
        )
        return loaded.thread.state

    async def compact(self, command: commands.CompactThread) -> Turn:
        loaded = await self._ready(command.thread_id)
        with self._claim(loaded):
            await self._agent_with(loaded, "compact")
            return await self._begin(loaded, Compact(), command.by)

    async def review(self, command: commands.StartReview) -> Turn:
        loaded = await self._ready(command.thread_id)
        content, settings = review_prompt(command.target), loaded.thread.state.settings
        message = await self._message(content, settings.cwd, None, NOTHING, command.by)
        model = find_reviewer(command.reviewer, self._agents, self._threads)
        settings = replace(settings, model=model or settings.model)
        with self._claim(loaded):
            await self._agent_with(loaded, "review", settings)
            await self._check_abilities(loaded, settings)
            return await self._begin(loaded, Review(target=command.target, message=message, model=model), command.by)

    async def _agent_with(self, loaded: LoadedThread, ability: Ability, chosen: Settings | None = None) -> AgentThread:
        """Raises `InvalidCommand` for an agent that cannot do this."""
        agent = await self._agent(loaded, chosen)
        if ability not in agent.abilities:
            raise InvalidCommand(f"the agent of this thread {REFUSALS[ability]}")
        return agent

    async def _check_abilities(self, loaded: LoadedThread, settings: Settings) -> None:
        """Raises `InvalidCommand` for what a client asks of this turn and its agent cannot do."""
        needed = needed_abilities(settings, self._threads.rules.defaults)
        if not needed:
            return
        agent = await self._agent(loaded, settings)
        for ability in needed:
            if ability not in agent.abilities:
                raise InvalidCommand(f"the agent of this thread {REFUSALS[ability]}")

    async def submit(self, command: commands.SubmitPrompt) -> Turn | QueuedPrompt:
        loaded = await self._ready(command.thread_id)
        state = loaded.thread.state
        if command.client_id is not None and (known := find_duplicate_submit(state, command.client_id)) is not None:
            return known
        if not loaded.busy and not state.queue and not self.slots.is_full:
            return await self.start(
                commands.StartTurn(
                    thread_id=command.thread_id,
                    content=command.content,
                    client_id=command.client_id,
                    output_schema=command.output_schema,
                    meta=command.meta,
                    by=command.by,
                )
            )
        if len(state.queue) >= QUEUE_LENGTH:
            raise QueueFull(f"{QUEUE_LENGTH} prompts are already queued; remove one, or wait")
        if not command.content:
            raise InvalidCommand("the input is empty")
        prompt_id = PromptId(command.client_id or self._ids.new("prompt"))
        rearmed = [QueueHeld(held=False)] if state.queue_held else []
        queued = PromptQueued(
            prompt_id=prompt_id,
            content=command.content,
            output_schema=command.output_schema,
            meta=command.meta,
            by=command.by,
        )
        await loaded.thread.emit(*rearmed, queued)
        waiting = loaded.thread.state.queue[-1]
        await self._next(loaded)
        return waiting

    async def _next(self, loaded: LoadedThread) -> None:
        """Starts the next queued prompt, if there is one and the queue is not held."""
        state = loaded.thread.state
        if loaded.busy or not loaded.waits or self.closing or self.slots.is_full or loaded.thread.failure is not None:
            return
        prompt = state.queue[0]
        with self._claim(loaded):
            removed = PromptRemoved(prompt_id=prompt.id)
            try:
                message = await self._message(prompt.content, state.settings.cwd, prompt.id, prompt.meta, prompt.by)
                task = Prompt(message=message, output_schema=prompt.output_schema)
                await self._check_abilities(loaded, state.settings)
            except InvalidCommand as problem:  # a file it points at has gone since, or the agent is another
                why = f"a queued prompt was dropped: {problem}"
                await loaded.thread.emit(removed, Noticed(source="hames", name="prompt_dropped", message=why))
            else:
                await self._begin(loaded, task, prompt.by, before=[removed], meta=prompt.meta)
        await self._next(loaded)  # if that prompt was dropped, the one behind it starts

    async def drop(self, command: commands.DropPrompt) -> ThreadState:
        loaded = await self._threads.writable(command.thread_id)
        if any(prompt.id == command.prompt_id for prompt in loaded.thread.state.queue):
            await loaded.thread.emit(PromptRemoved(prompt_id=command.prompt_id, by=command.by))
        return loaded.thread.state


_KINDS: dict[type[Task], TurnKind] = {Prompt: "prompt", Review: "review", Compact: "compact"}
