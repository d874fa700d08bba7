"""Our agent, where somebody else's client expects its own."""

import sys
from pathlib import Path
from typing import NamedTuple

HAMES = str(Path(sys.executable).parent / "hames")


class Agent(NamedTuple):
    """`command` starts it over stdio, whatever else is said; `flags` are what it is started with."""

    command: str
    workspace: Path
    flags: list[str]

    @property
    def made(self) -> bool:
        return (self.workspace / "made-by-agent").exists()
