"""The solutions of the tasks, played through every way into Hames. `make eval` plays all of them."""

from pathlib import Path

import pytest
from eval_support import SURFACES, all_tasks, play_through

from hames.evals.tasks import EvalTask

SLICE = ("fix-rounding", "merge-conflict-rebase")
"""What `make test` plays: tools for files, and commands with git."""

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.needs("git")]


def cases() -> list[object]:
    found: list[object] = []
    for surface in SURFACES:
        for task in all_tasks():
            quick = task.name in SLICE and (surface != "terminal" or task.name == SLICE[0])
            marks = [] if quick else [pytest.mark.slow]
            if surface == "terminal":
                marks.append(pytest.mark.needs("tmux"))
            found.append(pytest.param(surface, task, id=f"{surface}-{task.name}", marks=marks))
    return found


@pytest.mark.parametrize(("surface", "task"), cases())
async def test_the_oracle_passes(surface: str, task: EvalTask, tmp_path: Path) -> None:
    await play_through(surface, task, tmp_path)
