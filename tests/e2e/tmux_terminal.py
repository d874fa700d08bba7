"""A program in a real terminal: a pty of tmux, keys as they are typed, the screen as it is seen."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

SECONDS = 60
READY = "Say what you want done."
TOUCH = {"call": "shell", "with": {"command": "touch made"}}


class Terminal:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sessions = 0
        self.workspace = folder / "ws"
        self.workspace.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HAMES_STATE": str(folder / "state"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "COLORTERM": "truecolor",
        }

    @property
    def _socket(self) -> str:
        return str(self._folder / f"tmux{self._sessions}")

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=SECONDS,
            env=self.environment,
        )
        return done.stdout

    def start(self, *words: str, columns: int = 80, rows: int = 24, **environment: str) -> None:
        # The pane outlives the program: its last screen and its exit code are part of the story.
        named = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        command = f"env {named} {shlex.join([sys.executable, '-m', 'hames', *words])}; echo ended with $?; cat"
        size = ["-x", str(columns), "-y", str(rows)]
        self.tmux("new-session", "-d", *size, "-c", str(self.workspace), command)

    def start_shell(self, *, columns: int = 80, rows: int = 24) -> None:
        """An interactive shell with job control, as people have it; `hames` runs this checkout."""
        (self._folder / "rc").write_text(
            f"PS1='ready$ '\nhames() {{ {shlex.join([sys.executable, '-m', 'hames'])} \"$@\"; }}\n"
        )
        command = shlex.join(["bash", "--noprofile", "--rcfile", str(self._folder / "rc"), "-i"])
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(self.workspace), command)
        self.shows("ready$")

    @property
    def pane(self) -> int:
        """The process in the pane."""
        return int(self.tmux("display-message", "-p", "#{pane_pid}"))

    def program(self, word: str = "-m hames") -> int:
        """The process that was started in the pane, once it is there: not the server it started itself."""
        until = time.monotonic() + SECONDS
        while True:
            for entry in Path("/proc").glob("[0-9]*"):
                try:
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                except (OSError, IndexError, ValueError):
                    continue
                if parent == self.pane and word in words and "app-server" not in words:
                    return int(entry.name)
            assert time.monotonic() < until, f"no process {word!r}"
            time.sleep(0.05)

    def flags(self) -> str:
        """Whether the alternate screen is on, and whether the mouse is reported."""
        return self.tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag}").strip()

    def click(self, column: int, row: int) -> None:
        """Counted from 0, as a mouse reports it."""
        self.types(f"\x1b[<0;{column + 1};{row + 1}M\x1b[<0;{column + 1};{row + 1}m")

    def drag(self, column: int, row: int, to_column: int, to_row: int) -> None:
        self.types(
            f"\x1b[<0;{column + 1};{row + 1}M\x1b[<32;{to_column + 1};{to_row + 1}M"
            f"\x1b[<0;{to_column + 1};{to_row + 1}m"
        )

    def place(self, word: str) -> tuple[int, int]:
        """Where a word is on the screen: column and row."""
        for number, row in enumerate(self.shows(word).split("\n")):
            if word in row:
                return row.index(word), number
        raise AssertionError(word)

    def pastes(self, text: str) -> None:
        self.tmux("set-buffer", "--", text)
        self.tmux("paste-buffer", "-p")

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def threads(self) -> str:
        """Everything that is saved of the workspace's threads."""
        logs = (self.workspace / ".harness" / "threads").rglob("*")
        return "".join(log.read_text(errors="replace") for log in logs if log.is_file())

    def types(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def presses(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def screen(self, *, escapes: bool = False) -> str:
        return self.tmux("capture-pane", "-p", *(["-e"] if escapes else []))

    def shows(self, *words: str, without: str = "") -> str:
        """Waits for a screen that has all of these words, and not the other one."""
        until = time.monotonic() + SECONDS
        while True:
            screen = self.screen()
            missing = [word for word in words if word not in screen]
            if not missing and not (without and without in screen):
                return screen
            assert time.monotonic() < until, f"never seen: {missing}, without {without!r}\n{screen}"
            time.sleep(0.05)

    def hides(self, word: str) -> None:
        until = time.monotonic() + SECONDS
        while word in (screen := self.screen()):
            assert time.monotonic() < until, f"still seen: {word}\n{screen}"
            time.sleep(0.05)

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)
        self._sessions += 1  # a server that is going away may still hold its socket


def script(terminal: Terminal, *replies: object) -> str:
    path = terminal.workspace.parent / "script.json"
    path.write_text(json.dumps(list(replies)))
    return f"scripted/{path}"


def ready(terminal: Terminal, *words: str, columns: int = 80, rows: int = 24, **environment: str) -> None:
    """Started, with an agent behind it."""
    terminal.start(*words, columns=columns, rows=rows, **environment)
    connected(terminal)


def connected(terminal: Terminal) -> None:
    terminal.shows(READY, "F1 keys", "ask for risky actions")
    terminal.hides("starting …")


def armed(terminal: Terminal) -> None:
    """Keys answer a question only after it has been on the screen for a moment."""
    terminal.shows("y allow once")
    time.sleep(0.6)
