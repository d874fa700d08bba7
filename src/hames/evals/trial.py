"""One trial: a task, an agent, a workspace of its own, and what the check says about it afterwards."""

import os
import shlex
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from subprocess import DEVNULL, STDOUT

import anyio
import msgspec
from msgspec.structs import replace

from hames.api.engine import LocalEngine
from hames.app import open_engine
from hames.config.load import Options
from hames.domain.errors import HarnessError
from hames.domain.events import TurnEnded, UsageReported
from hames.domain.items import ToolItem
from hames.domain.json import Json
from hames.domain.models import Price
from hames.domain.state import ThreadState
from hames.domain.value import Value
from hames.evals.results import Ending, TrialResult
from hames.evals.solutions import ScriptedAgent, script
from hames.evals.tasks import EvalTask
from hames.evals.trajectory import prompt_tokens, thread_cost, trajectory
from hames.evals.workspaces import ScriptResult, TaskBroken, TrialFiles

WHY_CHARS = 200
PROMPT_WORD = "{prompt}"
STOP_SECONDS = 10.0


class Contender(Value):
    """Who works on the tasks: a model of the configuration, one of our scripts, or another program."""

    name: str
    model: str = ""
    scripted: ScriptedAgent | None = None
    command: tuple[str, ...] = ()
    """An agent program. `{prompt}` in one of its words is the prompt; without it the prompt goes to its stdin."""


class Budget:
    """The money that all trials may spend together. None: no limit."""

    def __init__(self, dollars: float | None) -> None:
        self._dollars = dollars
        self._spent: dict[int, float] = {}

    def spend(self, trial: int, dollars: float) -> None:
        """So much so far, by this trial."""
        self._spent[trial] = dollars

    @property
    def is_spent(self) -> bool:
        return self._dollars is not None and sum(self._spent.values()) >= self._dollars


class AgentRun(Value):
    """What is known after the agent has ended, before the check."""

    ending: Ending
    why: str = ""
    state: ThreadState | None = None
    output: str = ""


class Trial:
    def __init__(
        self,
        task: EvalTask,
        contender: Contender,
        options: Options,
        *,
        folder: Path,
        budget: Budget,
        number: int = 1,
    ) -> None:
        """`folder` is empty and belongs to this trial; `options` are those of the whole evaluation."""
        self._task = task
        self._number = number
        self._contender = contender
        self._folder = folder
        self._budget = budget
        self._options = options
        self._files = TrialFiles(folder, options)
        self._price_of: Callable[[str], Price | None] = lambda _: None

    async def run(self) -> TrialResult:
        started = time.monotonic()
        result = TrialResult(
            task=self._task.name, number=self._number, category=self._task.category, passed=False, ending="notRun"
        )
        if self._budget.is_spent:
            return replace(result, why="not run: the budget is spent")
        try:
            await self._files.prepare(self._task)
            done = await self._agent()
            worked = time.monotonic() - started
            checked = await self._files.check(self._task)
        except HarnessError as problem:
            return replace(result, ending="broken", why=str(problem), seconds=time.monotonic() - started)
        self._save(done, checked)
        passed = checked.exit_code == 0
        why = "" if passed else done.why or _why(checked)
        return replace(
            self._counted(result, done), passed=passed, ending=done.ending, why=why, seconds=round(worked, 3)
        )

    async def _agent(self) -> AgentRun:
        if self._contender.command:
            return await self._program(self._contender.command)
        model = self._contender.model
        if self._contender.scripted is not None:
            path = self._folder / "script.json"
            path.write_bytes(script(self._task, self._contender.scripted))
            model = f"scripted/{path}"
        workspace = str(self._files.workspace)
        options = replace(
            self._options, cwd=Path(workspace), data_dir=self._files.data, model=model, approval_policy="never"
        )
        try:
            async with open_engine(options) as engine:
                return await self._turn(LocalEngine(engine))
        except HarnessError as problem:
            return AgentRun(ending="failed", why=str(problem))

    async def _turn(self, engine: LocalEngine) -> AgentRun:
        free = self._contender.scripted is not None
        prices = {card.id: card.price for card in engine.models()}
        self._price_of = (lambda _: Price(input=0.0, output=0.0)) if free else prices.get
        thread = await engine.start_thread()
        ending: Ending = "timeLimit"
        with anyio.move_on_after(self._task.time_limit_seconds):
            async with aclosing(thread.prompt(self._task.prompt)) as changes:
                async for change in changes:
                    match change.record.event:
                        case UsageReported():
                            self._budget.spend(id(self), thread_cost(change.after, self._price_of) or 0.0)
                            if self._budget.is_spent:
                                ending = "budget"
                                break
                        case TurnEnded(status=status):
                            ending = "completed" if status == "completed" else "failed"
                        case _:
                            pass
        why = {"timeLimit": "the time limit is over", "budget": "the budget is spent"}.get(ending, "")
        if why:
            with suppress(HarnessError):
                await thread.interrupt()
        state = await thread.read()
        error = state.turns[-1].error if state.turns else None
        return AgentRun(ending=ending, why=why or (error.message if error else ""), state=state)

    async def _program(self, command: Sequence[str]) -> AgentRun:
        words = [word.replace(PROMPT_WORD, self._task.prompt) for word in command]
        on_stdin = not any(PROMPT_WORD in word for word in command)
        output = self._folder / "agent.txt"
        with output.open("wb") as sink:
            try:
                process = await anyio.open_process(
                    words,
                    cwd=self._files.workspace,
                    stdin=-1 if on_stdin else DEVNULL,
                    stdout=sink,
                    stderr=STDOUT,
                    start_new_session=True,
                )
            except OSError as problem:
                raise TaskBroken(f"cannot start {shlex.join(command)}: {problem.strerror}") from None
            try:
                with anyio.move_on_after(self._task.time_limit_seconds) as limit:
                    if process.stdin is not None:
                        with suppress(anyio.BrokenResourceError, BrokenPipeError):
                            await process.stdin.send(self._task.prompt.encode())
                        await process.stdin.aclose()
                    await process.wait()
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                with anyio.move_on_after(STOP_SECONDS, shield=True):
                    await process.wait()
        said = output.read_text(encoding="utf-8", errors="replace")
        if limit.cancelled_caught:
            return AgentRun(ending="timeLimit", why="the time limit is over", output=said)
        if process.returncode:
            return AgentRun(ending="failed", why=f"the agent ended with exit code {process.returncode}", output=said)
        return AgentRun(ending="completed", output=said)

    def _counted(self, result: TrialResult, done: AgentRun) -> TrialResult:
        if done.state is None:
            return result
        turns, used = done.state.turns, done.state.usage
        replies = {(turn.id, item.step) for turn in turns for item in turn.items if item.step > 0}
        replies |= {(turn.id, called.step) for turn in turns for called in turn.calls}
        calls = sum(len(turn.calls) for turn in turns)
        works = sum(isinstance(item, ToolItem) for turn in turns for item in turn.items)
        # An agent with a loop of its own tells what it did, and not how often it asked its model.
        own_loop = works and not calls
        return replace(
            result,
            steps=None if own_loop else len(replies),
            calls=calls or works,
            input_tokens=prompt_tokens(used),
            output_tokens=used.output_tokens,
            cost_usd=thread_cost(done.state, self._price_of),
        )

    def _save(self, done: AgentRun, checked: ScriptResult) -> None:
        """What can be looked at afterwards, next to the workspace."""
        (self._folder / "check.txt").write_text(checked.output, encoding="utf-8")
        if done.state is not None:
            model = self._contender.name if self._contender.scripted is not None else ""
            told: Json = trajectory(done.state, self._price_of, model=model)
            (self._folder / "trajectory.json").write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=2))


def _why(checked: ScriptResult) -> str:
    lines = [line for line in checked.output.splitlines() if line.strip()]
    said = lines[-1].strip()[:WHY_CHARS] if lines else f"its exit code is {checked.exit_code}"
    return f"the check failed: {said}"
