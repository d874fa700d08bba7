"""Earlier prompts for the up arrow, in a file of the user's state directory that only the user can read."""

import os
from pathlib import Path

import msgspec

from hames.private_files import open_private, write_private

MOST = 500
FILE = "prompts.jsonl"


class PromptHistory:
    """`older` and `newer` walk; `add` starts at the end again."""

    def __init__(self, directory: Path | None) -> None:
        self._path = directory / FILE if directory else None
        self.prompts = self._read()
        self._at = len(self.prompts)
        self._draft = ""

    def add(self, prompt: str) -> None:
        if prompt.strip() and self.prompts[-1:] != [prompt]:
            self.prompts.append(prompt)
            self._keep(prompt)
        self._at = len(self.prompts)
        self._draft = ""

    def older(self, current: str) -> str | None:
        if self._at == len(self.prompts):
            self._draft = current
        if self._at == 0:
            return None
        self._at -= 1
        return self.prompts[self._at]

    def newer(self) -> str | None:
        if self._at >= len(self.prompts):
            return None
        self._at += 1
        return self.prompts[self._at] if self._at < len(self.prompts) else self._draft

    def _read(self) -> list[str]:
        if self._path is None:
            return []
        try:
            lines = self._path.read_bytes().split(b"\n")[-MOST - 1 :]
        except OSError:
            return []
        found: list[str] = []
        for line in lines:
            try:
                found.append(msgspec.json.decode(line, type=str))
            except msgspec.MsgspecError:
                continue
        return found

    def _keep(self, prompt: str) -> None:
        """A history that cannot be written is no reason to stop anybody."""
        if self._path is None:
            return
        try:
            with os.fdopen(open_private(self._path, os.O_WRONLY | os.O_APPEND), "ab") as file:
                file.write(msgspec.json.encode(prompt) + b"\n")
            if self._path.stat().st_size > 1 << 20:
                kept = b"".join(msgspec.json.encode(one) + b"\n" for one in self.prompts[-MOST:])
                write_private(self._path, kept)
        except OSError:
            return
