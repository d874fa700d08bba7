"""Another agent program, driven over ACP: it runs the turn with its own loop, tools and model.

Each turn has a process of its own. The agent keeps a history of its own, and which of its sessions belongs to which
thread is remembered; a session that it no longer has, or cannot load, is begun anew with the conversation as text.
An agent that is killed in the middle of a turn is started again, and its session goes on.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from msgspec.structs import replace

from hames.agents.acp.connection import LATEST, AcpConnection
from hames.agents.acp.models import CatalogFile
from hames.agents.acp.options import read_only_mode, read_options, wanted_values
from hames.agents.acp.prompts import cut_off_note, instructions_note, prompt_blocks, unseen_note
from hames.agents.acp.turn import AcpTurn
from hames.agents.process import ProgramKilled, ProgramRefused, running
from hames.agents.thread_map import Known, ThreadMap, digest
from hames.domain.approvals import UseTool
from hames.domain.continuing import CONTINUE_TURN
from hames.domain.errors import InvalidCommand, ProviderError
from hames.domain.events import Noticed
from hames.domain.ids import CallId
from hames.domain.items import ToolCall, UserMessage
from hames.domain.json import Json
from hames.domain.policy import AfterCrash, WorkspaceWrite
from hames.domain.servers import ServerStatus
from hames.domain.state import ThreadState, Turn
from hames.ports import Ability, Compact, Prompt, Review, Task, TurnHandle
from hames.ports.sandbox import ProcessGuard

START_SECONDS = 60.0
MAX_RESTARTS = 2
COMPACT = "compact"
"""The command with which agents summarise their conversation, where they have one."""
READS_ONLY = "has no mode in which it changes nothing, so it cannot be used for plans and reviews"


class AcpAgent:
    """Implements `ports.Agent`. `memory` is the directory that says which of its sessions is whose."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        memory: Callable[[], Path | None],
        environment: Mapping[str, str],
        catalog: CatalogFile | None = None,
        version: int = LATEST,
        guard: ProcessGuard | None = None,
        after_crash: AfterCrash = "go_on",
    ) -> None:
        """`version` is the version of the protocol that it is asked for; it may answer with a lower one."""
        self.name = name
        self.command = tuple(command)
        self.environment = dict(environment)
        self.guard = guard
        self.after_crash = after_crash
        self.sessions = ThreadMap(memory)
        self.catalog = catalog or CatalogFile(None)
        self._version = version

    @asynccontextmanager
    async def open(self, state: ThreadState) -> AsyncGenerator["AcpThread"]:  # noqa: ARG002 - each turn starts anew
        yield AcpThread(self)

    @asynccontextmanager
    async def start(self, cwd: str, *, runs_commands: bool = False) -> AsyncGenerator[AcpConnection]:
        """Starts the program and greets it. Raises `ProviderError`."""
        async with running(
            self.command, name=self.name, cwd=cwd, environment=self.environment, guard=self.guard, version=True
        ) as process:
            connection = AcpConnection(process, self.name, self.environment)
            try:
                with anyio.fail_after(START_SECONDS):
                    await connection.greet(self._version, runs_commands=runs_commands)
            except ProgramRefused as refusal:
                raise ProviderError(f"{self.name} refused: {refusal}") from None
            except TimeoutError:
                raise ProviderError(f"{self.name} did not start in {START_SECONDS:g} s") from None
            yield connection


class AcpThread:
    """Implements `ports.AgentThread`."""

    def __init__(self, agent: AcpAgent) -> None:
        self._agent = agent

    @property
    def abilities(self) -> frozenset[Ability]:
        known: set[Ability] = {"mcpServers", "instructions", "review", "continue"}
        if COMPACT in self._agent.catalog.read().commands:
            known.add("compact")
        return frozenset(known)

    async def run(self, task: Task, turn: TurnHandle) -> str:
        if isinstance(task, Compact) and "compact" not in self.abilities:
            raise InvalidCommand(f"{self._agent.name} has no command to summarise its conversation")
        turn.step += 1
        known = self._agent.sessions.known(turn.thread_id)
        cut_off = turn.continued and known is not None and turn.turn_id in known.turns
        restarts = 0
        while True:
            attempt = _Attempt(self._agent, task, turn, cut_off=cut_off)
            try:
                return await attempt.run()
            except ProgramKilled as killed:
                await attempt.close_cut_off()
                restarts += 1
                if restarts > MAX_RESTARTS or not await self._may_restart(turn):
                    raise
                cut_off = attempt.began
                await self._tell_restart(turn, killed)

    async def _may_restart(self, turn: TurnHandle) -> bool:
        """As the settings say for turns that were cut off."""
        wanted = turn.settings.after_crash or self._agent.after_crash
        if wanted != "ask":
            return wanted == "go_on"
        item = ToolCall(id=turn.new_item_id(), step=turn.step, call_id=CallId(""), name=CONTINUE_TURN, arguments={})
        await turn.start(item)
        why = f"{self._agent.name} was killed in the middle of this turn. Start it again and continue?"
        agreed = (await turn.ask(item.id, UseTool(name=CONTINUE_TURN, arguments={}), why)).decision in (
            "once",
            "always",
        )
        await turn.complete(replace(item, status="completed" if agreed else "declined"))
        return agreed

    async def _tell_restart(self, turn: TurnHandle, killed: ProgramKilled) -> None:
        turn.step += 1
        words = f"{killed}. It is started again, and the turn goes on; what was cut off is not run again by Hames"
        await turn.emit(_notice(self._agent, turn, "agent_restarted", words, is_warning=True))

    async def steer(self, message: UserMessage) -> None:  # noqa: ARG002
        raise InvalidCommand(f"{self._agent.name} does not accept messages while it works")

    def servers(self) -> Mapping[str, ServerStatus]:
        """None of ours: the agent starts them."""
        return {}


class _Attempt:
    """One process of the agent's for one turn."""

    def __init__(self, agent: AcpAgent, task: Task, turn: TurnHandle, *, cut_off: bool) -> None:
        """`cut_off`: an earlier process was given the prompt, and stopped before the turn was over."""
        self.began = False
        """Whether the agent was given the prompt."""
        self._agent = agent
        self._task = task
        self._turn = turn
        self._cut_off = cut_off
        self._running: AcpTurn | None = None
        self._unseen: list[Turn] = []
        self._is_new = False
        self._instructions = ""
        """Those that the agent has to be told."""

    async def run(self) -> str:
        agent, turn = self._agent, self._turn
        async with agent.start(turn.settings.cwd, runs_commands=turn.own_tools is not None) as connection:
            try:
                with anyio.fail_after(START_SECONDS):
                    session = await self._session(connection)
            except ProgramRefused as refusal:
                raise connection.refusal(refusal) from None
            except TimeoutError:
                raise ProviderError(f"{agent.name} opened no session in {START_SECONDS:g} s") from None
            connection.process.forget_unread()  # the history that it replayed
            running_turn = self._running = AcpTurn(connection, turn, session, learn=self._learn)
            agent.sessions.keep(turn.thread_id, session, {turn.turn_id: ""}, instructions=turn.settings.instructions)
            self.began = True
            try:
                return await running_turn.run(self._prompt())
            except anyio.get_cancelled_exc_class():
                await running_turn.cancel()
                raise

    async def close_cut_off(self) -> None:
        if self._running is not None:
            await self._running.close_cut_off()

    def _learn(self, kind: str, update: dict[str, Json]) -> None:
        catalog = self._agent.catalog.read()
        if kind == "config_option_update":
            self._agent.catalog.keep(catalog.learned(read_options(update), is_new=False))
        else:
            self._agent.catalog.keep(catalog.with_commands(update))

    def _prompt(self) -> list[Json]:
        match self._task:
            case Prompt(message=message) | Review(message=message):
                blocks = prompt_blocks(message)
            case Compact():
                return [{"type": "text", "text": f"/{COMPACT}"}]
        notes: list[str] = []
        if self._unseen:
            notes.append(unseen_note(self._unseen))
        if self._instructions:
            notes.append(instructions_note(self._instructions))
        if self._cut_off:
            notes.append(cut_off_note(self._turn if self._is_new else None))
        return [*({"type": "text", "text": note} for note in notes if note), *blocks]

    async def _session(self, connection: AcpConnection) -> str:
        """The agent's session for our thread. What it has not seen goes into the prompt."""
        agent, turn = self._agent, self._turn
        sandbox = turn.settings.sandbox
        roots = sandbox.writable_roots if isinstance(sandbox, WorkspaceWrite) else ()
        earlier = [one for one in turn.state.turns if one.id != turn.turn_id]
        known = None if turn.state.foreign else agent.sessions.known(turn.thread_id)
        opened = await self._reopened(connection, known, roots) if known is not None else None
        self._is_new = opened is None
        if known is None or opened is None:
            opened = await connection.new_session(turn.settings.cwd, turn.mcp_servers, roots)
            session: str = opened["sessionId"]
            seen: Mapping[str, str] = {}
            told = ""
        else:
            session, seen, told = known.thread, known.turns, known.instructions
        self._unseen = [one for one in earlier if one.id not in seen]
        if digest(turn.settings.instructions) != told:
            self._instructions = turn.settings.instructions or "(none any more)"
        catalog = connection.catalog(agent.catalog.read(), opened, is_new=self._is_new)
        agent.catalog.keep(catalog)
        await self._choose(connection, session, opened)
        agent.sessions.keep(turn.thread_id, session, {one.id: seen.get(one.id, "") for one in earlier})
        if self._is_new:
            await turn.emit(_notice(agent, turn, "agent_rights", _rights(agent.name, connection)))
        return session

    async def _reopened(self, connection: AcpConnection, known: Known, roots: Sequence[str]) -> Json:
        """None: the agent does not have the session any more."""
        agent, turn = self._agent, self._turn
        if connection.reopens:
            with suppress(ProgramRefused):
                opened = await connection.reopen_session(known.thread, turn.settings.cwd, turn.mcp_servers, roots)
                return opened if isinstance(opened, dict) else {}
        words = f"{agent.name} no longer has this thread, so it gets the conversation so far as text"
        await turn.emit(_notice(agent, turn, "history_lost", words))
        return None

    async def _choose(self, connection: AcpConnection, session: str, opened: Json) -> None:
        """Sets the model, the mode and the other options as people chose them for the thread."""
        settings, name = self._turn.settings, self._agent.name
        options = read_options(opened)
        model = settings.model.partition("/")[2]
        reads_only = settings.agent != "code" or isinstance(self._task, Review)
        mode = read_only_mode(options) if reads_only else None
        if reads_only and mode is None:
            raise ProviderError(f"{name} {READS_ONLY}; use the agent 'code'")
        asks = settings.approval_policy != "never"
        wanted = dict(wanted_values(options, self._agent.catalog.read(), model, settings.options, asks=asks))
        if mode is not None:
            wanted[mode[0]] = mode[1]
        for option, value in wanted.items():
            if value == option.current:
                continue
            if all(choice.id != value for choice in option.choices):
                there = ", ".join(choice.id for choice in option.choices)
                raise ProviderError(f"{name} has no {option.name.lower()} {value!r}; it has: {there}")
            await connection.set_option(session, option, value)
        if model not in ("", "default") and all(option.category != "model" for option in options):
            raise ProviderError(f"{name} has no models to choose from; use {name}/default")


def _rights(name: str, connection: AcpConnection) -> str:
    ours = (
        "Commands and file changes that it hands to Hames run in the sandbox. " if connection.version < LATEST else ""
    )
    return (
        f"{name} works with its own tools and its own rights, not in Hames's sandbox. {ours}"
        "What it asks permission for is asked here"
    )


def _notice(agent: AcpAgent, turn: TurnHandle, name: str, words: str, *, is_warning: bool = False) -> Noticed:
    severity = "warning" if is_warning else "info"
    return Noticed(source=agent.name, name=name, message=words, severity=severity, turn_id=turn.turn_id)
