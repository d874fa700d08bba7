"""The tasks of this repository: their solutions pass, and doing nothing does not."""

from pathlib import Path

import pytest
from eval_support import all_tasks, options

from hames.evals.evaluation import EvalPlan, evaluate
from hames.evals.results import EvalReport, failures
from hames.evals.solutions import MISTAKES, ScriptedAgent
from hames.evals.tasks import EvalTask
from hames.evals.trial import Contender

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.needs("git")]
KINDS = {
    "fixing",
    "refactoring",
    "server",
    "long output",
    "large repository",
    "misleading notes",
    "merge conflict",
    "interrupted work",
}


async def played(agent: ScriptedAgent, tasks: list[EvalTask], folder: Path) -> EvalReport:
    contender = Contender(name=agent, scripted=agent)
    plan = EvalPlan(contender=contender, tasks=tuple(tasks), jobs=3)
    work = folder / "work"
    work.mkdir()
    return await evaluate(plan, options(folder), work)


def test_there_are_thirty_tasks_of_eight_kinds() -> None:
    tasks = all_tasks()
    assert len(tasks) == 30
    assert {task.category for task in tasks} == KINDS


async def test_the_oracle_passes_every_task(tmp_path: Path) -> None:
    found = await played("oracle", all_tasks(), tmp_path)
    assert failures(found) == []
    assert found.passed == 30


async def test_an_agent_that_does_nothing_passes_no_task(tmp_path: Path) -> None:
    found = await played("nothing", all_tasks(), tmp_path)
    assert [one.task for one in found.results if one.passed] == []
    assert {one.ending for one in found.results} == {"completed"}, "the checks decided, not a failure on the way"


async def test_the_oracle_passes_with_mistakes_in_between(tmp_path: Path) -> None:
    few = [task for task in all_tasks() if task.name.startswith(("fix-", "refactor-d"))]
    found = await played("perturbed", few, tmp_path)
    assert failures(found) == []
    assert sum(one.steps or 0 for one in found.results) > len(MISTAKES), "each kind of mistake was made"


@pytest.mark.slow
async def test_the_oracle_passes_every_task_with_mistakes_in_between(tmp_path: Path) -> None:
    found = await played("perturbed", all_tasks(), tmp_path)
    assert failures(found) == []
