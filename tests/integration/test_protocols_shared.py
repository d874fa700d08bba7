"""The tests of SSE, sync, ACP and the run protocols again, on threads that run in another process.

Bootstrap and flint have vectors for this: `scripts/prove_processes.py`, and their transcripts.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from spread_engines import SpreadEngines

TESTS = Path(__file__).resolve().parents[1]
MODULES = {
    "test_server_sse": "integration",
    "test_server_sync": "integration",
    "test_acp": "protocol",
    "test_client_tools": "integration",
    "test_agui": "integration",
    "test_openai_api": "integration",
}
ALWAYS = {
    "test_a_prompt_is_submitted_and_the_work_is_told",
    "test_a_question_is_told_and_answered",
    "test_the_typical_flow",
    "test_a_turn_streams_and_ends-1",
    "test_the_first_answer_to_a_permission_wins_everywhere-2",
}
"""The slice that `make test` runs."""
LEFT_OUT = {
    "test_cancel_at_any_moment": "the scripted model answers before a cancel can come from another process",
    "test_a_client_that_goes_during_the_call_fails_the_tool_and_not_the_turn": "looks into the engine's own threads",
    "test_a_tool_that_failed_is_a_result_the_model_reads": "looks into the engine's own threads",
    "test_without_a_client_the_tool_fails_in_words": "looks into the engine's own threads",
    "test_arguments_are_checked_before_the_client_is_asked": "looks into the engine's own threads",
    "test_pictures_reach_the_model_and_other_content_is_named": "looks into the engine's own threads",
}
"""And why. `test_shared_client_tools.py` has the same about tools of a client."""


def rows(module: Any) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Every test of a module with each set of its parameters."""
    for name, test in inspect.getmembers(module, inspect.iscoroutinefunction):
        if not name.startswith("test_"):
            continue
        choices: list[list[dict[str, Any]]] = []
        for mark in [*getattr(test, "pytestmark", []), *_module_marks(module)]:
            if mark.name == "parametrize":
                names, values = mark.args[0], mark.args[1]
                names = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
                choices.append([dict(zip(names, _values(value, names), strict=True)) for value in values])
        for number, chosen in enumerate(product(*choices), 1):
            given = {name: value for one in chosen for name, value in one.items()}
            yield f"{name}-{number}" if choices else name, test, given


def _module_marks(module: Any) -> list[Any]:
    found = getattr(module, "pytestmark", [])
    return [one.mark for one in (found if isinstance(found, list) else [found])]


def _values(value: Any, names: list[str]) -> list[Any]:
    value = getattr(value, "values", value) if type(value).__name__ == "ParameterSet" else value
    if isinstance(value, tuple) and len(names) == len(value):
        return list(value)
    return [value]


def collected() -> list[Any]:
    found: list[Any] = []
    for name, folder in MODULES.items():
        if (path := str(TESTS / folder)) not in sys.path:
            sys.path.insert(0, path)
        for row, test, given in rows(import_module(name)):
            if row.partition("-")[0] in LEFT_OUT:
                continue
            marks = () if row in ALWAYS else (pytest.mark.slow,)
            found.append(pytest.param(test, given, id=f"{name}-{row}", marks=marks))
    return found


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("test", "given"), collected())
async def test_a_client_notices_no_difference_when_its_threads_run_in_another_process(
    test: Callable[..., Any],
    given: dict[str, Any],
    count: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    wanted = [name for name in inspect.signature(test).parameters if name not in given]
    fixtures = {name: request.getfixturevalue(name) for name in wanted}
    with pytest.MonkeyPatch.context() as patch:
        engines = SpreadEngines(patch, tmp_path, count)
        await test(**given, **fixtures)
    if test.__name__ in {name.partition("-")[0] for name in ALWAYS}:
        assert engines.threads, "no thread ran in another process"
