"""`hames` as a process, in a workspace and a home of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


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
