"""The sandbox that starts programs, and the judgement which commands need no question."""

from collections.abc import AsyncIterator
from typing import Protocol

from hames.domain.policy import SandboxPolicy
from hames.domain.rulings import Verdict
from hames.domain.value import Value


class Limits(Value):
    """Per command. 0: no limit."""

    seconds: float = 120.0
    processes: int = 4096
    memory_bytes: int | None = None
    """Of the command with everything it starts. None: three quarters of the machine's memory."""
    file_bytes: int = 16 << 30
    """Of one file."""


class Launch(Value):
    """A program to start. `workspace` is what `workspaceWrite` makes writable, beside its roots."""

    argv: tuple[str, ...]
    cwd: str
    workspace: str
    policy: SandboxPolicy
    limits: Limits = Limits()


class Process(Protocol):
    """A running program and everything it started."""

    @property
    def pid(self) -> int: ...

    def output(self) -> AsyncIterator[bytes]:
        """stdout and stderr as they come; ends when the program has ended and its pipes are empty,
        or two seconds after it ended, whoever still holds them."""
        ...

    async def wait(self) -> int:
        """The exit code; negative for a signal."""
        ...

    async def kill(self) -> None:
        """Ends the program and every descendant within two seconds. Safe to call again."""
        ...


class Sandbox(Protocol):
    """Starts programs behind walls, and fails closed: `SandboxUnavailable` says what is missing."""

    async def spawn(self, launch: Launch) -> Process: ...


class Trust(Protocol):
    """Which commands need no question. Any doubt is an untrusted verdict; it raises nothing.

    It is called in a thread, several at a time, and given up on after a while.
    """

    def judge(self, command: str, *, cwd: str, workspace: str) -> Verdict: ...
