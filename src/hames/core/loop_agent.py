"""Our own agent: the loop of `core/loop.py` with the thread's tools, behind the same port as every other agent."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Self

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from hames import ports
from hames.core import compaction
from hames.core.agent_tools import AgentTools, NoProvider
from hames.core.client_tools import client_tools
from hames.core.command_terminals import EditorTerminals
from hames.core.context import Memory
from hames.core.continuing import finish_calls
from hames.core.earlier_results import EarlierResults
from hames.core.editor_files import EditorWorkspace
from hames.core.loaded import LoadedThread
from hames.core.loop import run_loop
from hames.core.offered_tools import allowed_tools
from hames.core.prompts import effective, replaced_prompt, system_prompt
from hames.core.rule_checks import rules_in_force, with_host_rules
from hames.core.surroundings import Surroundings
from hames.core.threads import Threads
from hames.core.token_estimate import ContextGauge
from hames.core.turn import LoopTurn
from hames.core.turn_budget import used_of_budgets
from hames.core.undo import new_checkpoint
from hames.core.window_report import window_report
from hames.domain.context_report import ContextReport
from hames.domain.errors import HarnessError, ProviderError
from hames.domain.events import Event, Noticed
from hames.domain.ids import TurnId
from hames.domain.items import UserMessage
from hames.domain.options import Settings, ThreadServer
from hames.domain.processes import ended_note
from hames.domain.project_notes import Note, complaint
from hames.domain.rulings import runs_unasked
from hames.domain.servers import ServerStatus, notice
from hames.domain.situation import can_leave_sandbox
from hames.domain.state import ThreadState

log = logging.getLogger(__name__)


class LoopAgent:
    """Implements `ports.Agent`."""

    name = "hames"

    def __init__(
        self,
        threads: Threads,
        *,
        tools: ports.Tools,
        trust: ports.Trust,
        environment: ports.Environment | None = None,
        rulebook: ports.RuleBook | None = None,
    ) -> None:
        self.rulebook = rulebook
        self.threads = threads
        self.environment = environment
        self.tools = tools
        self.trust = trust
        self.tasks: TaskGroup | None = None
        """The engine's: there are many threads, and a group for each would double what one costs."""

    def open(self, state: ThreadState) -> "LoopThread":
        """It may be used without being entered: what it opens for a thread is closed with the thread."""
        return LoopThread(self, self.threads.loaded[state.id])

    def own_tools(self, turn: ports.TurnHandle) -> AgentTools | None:
        """Our tools for a turn that another agent runs. Where a runner runs every turn, nothing runs here."""
        return None if self.threads.rules.only_agent else AgentTools(partial(self._tools_turn, turn))

    async def _tools_turn(self, turn: ports.TurnHandle) -> LoopTurn:
        loaded = self.threads.loaded[turn.thread_id]
        thread = loaded.agents.get(self.name)
        if not isinstance(thread, LoopThread):
            thread = loaded.agents[self.name] = self.open(loaded.thread.state)
        return await thread.tools_turn(turn)


class OpenedTools(NamedTuple):
    """The tools of a thread, and the servers that were started for them."""

    tools: list[ports.Tool]
    servers: tuple[ThreadServer, ...]
    scope: anyio.CancelScope
    """Cancel it to close them."""
    closed: anyio.Event


class LoopThread:
    """One thread of ours: its tools, opened with its first turn, and what its finished turns said."""

    abilities: frozenset[ports.Ability] = frozenset(
        {"review", "compact", "steer", "instructions", "outputSchema", "mcpServers", "clientTools", "continue"}
    )

    def __init__(self, agent: LoopAgent, loaded: LoadedThread) -> None:
        self._agent = agent
        self._threads = agent.threads
        self._loaded = loaded
        self._memory = Memory()
        self._gauge = ContextGauge()
        # An engine with a prompt of its own says what it wants to say.
        told = agent.environment if agent.threads.rules.system_prompt is None else None
        self._surroundings = Surroundings(told, self._ended_processes)
        self._tools: OpenedTools | None = None
        self._opening = anyio.Lock(fast_acquire=True)
        self._servers: dict[str, ServerStatus] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def run(self, task: ports.Task, turn: ports.TurnHandle) -> str:
        prepared = await self._prepare(
            turn, replace(turn.settings, agent="review") if isinstance(task, ports.Review) else turn.settings
        )
        prepared.checkpoint = new_checkpoint(self._threads, self._loaded, turn.turn_id)
        match task:
            case ports.Prompt() | ports.Review():
                try:
                    if turn.continued:
                        await finish_calls(prepared)
                    return await run_loop(prepared)
                finally:
                    if prepared.checkpoint is not None:
                        self._group.start_soon(prepared.checkpoint.end)
            case ports.Compact():
                if not await compaction.compact(prepared):
                    raise ProviderError("the conversation could not be summarised; it stays as it is")
                return "compacted"

    def _ended_processes(self) -> str:
        table = self._loaded.processes
        return ended_note(table.take_ended()) if table is not None else ""

    async def steer(self, message: UserMessage) -> None:
        """Nothing to do: the loop looks into the log before each step."""

    def context(self) -> ContextReport:
        """What fills the window. The sizes of instructions and tools are known from the first request on."""
        state = self._loaded.thread.state
        card = self._threads.models.find(state.settings.model)
        rules, turn = self._threads.rules, self._loaded.turn
        report = window_report(state, self._memory, self._gauge, card, rules.compact_at)
        running = turn.budget if turn is not None and state.running is not None else None
        return replace(
            report, budgets=used_of_budgets(rules, self._threads.models, state, self._loaded.budget, running)
        )

    def servers(self) -> Mapping[str, ServerStatus]:
        wanted = self._threads.servers(self._loaded.thread.id, self._loaded.thread.state.settings)
        stale = self._tools is not None and self._tools.servers != wanted and self._loaded.turn is None
        if (self._tools is None or stale) and not self._opening.locked():
            self._group.start_soon(self._open_tools)
        return self._servers

    async def _prepare(self, turn: ports.TurnHandle, settings: Settings) -> LoopTurn:
        settings = effective(settings)
        card = self._threads.models.find(settings.model)
        self._surroundings.look_ahead(turn, settings, self._group)
        place = self._place(turn.turn_id, settings)
        offered = await self._opened_tools(place)
        tools, not_offered = allowed_tools(offered, card, settings)
        of_client, not_offered_either = allowed_tools(client_tools(self._loaded.thread).values(), card, settings)
        tools |= of_client
        not_offered |= not_offered_either
        rules = self._threads.rules
        notes = await self._notes(settings, turn.turn_id)
        if rules.system_prompt is None:
            system = system_prompt(settings, notes, situated=self._surroundings.told)
        else:
            system = replaced_prompt(rules.system_prompt, settings, rules.defaults)
        await self._surroundings.begin_turn(turn, settings)
        return LoopTurn(
            handle=turn,
            settings=settings,
            card=card,
            provider=self._threads.models.provider(card),
            tools=tools,
            place=place,
            system=system,
            trust=self._agent.trust,
            clock=self._threads.clock,
            memory=self._memory,
            max_steps=settings.max_steps or rules.max_steps,
            max_tokens=settings.max_tokens or rules.max_tokens or card.max_output,
            gauge=self._gauge,
            surroundings=self._surroundings,
            compacts=rules.compacts,
            compact_at=rules.compact_at,
            supervises=rules.supervises,
            not_offered=not_offered,
            rulebook=self._agent.rulebook,
            budget=self._loaded.turn.budget if self._loaded.turn is not None else None,
            notes=notes,
            text_block_ended=rules.text_block_ended,
        )

    async def tools_turn(self, turn: ports.TurnHandle) -> LoopTurn:
        """What our tools need in a turn that another agent runs."""
        settings = effective(turn.settings)
        card = self._threads.models.find(settings.model)
        place = self._place(turn.turn_id, settings)
        tools, not_offered = allowed_tools(await self._opened_tools(place), card, settings)
        return LoopTurn(
            handle=turn,
            settings=settings,
            card=card,
            provider=NoProvider(),
            tools=tools,
            place=place,
            system="",
            trust=self._agent.trust,
            clock=self._threads.clock,
            max_steps=0,
            max_tokens=0,
            not_offered=not_offered,
            rulebook=self._agent.rulebook,
        )

    async def _notes(self, settings: Settings, turn_id: TurnId) -> tuple[Note, ...]:
        """The project notes of this thread. They are read once for each working directory while it is loaded."""
        loaded, events = self._loaded, list[Event]()
        if loaded.notes is None or loaded.notes.cwd != settings.cwd:
            loaded.notes, events = await self._threads.read_notes(settings, loaded.thread.state.notes)
        if loaded.notes is None:
            return ()
        if loaded.notes is not loaded.notes_checked:
            loaded.notes_checked = loaded.notes
            problems = [words for note in loaded.notes.notes if (words := complaint(note))]
            events += [
                Noticed(source="hames", name="notes", severity="warning", message=words, turn_id=turn_id)
                for words in problems
            ]
        if events:
            await loaded.thread.emit(*events)
        return loaded.notes.notes

    @property
    def _group(self) -> TaskGroup:
        assert self._agent.tasks is not None
        return self._agent.tasks

    async def _opened_tools(self, place: ports.Place) -> list[ports.Tool]:
        async with self._opening:
            if self._tools is not None and self._tools.servers != place.servers:
                await self._close_tools(self._tools, place)
            if self._tools is None:
                opened: OpenedTools = await self._group.start(self._hold_tools, place)
                self._tools = opened
            return self._tools.tools

    async def _close_tools(self, opened: OpenedTools, place: ports.Place) -> None:
        """Ends the servers that were started: the client has named others since."""
        self._tools = None
        opened.scope.cancel()
        await opened.closed.wait()
        kept = {*self._threads.rules.mcp_servers, *(server.name for server in place.servers)}
        self._servers = {name: status for name, status in self._servers.items() if name in kept}

    async def _open_tools(self) -> None:
        settings = self._loaded.thread.state.settings
        try:
            await self._opened_tools(self._place(TurnId(""), settings))
        except Exception:  # the next turn tries again, and fails with it
            log.exception("tools.open_failed", extra={"thread_id": self._loaded.thread.id})

    async def _hold_tools(self, place: ports.Place, *, task_status: TaskStatus[OpenedTools]) -> None:
        """A task of their own, because what a tool opens must be closed by the task that opened it."""
        scope, closed = anyio.CancelScope(), anyio.Event()
        try:
            async with self._agent.tools.open(place, self._note_server) as tools:
                self._loaded.processes = _process_table(tools)
                task_status.started(OpenedTools(tools=list(tools), servers=place.servers, scope=scope, closed=closed))
                with scope:
                    await self._loaded.closed.wait()
        finally:
            self._loaded.processes = None
            closed.set()

    def _place(self, turn_id: TurnId, settings: Settings) -> ports.Place:
        thread_id = self._loaded.thread.id
        rules = rules_in_force(self._agent.rulebook, settings, settings.cwd)
        return ports.Place(
            files=EditorWorkspace(self._threads.workspace, self._loaded.thread, settings, is_steady=self._is_steady),
            thread_id=thread_id,
            turn_id=turn_id,
            workspace=settings.cwd,
            cwd=settings.cwd,
            sandbox=with_host_rules(settings.sandbox, rules),
            can_leave=settings.agent == "code" and can_leave_sandbox(settings.sandbox, settings.approval_policy),
            terminals=EditorTerminals(self._loaded.thread),
            servers=self._threads.servers(thread_id, settings),
            readable=self._threads.rules.readable,
            results=EarlierResults(lambda: self._loaded.thread.state),
            runs_unasked=runs_unasked(settings.approval_policy, settings.sandbox),
            denied=tuple(rule for rule in rules if rule.action == "deny" and rule.subject in ("read", "write")),
            has_host_rules=any(rule.host for rule in rules),
        )

    def _is_steady(self) -> bool:
        processes = self._loaded.processes
        return processes is None or not processes.is_any_running()

    async def _note_server(self, status: ServerStatus) -> None:
        """Remembers how an MCP server is doing, and writes a notice when people should know."""
        before = self._servers.get(status.name)
        self._servers[status.name] = status
        thread = self._loaded.thread
        about = {"server": status.name, "state": status.state, "tools": len(status.tools), "why": status.reason}
        log.info("mcp.server", extra={"thread_id": thread.id, **about})
        running = thread.state.running
        event = notice(before, status, running.id if running is not None else None)
        if event is not None and not self._loaded.closed.is_set():
            try:
                await thread.emit(event)
            except HarnessError:  # the disk failed: the running turn fails for the same reason
                log.exception("notice.not_stored", extra={"thread_id": thread.id, "server": status.name})


def _process_table(tools: Sequence[ports.Tool]) -> ports.ProcessTable | None:
    tables = (getattr(tool, "processes", None) for tool in tools)
    return next((table for table in tables if isinstance(table, ports.ProcessTable)), None)
