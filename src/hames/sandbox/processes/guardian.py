"""The guardian: one small process that outlives the harness by a moment, and ends what it left running.

Behind walls the kernel does this, from the moment they stand. Outside them nothing else would notice a harness that
was killed with SIGKILL.
"""

import contextlib
import logging
import os
import subprocess
import threading

from hames.executables import script_command
from hames.sandbox.processes import process_tree

log = logging.getLogger(__name__)


class Guardian:
    """Started with the first program it is told of; started again if somebody ended it."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._families: dict[str, str] = {}
        self._excess: dict[str, str] = {}
        self._turn = threading.Lock()

    def watch(self, pid: int, job: str, *, processes: int = 0, memory_bytes: int = 0) -> None:
        """`processes`: how many it may have at once, if somebody has to count them. `memory_bytes`: of all of them."""
        with self._turn:
            self._families[job] = f"+ {pid} {job} {processes} {memory_bytes}\n"
            self._send(self._families[job])

    def forget(self, job: str) -> str:
        """Which limit it was ended for: `processes`, `memory` or nothing."""
        with self._turn:
            self._read_excess()
            if self._families.pop(job, None) is not None:
                self._send(f"- 0 {job} 0 0\n")
            return self._excess.pop(job, "")

    def _read_excess(self) -> None:
        if self._program is None or self._program.stdout is None:
            return
        with contextlib.suppress(OSError):
            for line in (self._program.stdout.read() or b"").decode().splitlines():
                job, _, limit = line.partition(" ")
                if job in self._families:
                    self._excess[job] = limit

    def close(self) -> None:
        """The same as being killed, for the guardian: it ends what is left, then itself."""
        if self._program is not None and self._program.stdin is not None:
            with contextlib.suppress(OSError):
                self._program.stdin.close()
            self._program.wait()
            if self._program.stdout is not None:
                self._program.stdout.close()
            self._program = None

    def _send(self, line: str) -> None:
        if self._program is not None and self._write(line):
            return
        try:
            self._program = self._start()
        except OSError as error:
            self._program = None
            log.warning("guardian.missing", extra={"error": str(error)})
            return
        self._write("".join(self._families.values()))

    def _write(self, text: str) -> bool:
        assert self._program is not None and self._program.stdin is not None
        try:
            self._program.stdin.write(text.encode())
        except OSError:
            return False
        return True

    @staticmethod
    def _start() -> subprocess.Popen[bytes]:
        program = subprocess.Popen(
            script_command(process_tree.__file__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C in the terminal is not for it
            cwd="/",
            env={},
        )
        assert program.stdout is not None
        os.set_blocking(program.stdout.fileno(), False)
        return program
