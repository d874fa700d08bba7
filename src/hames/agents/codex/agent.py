"""Codex as the agent: its own app-server runs the turn, and we keep, show, ask and repair.

Codex keeps a history of its own, and which of its threads and turns belong to which of ours is remembered. Each turn
has a process of its own, which ends with it. What Codex has not seen (a thread that began with another model, or that
it has lost) it is told before the turn.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
from msgspec.structs import replace

from hames.agents.codex import models
from hames.agents.codex.history import told, told_instructions
from hames.agents.codex.requests import opening, thread_settings
from hames.agents.codex.turn import STEER_SECONDS, CodexTurn, codex_notice
from hames.agents.process import AgentProcess, ProgramRefused
from hames.agents.thread_map import Known, ThreadMap, digest
from hames.domain.errors import InvalidCommand, ProviderError
from hames.domain.items import TextInput, UserMessage
from hames.domain.json import Json
from hames.domain.servers import ServerStatus
from hames.domain.state import ThreadState, Turn
from hames.ports import Ability, Compact, Prompt, Task, TurnHandle
from hames.ports.sandbox import ProcessGuard

CUT_OFF = (
    "The turn with the following prompt was cut off when the harness stopped. Go on where it stopped. "
    "A command that was running then may have run, wholly or in part: look before you run it again. The prompt was:"
)


class CodexAgent:
    """Implements `ports.Agent`. `memory` is the directory that says which of Codex's threads is whose, once there is
    one; `model_list` is the file where its list of models is kept."""

    name = models.NAME

    def __init__(
        self,
        command: Sequence[str],
        *,
        memory: Callable[[], Path | None],
        model_list: Path,
        environment: Mapping[str, str],
        guard: ProcessGuard | None = None,
    ) -> None:
        self._command = tuple(command)
        self._guard = guard
        self.threads = ThreadMap(memory)
        self._model_list = model_list
        self._listed = False
        self._environment = dict(environment)

    @asynccontextmanager
    async def open(self, state: ThreadState) -> AsyncGenerator["CodexThread"]:  # noqa: ARG002 - each turn starts anew
        yield CodexThread(self)

    def started(self, cwd: str) -> AbstractAsyncContextManager[AgentProcess]:
        return models.started(self._command, cwd=cwd, environment=self._environment, guard=self._guard)

    async def list_models(self, process: AgentProcess) -> None:
        """Once for each process of ours."""
        if not self._listed:
            self._listed = True
            await models.learn(process, self._model_list)


class CodexThread:
    """Implements `ports.AgentThread`."""

    abilities: frozenset[Ability] = frozenset(
        {"review", "compact", "steer", "instructions", "outputSchema", "mcpServers", "continue"}
    )

    def __init__(self, agent: CodexAgent) -> None:
        self._agent = agent
        self._turn: CodexTurn | None = None
        self._started = anyio.Event()

    async def run(self, task: Task, turn: TurnHandle) -> str:
        turn.step += 1
        task = self.task(task, turn)
        async with self._agent.started(turn.settings.cwd) as process:
            try:
                await self._agent.list_models(process)
                thread = await self._thread(process, turn)
                turn_id = await self._begin(process, task, turn, thread)
            except ProgramRefused as refusal:
                raise ProviderError(f"Codex refused: {refusal}") from None
            running = self._turn = CodexTurn(process, turn, thread["thread"]["id"], turn_id)
            self._started.set()
            try:
                return await running.follow()
            except anyio.get_cancelled_exc_class():
                await running.interrupt()
                raise
            finally:
                self._turn, self._started = None, anyio.Event()

    def task(self, task: Task, turn: TurnHandle) -> Task:
        """What Codex is asked for. It cannot take up a turn of its own again, but a new one knows what that did."""
        known = self._agent.threads.known(turn.thread_id)
        if not turn.continued or known is None or turn.turn_id not in known.turns:
            return task
        if not isinstance(task, Prompt):
            raise ProviderError("Codex cannot continue a review or a compaction that was cut off: start it again")
        message = replace(task.message, content=(TextInput(text=CUT_OFF), *task.message.content))
        return replace(task, message=message)

    async def steer(self, message: UserMessage) -> None:
        with anyio.move_on_after(STEER_SECONDS):
            await self._started.wait()
        if self._turn is None:
            raise InvalidCommand("Codex is still starting: try again in a moment")
        await self._turn.steer(message)

    def servers(self) -> Mapping[str, ServerStatus]:
        """None of ours: Codex starts the servers of its own configuration."""
        return {}

    async def _begin(self, process: AgentProcess, task: Task, turn: TurnHandle, thread: Json) -> str:
        answer: Json = None
        theirs: str = thread["thread"]["id"]
        for method, params in opening(task, turn.settings, theirs, thread.get("model") or ""):
            answer = await process.call(method, params)
        if isinstance(task, Compact):  # answered with nothing; the turn is announced
            answer = await process.await_notification("turn/started")
        turn_id: str = answer["turn"]["id"]
        self._agent.threads.keep(turn.thread_id, theirs, {turn.turn_id: turn_id})
        return turn_id

    async def _thread(self, process: AgentProcess, turn: TurnHandle) -> Json:
        """Codex's thread for ours, with all of ours in it."""
        settings = thread_settings(turn.settings, turn.mcp_servers)
        state, earlier = turn.state, [one for one in turn.state.turns if one.id != turn.turn_id]
        known = self._agent.threads.known(turn.thread_id)
        thread: Json = None
        if known is not None:
            thread = await _granted(process, "thread/resume", threadId=known.thread, excludeTurns=True, **settings)
            if thread is None:
                lost = "Codex no longer has this thread, so it gets the conversation so far as text"
                await turn.emit(codex_notice(turn, "history_lost", lost))
        elif state.forked_from is not None and not state.foreign:  # a foreign log could name any thread of Codex's
            known = self._agent.threads.known(state.forked_from)
            if known is not None and (last := _last_whole(earlier, known)):
                known = known.until(last)
                asked = {"threadId": known.thread, "lastTurnId": known.turns[last], "excludeTurns": True}
                thread = await _granted(process, "thread/fork", **asked, **settings)
        if thread is None or known is None:
            known, thread = None, await process.call("thread/start", settings)
        unseen = [one for one in earlier if known is None or one.id not in known.turns]
        instructions = turn.settings.instructions
        items = told(unseen)
        if known is not None and known.instructions != digest(instructions):
            items.append(told_instructions(instructions))  # a thread that goes on keeps those it began with
        if items:
            await process.call("thread/inject_items", {"threadId": thread["thread"]["id"], "items": items})
        seen = dict(known.turns) if known is not None else {}
        seen |= {one.id: "" for one in unseen}
        self._agent.threads.keep(turn.thread_id, thread["thread"]["id"], seen, instructions=instructions)
        return thread


def _last_whole(earlier: Sequence[Turn], known: Known) -> str:
    """The last turn that a fork shares with its source. One that was cut short may have gone on over there."""
    shared = [one.id for one in earlier if known.turns.get(one.id) and one.status != "interrupted"]
    return shared[-1] if shared else ""


async def _granted(process: AgentProcess, method: str, **params: Json) -> Json:
    """What Codex answers; None when it refuses."""
    try:
        return await process.call(method, params)
    except ProgramRefused:
        return None
