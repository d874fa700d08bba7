"""The background processes of a thread, as HTTP carries them. Pure."""

import msgspec

from hames.domain.processes import ProcessList, ProcessStatus
from hames.domain.value import Value


class ProcessRow(Value, rename="camel"):
    """`number` names it within its thread. `exitCode` is negative for a signal, and null while it runs."""

    number: int
    command: str
    cwd: str
    terminal: bool
    running: bool
    seconds: float
    output_bytes: int
    exit_code: int | None
    tail: str
    """The end of its output, a few thousand bytes at the most."""


class ProcessPage(Value):
    """Those that run, and the last that have ended, oldest first."""

    processes: tuple[ProcessRow, ...]


def process_page(found: ProcessList) -> ProcessPage:
    return ProcessPage(processes=tuple(map(_row, found.processes)))


def _row(one: ProcessStatus) -> ProcessRow:
    return ProcessRow(**msgspec.structs.asdict(one))
