"""Where things are kept for this user. Nothing here touches the disk."""

from collections.abc import Mapping
from pathlib import Path

from platformdirs import PlatformDirs

DATA = ".harness"
"""The data directory of a workspace."""
USER_CONFIG = "config.toml"
PROJECT_CONFIG = "hames.toml"


def user_config(environment: Mapping[str, str]) -> Path:
    if named := environment.get("HAMES_CONFIG"):
        return Path(named)
    return PlatformDirs("hames", appauthor=False).user_config_path / USER_CONFIG


def user_state(environment: Mapping[str, str]) -> Path:
    """What must outlive a run and belongs to no workspace: trusted projects, which data directories are ours."""
    if named := environment.get("HAMES_STATE"):
        return Path(named)
    return PlatformDirs("hames", appauthor=False).user_state_path


def data_directory(cwd: Path, named: str | None) -> Path:
    return Path(named).absolute() if named else cwd / DATA
