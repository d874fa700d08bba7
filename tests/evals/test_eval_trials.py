"""One trial: what the agent may reach, what the check sees, and when it ends."""

import json
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from eval_support import options
from hypothesis import given

from hames.domain.errors import Misconfigured
from hames.domain.events import Record
from hames.domain.usage import Usage
from hames.evals.evaluation import EvalPlan, evaluate
from hames.evals.results import EvalReport, TrialResult
from hames.evals.tasks import EvalTask, find_tasks, load_task
from hames.evals.trajectory import trajectory
from hames.evals.trial import Contender
from hames.testing.generators.histories import folded, histories
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import ProviderServer, ServerTalk, Words, talk

pytestmark = pytest.mark.needs("bwrap")
ORACLE = Contender(name="oracle", scripted="oracle")
SCHEMA = json.loads((Path(__file__).parent / "atif.schema.json").read_text())
MODEL = Contender(name="a model", model="anthropic/claude-sonnet-4-5")


def make_task(folder: Path, name: str = "task", *, prompt: str = "Do it.", limit: float = 60, **files: str) -> EvalTask:
    """`check` is check.sh, `solution` is solution.sh, `setup` is setup.sh, `oracle` is oracle.json."""
    names = {"check": "check.sh", "solution": "solution.sh", "setup": "setup.sh", "oracle": "oracle.json"}
    path = folder / "tasks" / name
    (path / "workspace").mkdir(parents=True)
    (path / "task.toml").write_text(f"prompt = {json.dumps(prompt)}\ntime_limit_seconds = {limit}\n")
    for key, text in files.items():
        (path / names.get(key, key)).write_text(text)
    return load_task(path)


async def run(
    folder: Path, *tasks: EvalTask, contender: Contender = ORACLE, env: Any = None, **plan: Any
) -> EvalReport:
    work = folder / "work"
    work.mkdir()
    with anyio.fail_after(120):
        return await evaluate(EvalPlan(contender=contender, tasks=tasks, **plan), options(folder, env), work)


async def one(folder: Path, task: EvalTask, **more: Any) -> TrialResult:
    return (await run(folder, task, **more)).results[0]


async def test_the_agent_can_neither_read_nor_change_the_task(tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "task"
    spy = f"cat {folder}/check.sh > stolen; echo 'exit 0' > {folder}/check.sh; touch tried"
    task = make_task(tmp_path, check="[ -e tried ] && [ ! -s stolen ]", solution=spy)
    result = await one(tmp_path, task)
    assert result.passed, result.why
    assert (folder / "check.sh").read_text() == "[ -e tried ] && [ ! -s stolen ]"


async def test_the_check_runs_in_a_copy_and_cannot_write_elsewhere(tmp_path: Path) -> None:
    check = f"touch left-by-check && ! touch {tmp_path}/escaped && ! touch {tmp_path}/tasks/task/escaped"
    task = make_task(tmp_path, check=check, solution="true")
    assert (await one(tmp_path, task)).passed
    assert not (tmp_path / "escaped").exists()
    assert not (tmp_path / "work" / "task-1" / "workspace" / "left-by-check").exists()


async def test_a_module_of_the_workspace_replaces_none_of_a_python_check(tmp_path: Path) -> None:
    cheat = "printf 'import os\\nos._exit(0)\\n' > json.py; cp json.py sitecustomize.py; cp json.py os.py"
    task = make_task(tmp_path, solution=cheat, **{"check.py": "import json, sys\nsys.exit(3)\n"})
    result = await one(tmp_path, task)
    assert not result.passed
    assert result.why == "the check failed: its exit code is 3"


async def test_pipes_and_links_that_an_agent_leaves_do_not_hold_up_the_check(tmp_path: Path) -> None:
    made = "mkfifo pipe; ln -s /etc/hostname link; ln -s nowhere gone; mkdir -p a/b; touch a/b/c"
    task = make_task(tmp_path, check="[ -L link ] && [ -L gone ] && [ -e a/b/c ] && [ ! -e pipe ]", solution=made)
    result = await one(tmp_path, task)
    assert result.passed, result.why


async def test_a_time_limit_ends_the_agent_and_the_check_still_decides(tmp_path: Path) -> None:
    task = make_task(tmp_path, limit=1, setup="touch made", check="[ -e made ]", oracle='[[{"hang": true}]]')
    result = await one(tmp_path, task)
    assert result.ending == "timeLimit"
    assert result.passed, "what is there counts"


async def test_a_task_whose_setup_fails_is_called_broken(tmp_path: Path) -> None:
    task = make_task(tmp_path, check="true", solution="true", setup="echo no such thing; exit 4")
    result = await one(tmp_path, task)
    assert (result.passed, result.ending) == (False, "broken")
    assert result.why == "setup.sh of the task 'task' failed: no such thing"


async def test_trials_are_repeated_each_in_a_workspace_of_its_own(tmp_path: Path) -> None:
    tasks = [make_task(tmp_path, name, check="[ $(ls | wc -l) = 1 ]", solution="touch $RANDOM") for name in ("a", "b")]
    found = await run(tmp_path, *tasks, repeat=3, jobs=2)
    assert [(one.task, one.number) for one in found.results] == [(name, n) for name in "ab" for n in (1, 2, 3)]
    assert found.passed == found.trials == 6


async def test_the_budget_stops_the_trials_that_come_later(tmp_path: Path) -> None:
    tasks = [make_task(tmp_path, name, check="true") for name in ("a", "b")]
    dear = ServerTalk(parts=(Words(text="Done."),), usage=Usage(input_tokens=1_000_000, output_tokens=10))
    async with ProviderServer(ANTHROPIC, then=dear) as server:
        env = {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": server.url}
        found = await run(tmp_path, *tasks, contender=MODEL, env=env, budget=1.0)
    assert [result.ending for result in found.results][1:] == ["notRun"]
    assert found.results[1].why == "not run: the budget is spent"
    assert found.cost_usd is not None
    assert found.cost_usd > 1.0


async def test_a_model_is_counted_in_steps_tokens_and_dollars(tmp_path: Path) -> None:
    task = make_task(tmp_path, check="false")
    async with ProviderServer(ANTHROPIC, then=talk("I give up.")) as server:
        env = {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": server.url}
        result = await one(tmp_path, task, contender=MODEL, env=env)
    assert (result.steps, result.calls, result.input_tokens, result.output_tokens) == (1, 0, 12, 7)
    assert result.cost_usd is not None
    assert 0 < result.cost_usd < 0.001


async def test_a_budget_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    task = make_task(tmp_path, check="true")
    unknown = Contender(name="x", model="scripted/hello")
    with pytest.raises(Misconfigured, match="the price of 'scripted/hello' is not known"):
        await run(tmp_path, task, contender=unknown, budget=1.0)


@pytest.mark.parametrize("words", [("sh", "-c", 'echo "$0" > said', "{prompt}"), ("sh", "-c", "cat > said")])
async def test_any_program_can_be_the_agent(tmp_path: Path, words: tuple[str, ...]) -> None:
    task = make_task(tmp_path, prompt="Say it's {done}.", check='[ "$(cat said)" = "Say it\'s {done}." ]')
    result = await one(tmp_path, task, contender=Contender(name="a program", command=words))
    assert (result.passed, result.ending, result.steps) == (True, "completed", None), result.why


async def test_an_agent_program_is_ended_with_its_children_at_the_time_limit(tmp_path: Path) -> None:
    words = ("sh", "-c", "echo $$ > group; sleep 600 & sleep 600")
    task = make_task(tmp_path, limit=5, check="false")
    result = await one(tmp_path, task, contender=Contender(name="slow", command=words))
    assert (result.ending, result.why) == ("timeLimit", "the time limit is over")
    group = int((tmp_path / "work" / "task-1" / "workspace" / "group").read_text())
    alive = [p for p in Path("/proc").glob("[0-9]*/stat") if _group(p) == group]
    assert alive == []


def _group(stat: Path) -> int:
    try:
        fields = stat.read_text().rpartition(")")[2].split()
        return int(fields[2]) if fields[0] != "Z" else 0
    except OSError:
        return 0


async def test_a_trajectory_matches_the_schema_of_harbor(tmp_path: Path) -> None:
    replies = [
        [{"think": "Hm."}, {"say": "I try."}, {"call": "shell", "with": {"command": "echo hi"}}],
        [{"call": "shell", "arguments": "{broken"}],
        [{"call": "shell", "with": {"command": "exit 1"}}, {"call": "shell", "with": {"command": "true"}}],
        "Done.",
    ]
    await one(tmp_path, make_task(tmp_path, check="true", oracle=json.dumps(replies)))
    told = json.loads((tmp_path / "work" / "task-1" / "trajectory.json").read_text())
    jsonschema.validate(told, SCHEMA)
    steps = told["steps"]
    assert [step["step_id"] for step in steps] == [1, 2, 3, 4, 5]
    assert [step["source"] for step in steps] == ["user", *["agent"] * 4]
    assert (steps[1]["message"], steps[1]["reasoning_content"]) == ("I try.", "Hm.")
    assert "hi" in steps[1]["observation"]["results"][0]["content"]
    assert steps[2]["tool_calls"][0]["extra"] == {"raw_arguments": "{broken"}
    for step in steps:
        calls = [call["tool_call_id"] for call in step.get("tool_calls", [])]
        assert [result["source_call_id"] for result in step.get("observation", {}).get("results", [])] == calls
    assert steps[3]["observation"]["results"][0]["extra"] == {"status": "failed"}
    assert told["final_metrics"]["total_steps"] == 5


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("", "missing required field `prompt`"),
        ('prompt = " "', "has an empty prompt"),
        ('prompt = "x"\ntime_limit = 3', "unknown field `time_limit`"),
        ('prompt = "x"\ntime_limit_seconds = 0', "must be above 0"),
        ("prompt = x", "cannot be used as a task"),
    ],
)
def test_a_task_file_that_makes_no_sense_is_refused(tmp_path: Path, written: str, sentence: str) -> None:
    folder = make_task(tmp_path, check="true").folder
    (folder / "task.toml").write_text(written)
    with pytest.raises(Misconfigured, match=sentence):
        load_task(folder)


def test_a_folder_without_tasks_a_check_or_a_workspace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="there is no task in"):
        find_tasks([tmp_path])
    with pytest.raises(Misconfigured, match="no folder"):
        find_tasks([tmp_path / "nowhere"])
    folder = make_task(tmp_path, check="true").folder
    with pytest.raises(Misconfigured, match="no task is named like x-\\*"):
        find_tasks([folder.parent], only=["x-*"])
    (folder / "workspace").rmdir()
    with pytest.raises(Misconfigured, match=r"neither workspace/ nor setup\.sh"):
        load_task(folder)
    (folder / "check.sh").unlink()
    with pytest.raises(Misconfigured, match="has no check"):
        load_task(folder)


@given(histories())
def test_every_history_is_a_trajectory_of_harbor(history: list[Record]) -> None:
    told = trajectory(folded(history), lambda _: None)
    if told["steps"]:  # Harbor wants one at least
        jsonschema.validate(told, SCHEMA)
    for number, step in enumerate(told["steps"], start=1):
        assert step["step_id"] == number
        calls = [call["tool_call_id"] for call in step.get("tool_calls", [])]
        assert len(set(calls)) == len(calls)
        assert [one["source_call_id"] for one in step.get("observation", {}).get("results", [])] == calls
        assert step["source"] == "agent" or not step.keys() & {"tool_calls", "reasoning_content", "metrics"}
