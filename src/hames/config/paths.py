"""Where things are kept for this user. Nothing here touches the disk.

Asked before the first answer of a server, so nothing but `os` is imported: callers that want a `Path` make one.
"""

import os
import sys
from collections.abc import Mapping

DATA = ".harness"
"""The data directory of a workspace."""
USER_CONFIG = "config.toml"
PROJECT_CONFIG = "hames.toml"


def user_config(environment: Mapping[str, str]) -> str:
    """The user's own configuration file."""
    return environment.get("HAMES_CONFIG") or _user_directory(environment, "XDG_CONFIG_HOME", ".config", USER_CONFIG)


def user_state(environment: Mapping[str, str]) -> str:
    """What must outlive a run and belongs to no workspace: trusted projects, which data directories are ours."""
    return environment.get("HAMES_STATE") or _user_directory(environment, "XDG_STATE_HOME", ".local/state")


def user_worktrees(environment: Mapping[str, str]) -> str:
    """Where the worktrees of threads are: outside of every repository, so that no tool finds two projects in one, and
    outside of the state directory, which commands must not see."""
    return _user_directory(environment, "XDG_DATA_HOME", ".local/share", "worktrees")


def data_directory(cwd: str, named: str | None) -> str:
    return os.path.abspath(named) if named else f"{cwd}/{DATA}"  # noqa: PTH100 - see above


def _user_directory(environment: Mapping[str, str], variable: str, usual: str, *names: str) -> str:
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    if sys.platform == "darwin":
        base = f"{home}/Library/Application Support"
    else:
        named = environment.get(variable, "")
        # A relative path there would lead into the workspace.
        base = named if named.startswith("/") else f"{home}/{usual}"
    return "/".join((base.rstrip("/"), "hames", *names))
