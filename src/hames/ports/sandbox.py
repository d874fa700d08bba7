"""The sandbox that starts programs, and the judgement which commands need no question."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, runtime_checkable

from hames.domain.network import HostPort
from hames.domain.policy import SandboxPolicy
from hames.domain.rulings import Verdict
from hames.domain.value import Value

JOB_VARIABLE = "HAMES_JOB"
"""Marks everything that a program starts, so that it can be found when the program is over."""


class ProcessGuard(Protocol):
    """Ends programs and everything with their mark in its environment once the harness is gone, however it went."""

    def watch(self, pid: int, job: str) -> None:
        """`job` is the mark: the value of `JOB_VARIABLE` that the program was started with."""
        ...

    def forget(self, job: str) -> str: ...


class Limits(Value):
    """Per command. 0: no limit."""

    seconds: float = 120.0
    processes: int = 4096
    memory_bytes: int | None = None
    """Of the command with everything it starts. None: three quarters of the machine's memory."""
    file_bytes: int = 16 << 30
    """Of one file."""


class TerminalSize(Value):
    rows: int = 24
    columns: int = 120


class Launch(Value):
    """A program to start. `workspace` is what `workspaceWrite` makes writable, beside its roots."""

    argv: tuple[str, ...]
    cwd: str
    workspace: str
    policy: SandboxPolicy
    limits: Limits = Limits()
    background: bool = False
    """It goes on when the call that started it has ended. Its input stays open."""
    terminal: TerminalSize | None = None
    """Input and output are a terminal of its own, which signals it and can be resized."""
    hidden: tuple[str, ...] = ()
    """Absolute globs of files that the program must not see."""
    read_only: tuple[str, ...] = ()
    """Absolute globs of files that the program must not change."""
    thread: str = ""
    """Programs of one thread and one policy reach each other's ports while one of them runs in the background.
    Empty: it is alone."""


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


@runtime_checkable
class BackgroundProcess(Process, Protocol):
    """A program that was launched with `background`."""

    async def write(self, data: bytes) -> int:
        """Gives it input, and returns how much it took before it was cancelled or the program ended."""
        ...

    def close_input(self) -> None:
        """Its input ends here. A terminal gets the character that says so."""
        ...

    def resize(self, size: TerminalSize) -> None:
        """Raises `OSError` when it has no terminal."""
        ...

    async def send_signal(self, number: int) -> None:
        """To every process of the program, and not to its sandbox."""
        ...

    async def inspect(self) -> Sequence[str]:
        """Looks at what it left behind so far, as is done at the end of every command. Returns notes."""
        ...


AskSandboxHost = Callable[[HostPort], str]
"""Asks whether a program may connect to a host. Blocks until there is an answer, so it is called in a worker thread.
Returns why not, or an empty text."""


class Sandbox(Protocol):
    """Starts programs behind walls, and fails closed: `SandboxUnavailable` says what is missing."""

    async def spawn(self, launch: Launch, *, ask_host: AskSandboxHost | None = None) -> Process:
        """`ask_host` is asked about hosts that the policy does not name. None: they are refused."""
        ...


class Trust(Protocol):
    """Which commands need no question. Any doubt is an untrusted verdict; it raises nothing.

    It is called in a thread, several at a time, and given up on after a while.
    """

    def judge(self, command: str, *, cwd: str, workspace: str) -> Verdict: ...
