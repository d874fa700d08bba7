"""Processes that a thread started in the background, as clients and the model are told of them."""

from hames.domain.value import Value


class ProcessStatus(Value):
    """`number` names it within its thread. `seconds`: how long it has run, or ran."""

    number: int
    command: str
    cwd: str
    terminal: bool
    running: bool
    seconds: float
    output_bytes: int
    exit_code: int | None = None
    """Negative for a signal. None while it runs."""
    tail: str = ""
    """The end of its output, whoever has read it."""


class ProcessList(Value):
    """Those that run, and the last that have ended, oldest first."""

    processes: tuple[ProcessStatus, ...]


def ended_note(ended: tuple[ProcessStatus, ...]) -> str:
    """What the model is told with the next prompt; empty when there is nothing to tell.

    >>> ended_note((ProcessStatus(number=1, command="make", cwd="/", terminal=False, running=False, seconds=3,
    ...     output_bytes=0, exit_code=2),))
    'Process 1 (make) has ended with exit code 2 since then; `process` with `poll` tells its last output.'
    """
    return "\n".join(
        f"Process {one.number} ({first_line(one.command)}) has ended with {outcome(one.exit_code)} since then; "
        "`process` with `poll` tells its last output."
        for one in ended
    )


def outcome(code: int | None) -> str:
    if code is None:
        return "no exit code"
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def first_line(command: str, limit: int = 80) -> str:
    line = command.strip().partition("\n")[0]
    return line if len(line) <= limit and line == command.strip() else f"{line[: limit - 1]}…"
