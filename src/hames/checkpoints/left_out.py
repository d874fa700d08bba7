"""Which directories a checkpoint leaves out: those that the project ignores, because they can be made again.

A file that is ignored and lies outside of them, such as `.env`, is kept.
"""

import os
import subprocess

MADE_AGAIN = frozenset(
    {"node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
"""Left out by their names where git cannot tell: without git, and inside repositories below the workspace."""

_SECONDS = 3.0
_NO_REPOSITORY = {"HEAD": "ref: refs/heads/none\n", "config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"}


def ignored_directories(workspace: str, git: str, directory: str) -> frozenset[str] | None:
    """Relative paths. None: nobody can tell.

    git is shown an empty repository of ours and not the project's own, whose settings could name programs to run.
    """
    if not git:
        return None
    command = [
        git,
        f"--git-dir={_empty_repository(directory)}",
        f"--work-tree={workspace}",
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.fsmonitor=false",
        "-c",
        f"core.excludesFile={os.path.join(workspace, '.git', 'info', 'exclude')}",
        "ls-files",
        "-o",
        "-i",
        "--exclude-standard",
        "--directory",
        "-z",
    ]
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/nonexistent"}
    try:
        done = subprocess.run(
            command,
            cwd=workspace,
            env=environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    return frozenset(os.fsdecode(path[:-1]) for path in done.stdout.split(b"\0") if path.endswith(b"/"))


def _empty_repository(directory: str) -> str:
    place = os.path.join(directory, "no-repository")
    if not os.path.isfile(os.path.join(place, "config")):
        for name in ("objects", "refs"):
            os.makedirs(os.path.join(place, name), 0o700, exist_ok=True)
        for name, text in _NO_REPOSITORY.items():
            with open(os.path.join(place, name), "w", encoding="ascii") as file:
                file.write(text)
    return place
