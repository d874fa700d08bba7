"""What a sandboxed command leaves behind must not run a program outside the sandbox later.

Each row plants something from inside, with real git and real bubblewrap, and then ordinary git commands are run
outside. A marker file that only a program outside can make says whether something planted was run.
"""

import pytest
from left_behind import BY_USER, PLANTED, scene
from walls import as_user, users

pytestmark = pytest.mark.needs("bwrap", "bash", "git")


async def run_rows(names: list[str]) -> dict[str, str]:
    """Every row in a workspace of its own, and what went wrong in it."""
    wrong: dict[str, str] = {}
    for name in names:
        row = PLANTED[name]
        with scene(repository=row.repository) as stage:
            if row.before:
                done = stage.outside(f"set -e; {row.before}")
                assert done.returncode == 0, (name, done.stderr)
            for command in row.commands:
                done = await stage.inside(command)
                if done.code != 0:
                    wrong[f"{name}: could not be planted"] = f"{done.code}: {done.text}"
            if ran := stage.ran(row.places):
                wrong[name] = ran
    return wrong


GROUPS = 16
ABOUT_MODES = [name for name in PLANTED if "cannot be" in name or "unreadable" in name]


@pytest.mark.parametrize("user", BY_USER)
@pytest.mark.parametrize(
    "group", [pytest.param(number, marks=[pytest.mark.slow] if number % 4 else []) for number in range(GROUPS)]
)
def test_nothing_that_was_planted_is_run_by_git_outside(group: int, user: str) -> None:
    assert as_user(user, "test_after_command:run_rows", list(PLANTED)[group::GROUPS]) == {}


@pytest.mark.parametrize("user", users())
def test_nothing_can_be_hidden_from_the_search_by_its_mode(user: str) -> None:
    assert len(ABOUT_MODES) > 4
    assert as_user(user, "test_after_command:run_rows", ABOUT_MODES) == {}
