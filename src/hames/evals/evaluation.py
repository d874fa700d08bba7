"""All trials of an evaluation, several at a time, each in a folder of its own."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
from msgspec.structs import replace

from hames import __version__
from hames.app import catalogue
from hames.app.sandboxes import describe_sandbox
from hames.config.load import Options
from hames.domain.errors import Misconfigured, SandboxUnavailable
from hames.domain.policy import WorkspaceWrite
from hames.domain.value import Value
from hames.evals.results import EvalReport, TrialResult, report
from hames.evals.tasks import EvalTask
from hames.evals.trial import Budget, Contender, Trial
from hames.evals.workspaces import script_policy

KEPT = ("trajectory.json", "check.txt", "agent.txt")
"""The files of a trial that are copied to the output folder."""


class EvalPlan(Value):
    contender: Contender
    tasks: tuple[EvalTask, ...]
    repeat: int = 1
    jobs: int = 1
    budget: float | None = None


async def evaluate(
    plan: EvalPlan,
    options: Options,
    folder: Path,
    *,
    on_result: Callable[[TrialResult], None] = lambda _: None,
    stop: anyio.CancelScope | None = None,
) -> EvalReport:
    """`folder` is where the trials work; each gets `TASK-NUMBER` below it. Raises `Misconfigured`,
    `UnknownModel`.

    If `stop` is cancelled, the report has the trials that had ended by then.

    The configuration's models, keys and limits apply. What would make results differ from one user to the next does
    not: the user's project notes, MCP servers and list of threads.
    """
    options = replace(options, state_dir=folder / "state", notes_dir=folder / "state", mcp_servers={})
    _check_plan(plan, options)
    await _check_sandbox(options)
    budget = Budget(plan.budget)
    started = time.monotonic()
    found: dict[tuple[int, int], TrialResult] = {}
    free = anyio.CapacityLimiter(plan.jobs)

    async def run(place: int, task: EvalTask, number: int) -> None:
        async with free:
            trial_folder = folder / f"{task.name}-{number}"
            trial_folder.mkdir(parents=True)
            trial = Trial(task, plan.contender, options, folder=trial_folder, budget=budget, number=number)
            result = await trial.run()
        found[place, number] = result
        on_result(result)

    with stop or anyio.CancelScope():
        async with anyio.create_task_group() as trials:
            for number in range(1, plan.repeat + 1):
                for place, task in enumerate(plan.tasks):
                    trials.start_soon(run, place, task, number)
    results: Sequence[TrialResult] = [found[key] for key in sorted(found)]
    seconds = time.monotonic() - started
    return report(plan.contender.name, __version__, results, repeat=plan.repeat, seconds=seconds)


def _check_plan(plan: EvalPlan, options: Options) -> None:
    """Nothing is begun with a model that nobody knows, or with a limit that cannot be kept."""
    if plan.contender.scripted is not None:
        return
    if plan.contender.command:
        if plan.budget is not None:
            raise Misconfigured("--budget cannot be kept with --command: what another program spends is not known here")
        return
    models = catalogue(options)
    card = models.find(plan.contender.model or options.model or models.default)
    if not card.usable:
        raise Misconfigured(f"the model {card.id!r} cannot be used: its provider has no key. Run `hames setup`")
    if plan.budget is not None and card.price is None:
        raise Misconfigured(f"--budget cannot be kept: the price of {card.id!r} is not known")


async def _check_sandbox(options: Options) -> None:
    """Raises `SandboxUnavailable`."""
    if isinstance(script_policy(options.sandbox), WorkspaceWrite) and not options.allow_degraded:
        has_sandbox, sentence = await describe_sandbox()
        if not has_sandbox:
            raise SandboxUnavailable(
                f"{sentence}; in a container, --sandbox externalSandbox runs agents and checks without one"
            )
