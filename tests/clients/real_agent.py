"""Our agent, where somebody else's client expects its own."""

from pathlib import Path
from typing import NamedTuple


class Agent(NamedTuple):
    """`command` starts it, whatever else is said; `workspace` is where it works."""

    command: str
    workspace: Path

    @property
    def made(self) -> bool:
        return (self.workspace / "made-by-agent").exists()
