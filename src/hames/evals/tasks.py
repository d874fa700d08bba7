"""A task is a folder: a prompt, a workspace to start from, a check that decides, and a solution that passes it.

    fix-rounding/
      task.toml       prompt = "…", and optionally category and time_limit_seconds
      workspace/      files that the agent finds
      setup.sh        runs in the workspace before the agent, for what files cannot say (a git history)
      check.sh        or check.py; runs in a copy of the workspace afterwards: exit code 0 means passed
      solution.sh     or oracle.json: what the agent `oracle` does

Of `workspace/` and `setup.sh` one is enough. Everything else in the folder belongs to the checks.
"""

import tomllib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from hames.domain.errors import Misconfigured
from hames.domain.value import Value

TASK_FILE = "task.toml"
CHECKS = {"check.sh": ("/bin/bash",), "check.py": ("/usr/bin/env", "python3", "-I")}
"""The programs that run a check. Python runs isolated: a module in the workspace must not replace one of its own."""
DEFAULT_SECONDS = 600.0


class TaskFile(Value, forbid_unknown_fields=True):
    """What `task.toml` may say."""

    prompt: str
    category: str = ""
    time_limit_seconds: float = DEFAULT_SECONDS


class EvalTask(Value):
    name: str
    folder: Path
    prompt: str
    category: str = ""
    time_limit_seconds: float = DEFAULT_SECONDS

    @property
    def workspace(self) -> Path | None:
        return self._existing("workspace")

    @property
    def setup(self) -> Path | None:
        return self._existing("setup.sh")

    @property
    def solution(self) -> Path | None:
        return self._existing("oracle.json") or self._existing("solution.sh")

    @property
    def check_command(self) -> tuple[str, ...]:
        name = next(name for name in CHECKS if (self.folder / name).is_file())
        return (*CHECKS[name], str(self.folder / name))

    def _existing(self, name: str) -> Path | None:
        path = self.folder / name
        return path if path.exists() else None


def load_task(folder: Path) -> EvalTask:
    """Raises `Misconfigured`."""
    folder = folder.resolve()
    path = folder / TASK_FILE
    try:
        written = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), TaskFile)
    except (OSError, ValueError) as problem:
        raise Misconfigured(f"{str(path)!r} cannot be used as a task: {problem}") from None
    task = EvalTask(
        name=folder.name,
        folder=folder,
        prompt=written.prompt.strip(),
        category=written.category,
        time_limit_seconds=written.time_limit_seconds,
    )
    if not task.prompt:
        raise Misconfigured(f"the task {task.name!r} has an empty prompt")
    if task.time_limit_seconds <= 0:
        raise Misconfigured(f"time_limit_seconds of the task {task.name!r} must be above 0")
    if not any((folder / name).is_file() for name in CHECKS):
        raise Misconfigured(f"the task {task.name!r} has no check: write {' or '.join(CHECKS)}")
    if task.workspace is None and task.setup is None:
        raise Misconfigured(f"the task {task.name!r} has neither workspace/ nor setup.sh")
    return task


def find_tasks(paths: Iterable[Path], *, only: Sequence[str] = ()) -> list[EvalTask]:
    """The tasks at these paths, each a task or a folder of tasks. `only` are patterns of names.

    Raises `Misconfigured`.
    """
    found: dict[str, EvalTask] = {}
    for path in paths:
        if not path.is_dir():
            raise Misconfigured(f"no folder {str(path)!r}")
        folders = [path] if (path / TASK_FILE).is_file() else sorted(path.glob(f"*/{TASK_FILE}"))
        if not folders:
            raise Misconfigured(f"there is no task in {str(path)!r}: a task is a folder with {TASK_FILE}")
        for folder in folders:
            task = load_task(folder if folder.is_dir() else folder.parent)
            if found.setdefault(task.name, task) != task:
                raise Misconfigured(f"two tasks are named {task.name!r}")
    chosen = [task for name, task in found.items() if not only or any(fnmatchcase(name, one) for one in only)]
    if not chosen:
        raise Misconfigured(f"no task is named like {', '.join(only)}")
    return chosen
