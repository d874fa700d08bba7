"""Our tasks in Harbor's layout, so that any agent that Harbor knows can work on them in a container.

The check becomes Harbor's test: it runs in a copy of the workspace and writes the reward. A solution of tool calls
(`oracle.json`) has no form there; `solution.sh` has.
"""

import json
import shutil
from pathlib import Path

from hames.evals.tasks import EvalTask

WORKSPACE = "/app"
DOCKERFILE = f"""\
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends bash ca-certificates curl git python3 \\
    && rm -rf /var/lib/apt/lists/*
WORKDIR {WORKSPACE}
COPY workspace/ {WORKSPACE}/
"""
RUN_SETUP = "COPY setup.sh /tmp/setup.sh\nRUN bash /tmp/setup.sh && rm /tmp/setup.sh\n"
TEST = """\
#!/bin/bash
# The check runs in a copy: it may leave files behind.
rm -rf /tmp/checked && cp -a {workspace} /tmp/checked && cd /tmp/checked || exit 1
mkdir -p /logs/verifier
{command}
if [ $? -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def export_task(task: EvalTask, folder: Path) -> Path:
    """The new folder, below `folder`. What was there under this name is replaced."""
    target = folder / task.name
    shutil.rmtree(target, ignore_errors=True)
    environment, tests = target / "environment", target / "tests"
    environment.mkdir(parents=True)
    (target / "instruction.md").write_text(task.prompt + "\n", encoding="utf-8")
    (target / "task.toml").write_text(_config(task), encoding="utf-8")
    dockerfile = DOCKERFILE
    if task.workspace is not None:
        shutil.copytree(task.workspace, environment / "workspace")
    else:
        (environment / "workspace").mkdir()
        (environment / "workspace" / ".keep").touch()
        dockerfile += f"RUN rm {WORKSPACE}/.keep\n"
    if task.setup is not None:
        shutil.copyfile(task.setup, environment / "setup.sh")
        dockerfile += RUN_SETUP
    (environment / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    own = ("task.toml", "solution.sh", "oracle.json")
    shutil.copytree(task.folder, tests, ignore=lambda _, names: [name for name in names if name in own])
    *program, script = task.check_command
    command = " ".join([*program, f"/tests/{Path(script).name}"])
    (tests / "test.sh").write_text(TEST.format(workspace=WORKSPACE, command=command), encoding="utf-8")
    if task.solution is not None and task.solution.suffix == ".sh":
        (target / "solution").mkdir()
        shutil.copyfile(task.solution, target / "solution" / "solve.sh")
    return target


def _config(task: EvalTask) -> str:
    return (
        'schema_version = "1.4"\n\n'
        f"[metadata]\ncategory = {json.dumps(task.category)}\n\n"
        "[verifier]\ntimeout_sec = 120.0\n\n"
        f"[agent]\ntimeout_sec = {task.time_limit_seconds}\n"
    )
