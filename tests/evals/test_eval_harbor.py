"""Harbor's own code reads what we write: trajectories, tasks, and the agent. Installed once into `.tools/harbor`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from eval_support import TASKS

from hames import __version__
from hames.sandbox.walls.probe import bubblewrap_here

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".tools" / "harbor"
HARBOR = "harbor==0.24.0"
PYTHONS = ("python3.14", "python3.13", "python3.12")

pytestmark = [pytest.mark.slow, pytest.mark.needs("bwrap")]

READ_ALL = """
import json, pathlib, sys
from harbor.models.task.task import Task
from harbor.models.trajectories import Trajectory
for path in pathlib.Path(sys.argv[1]).glob("*/trajectory.json"):
    print("trajectory", len(Trajectory.model_validate(json.loads(path.read_text())).steps) > 1)
for path in pathlib.Path(sys.argv[2]).iterdir():
    print("task", bool(Task(path).instruction))
"""
READ_STEPS = """
import json, pathlib, sys
from harbor.models.trajectories import Trajectory
told = Trajectory.model_validate(json.loads(pathlib.Path(sys.argv[1]).read_text()))
print(told.agent.name, len(told.steps), sep="\\n")
"""
RUN_AGENT = """
import asyncio, os, pathlib, sys
from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext
from hames.evals.harbor.agent import HamesAgent

class Here:
    default_user = None

    async def exec(self, command, cwd=None, env=None, **_):
        process = await asyncio.create_subprocess_shell(
            command, cwd=cwd or sys.argv[2], env={**os.environ, **(env or {})}, stdout=-1, stderr=-1,
            executable="/bin/bash")
        out, err = await process.communicate()
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode)

logs = pathlib.Path(sys.argv[1])
agent = HamesAgent(logs_dir=logs, model_name=sys.argv[3])
agent.environment_logs_dir = pathlib.PurePosixPath(logs)
context = AgentContext()
asyncio.run(agent.run("Say 'hello' & leave.", Here(), context))
agent.populate_context_post_run(context)
print(context.n_input_tokens > 0, context.n_output_tokens > 0)
"""
INSTALL_AGENT = """
import asyncio, os, pathlib, shutil, sys
from harbor.environments.base import ExecResult
from hames.evals.harbor.agent import HamesAgent

class Machine:
    default_user = None

    async def exec(self, command, cwd=None, env=None, **_):
        home = {"HOME": sys.argv[2], "PATH": f"{sys.argv[4]}:/usr/bin:/bin"}
        keep = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_"))}
        process = await asyncio.create_subprocess_shell(
            command, cwd=sys.argv[2], env={**keep, **home, **(env or {})}, stdout=-1, stderr=-1, executable="/bin/bash")
        out, err = await process.communicate()
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode)

    async def upload_file(self, source_path, target_path):
        shutil.copy(source_path, target_path)

agent = HamesAgent(logs_dir=pathlib.Path(sys.argv[1]), model_name="scripted/hello", package=sys.argv[3])
asyncio.run(agent.install(Machine()))
found = asyncio.run(Machine().exec(agent.get_version_command()))
print(agent.parse_version(found.stdout))
"""


@pytest.fixture(scope="session")
def harbor_python() -> str:
    """A Python with Harbor; it needs 3.12."""
    python, mark = HOME / "bin" / "python", HOME / "installed"
    if not mark.exists() or mark.read_text() != HARBOR:
        versions = sorted(map(str, Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python")), reverse=True)
        found = next(filter(_runs, [*(shutil.which(name) or "" for name in PYTHONS), *versions]), None)
        if found is None:
            pytest.skip("Harbor needs Python 3.12, which this machine does not have")
        uv = str(Path(sys.executable).parent / "uv")
        for words in (
            [uv, "venv", "-q", "--clear", "--python", found, str(HOME)],
            [uv, "pip", "install", "-q", "--python", str(python), HARBOR],
        ):
            done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
            assert done.returncode == 0, done.stderr
        mark.write_text(HARBOR)
    return str(python)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    uv = Path(sys.executable).parent / "uv"
    done = subprocess.run([uv, "build", "-q", "--wheel", "--out-dir", folder, ROOT], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    [built] = folder.glob("*.whl")
    return built


def _runs(path: str) -> bool:
    """A version manager has names for versions that are not installed."""
    return bool(path) and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0


def in_harbor(python: str, program: str, *words: str) -> list[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [python, "-c", program, *words], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_harbor_reads_every_trajectory_and_every_task(harbor_python: str, tmp_path: Path) -> None:
    hames = [sys.executable, "-m", "hames", "eval", str(TASKS)]
    out, tasks = tmp_path / "out", tmp_path / "tasks"
    subprocess.run([*hames, "--agent", "perturbed", "--jobs", "3", "--out", str(out)], check=True, timeout=300)
    subprocess.run([*hames, "--export-harbor", str(tasks)], check=True, timeout=60)
    told = in_harbor(harbor_python, READ_ALL, str(out), str(tasks))
    assert told == ["trajectory True"] * 30 + ["task True"] * 30


def test_harbor_runs_hames_and_counts_its_tokens(harbor_python: str, tmp_path: Path) -> None:
    logs, workspace = tmp_path / "logs", tmp_path / "workspace"
    logs.mkdir()
    workspace.mkdir()
    told = in_harbor(harbor_python, RUN_AGENT, str(logs), str(workspace), "scripted/hello")
    assert told == ["True True"]
    assert "Say 'hello' & leave." in (logs / "trajectory.json").read_text()
    assert '"type":"result"' in (logs / "hames.jsonl").read_text().replace(" ", "")


def test_harbor_installs_hames_from_a_wheel(harbor_python: str, wheel: Path, tmp_path: Path) -> None:
    """On this machine, in a home directory of its own. In a container it is the same commands as another user."""
    home, programs = tmp_path / "home", tmp_path / "programs"
    for folder in (home, programs):
        folder.mkdir()
    (programs / "uv").symlink_to(Path(sys.executable).parent / "uv")
    told = in_harbor(harbor_python, INSTALL_AGENT, str(tmp_path), str(home), str(wheel), str(programs))
    assert told == [__version__]
    assert (home / ".local" / "bin" / "hames").exists()
    Path("/tmp", wheel.name).unlink()


@pytest.mark.parametrize(
    ("script", "reward", "fails"),
    [("oracle", 1.0, False), ('["I did nothing."]', 0.0, False), ('[{"fail": "out of order"}]', 0.0, True)],
    ids=["oracle", "does-nothing", "fails"],
)
def test_harbor_runs_a_trial_from_the_wheel_to_the_reward(  # noqa: PLR0917
    harbor_python: str, wheel: Path, tmp_path: Path, script: str, reward: float, fails: bool
) -> None:
    """`harbor run` itself: it sets up the container, installs, runs, fetches the logs, checks and counts. Only the
    container is one of bubblewrap, not of Docker."""
    tasks, programs, jobs, root = (tmp_path / name for name in ("tasks", "programs", "jobs", "root"))
    for folder in (programs, root):
        folder.mkdir()
    shutil.copy(Path(sys.executable).parent / "uv", programs / "uv")
    oracle = TASKS / "fix-off-by-one" / "oracle.json"
    (programs / "script.json").write_text(oracle.read_text() if script == "oracle" else script)
    exported = [sys.executable, "-m", "hames", "eval", str(TASKS / "fix-off-by-one"), "--export-harbor", str(tasks)]
    subprocess.run(exported, check=True, timeout=60)
    variables = {
        "HOME": str(tmp_path),
        "PYTHONPATH": f"{ROOT / 'src'}:{Path(__file__).parent}",
        "HARBOR_TELEMETRY": "0",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "TEST_ROOT": str(root),
        "TEST_PROGRAMS": str(programs),
        "TEST_BWRAP": bubblewrap_here().path,
    }
    words = ["run", "-y", "-p", str(tasks / "fix-off-by-one"), "-o", str(jobs), "--model", "scripted//opt/script.json"]
    words += ["-e", "harbor_environment:BubblewrapEnvironment", "--ak", f"package={wheel}"]
    words += ["--agent", "hames.evals.harbor.agent:HamesAgent"]
    harbor = Path(harbor_python).with_name("harbor")
    done = subprocess.run(
        [harbor, *words], env={**os.environ, **variables}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [trial] = jobs.glob("*/fix-off-by-one__*")
    result = json.loads((trial / "result.json").read_text())
    assert result["verifier_result"]["rewards"] == {"reward": reward}
    assert result["agent_info"]["name"] == "hames"
    assert result["agent_info"]["version"] == __version__
    assert (result["exception_info"] is not None) == fails
    told = in_harbor(harbor_python, READ_STEPS, str(trial / "agent" / "trajectory.json"))
    assert told[0] == "hames"
    assert int(told[1]) >= 1
    if not fails:
        assert result["agent_result"]["n_input_tokens"] > 0
    assert not any(root.iterdir()), "the container is gone"
