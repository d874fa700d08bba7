"""Whether Codex is on this machine. Asked at every start, so nothing heavy is imported here."""

from collections.abc import Mapping
from pathlib import Path

from hames.executables import find_program, with_interpreter

NAME = "codex"


def codex_command(environment: Mapping[str, str], workspace: str = "") -> list[str]:
    """How Codex is started: named by `HAMES_CODEX`, or found on the PATH outside the workspace. Empty: not there."""
    path, named = environment.get("PATH"), environment.get("HAMES_CODEX", "")
    found = str(Path(named).absolute()) if "/" in named else find_program(named or NAME, path=path, workspace=workspace)
    return with_interpreter(found, path=path, workspace=workspace) if found else []
