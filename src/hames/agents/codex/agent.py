"""Codex as the agent: its own app-server runs the turn, and we keep, show, ask and repair.

Codex keeps a history of its own, and which of its threads and turns belong to which of ours is remembered. Each turn
has a process of its own, which ends with it. What Codex has not seen (a thread that began with another model, or that
it has lost) it is told before the turn.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio

from hames.agents.codex import models as codex_models
from hames.agents.codex.history import told
from hames.agents.codex.requests import opening, thread_settings
from hames.agents.codex.thread_map import Known, Memory
from hames.agents.codex.turn import Talk
from hames.agents.process import Program, Refused
from hames.domain.errors import ProviderError
from hames.domain.json import Json
from hames.domain.state import Turn
from hames.ports import AgentTurn

NAME = codex_models.NAME


class CodexAgent:
    """Implements `ports.Agent`. `memory` is the directory that says which of Codex's threads is whose, once there is
    one; `models` is the file where its list of models is kept."""

    name = NAME

    def __init__(
        self,
        command: Sequence[str],
        *,
        memory: Callable[[], Path | None],
        models: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._command = tuple(command)
        self._memory = Memory(memory)
        self._models = models
        self._listed = False
        self._environment = dict(environment)

    async def run(self, turn: AgentTurn) -> str:
        async with codex_models.started(self._command, cwd=turn.settings.cwd, environment=self._environment) as program:
            try:
                if not self._listed:
                    self._listed = True
                    await codex_models.learn(program, self._models)
                thread = await self._thread(program, turn)
                turn_id = await self._begin(program, turn, thread)
            except Refused as refusal:
                raise ProviderError(f"Codex refused: {refusal}") from None
            talk = Talk(program, turn, thread["thread"]["id"], turn_id)
            try:
                return await talk.follow()
            except anyio.get_cancelled_exc_class():
                await talk.interrupt()
                raise

    async def _begin(self, program: Program, turn: AgentTurn, thread: Json) -> str:
        answer: Json = None
        for method, params in opening(turn, thread["thread"]["id"], thread.get("model") or ""):
            answer = await program.call(method, params)
        turn_id: str = answer["turn"]["id"]
        self._memory.keep(turn.thread_id, thread["thread"]["id"], {turn.turn_id: turn_id})
        return turn_id

    async def _thread(self, program: Program, turn: AgentTurn) -> Json:
        """Codex's thread for ours, with all of ours in it."""
        settings = thread_settings(turn.settings)
        known = self._memory.known(turn.thread_id)
        thread: Json = None
        if known is not None:
            thread = await _granted(program, "thread/resume", threadId=known.thread, excludeTurns=True, **settings)
            if thread is None:
                lost = "Codex no longer has this thread; it is told what was said and done so far"
                await turn.notice("history_lost", lost)
        elif turn.forked_from is not None:
            known = self._memory.known(turn.forked_from)
            if known is not None and (last := _last_whole(turn.earlier, known)):
                known = known.until(last)
                asked = {"threadId": known.thread, "lastTurnId": known.turns[last], "excludeTurns": True}
                thread = await _granted(program, "thread/fork", **asked, **settings)
        if thread is None or known is None:
            known, thread = None, await program.call("thread/start", settings)
        unseen = [one for one in turn.earlier if known is None or one.id not in known.turns]
        if items := told(unseen):
            await program.call("thread/inject_items", {"threadId": thread["thread"]["id"], "items": items})
        seen = dict(known.turns) if known is not None else {}
        self._memory.keep(turn.thread_id, thread["thread"]["id"], {**seen, **{one.id: "" for one in unseen}})
        return thread


def _last_whole(earlier: Sequence[Turn], known: Known) -> str:
    """The last turn that a fork shares with its source. One that was cut short may have gone on over there."""
    shared = [one.id for one in earlier if known.turns.get(one.id) and one.status != "interrupted"]
    return shared[-1] if shared else ""


async def _granted(program: Program, method: str, **params: Json) -> Json:
    """What Codex answers; None when it refuses."""
    try:
        return await program.call(method, params)
    except Refused:
        return None
