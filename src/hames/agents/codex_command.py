"""Whether Codex is on this machine. Asked at every start, so nothing heavy is imported here."""

import shutil
from collections.abc import Mapping

NAME = "codex"


def codex_command(environment: Mapping[str, str]) -> str | None:
    """Where Codex is: named by `HAMES_CODEX`, or on the PATH."""
    return environment.get("HAMES_CODEX") or shutil.which("codex", path=environment.get("PATH"))
