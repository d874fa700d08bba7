"""`hames` as a process, in a workspace and a home of its own."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

SECONDS = 60
CONTROLS = ("\x03", "\x04")


class Shell:
    """Runs `hames` the way a script would: no terminal anywhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "ws"
        self.workspace.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HAMES_STATE": str(folder / "state"),
            "HAMES_CONFIG": str(folder / "config.toml"),
        }

    def script(self, *replies: Any, name: str = "script") -> str:
        """A model that says this."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(list(replies)))
        return f"scripted/{path}"

    def hames(self, *words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hames", *words],
            cwd=self.workspace,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env={**self.environment, **environment},
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "hames", *words],
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )


def typed(
    shell: Shell, words: list[str], answers: list[tuple[str, str]], *, columns: int = 100, **environment: str
) -> tuple[int, str]:
    """Runs it on a terminal and types each answer once its question is on the screen. An answer that is a single
    control character is a key of its own: no Enter follows it."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        # The terminal has to be the process's own: only then does it turn Ctrl+C into a signal.
        ["setsid", "--ctty", sys.executable, "-m", "hames", *words],
        cwd=shell.workspace,
        stdin=other,
        stdout=other,
        stderr=other,
        env={**shell.environment, "TERM": "xterm", "NO_COLOR": "1", **environment},
    )
    os.close(other)
    seen, waiting, since = "", list(answers), 0
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if not select.select([main], [], [], 0.5)[0]:
            continue
        try:
            chunk = os.read(main, 65536)
        except OSError:  # the other side is closed
            break
        if not chunk:
            break
        seen += chunk.decode(errors="replace")
        if waiting and waiting[0][0] in seen[since:]:
            since = len(seen)
            answer = waiting.pop(0)[1]
            os.write(main, answer.encode() + (b"" if answer in CONTROLS else b"\n"))
    os.close(main)
    return process.wait(timeout=60), seen
