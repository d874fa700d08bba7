"""The user's own editor, for a prompt that is longer than a line."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from hames.executables import find_program

EDITORS = ("vi", "nano", "ed")


class NoEditor(Exception):
    """Why a prompt could not be edited, in words."""


def editor_command() -> list[str]:
    """`VISUAL`, else `EDITOR`, else what is usually there. Raises `NoEditor`."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as problem:
        raise NoEditor(f"EDITOR is {named!r}: {problem}") from None
    words = words or [name for name in EDITORS if _found(name)][:1]
    if not words:
        raise NoEditor("No editor found. Set EDITOR, for example: export EDITOR=nano")
    if not _found(words[0]):
        raise NoEditor(f"The editor {words[0]!r} is not installed. Set EDITOR to another one")
    return words


def _found(program: str) -> str:
    return program if "/" in program else find_program(program, path=os.environ.get("PATH"))


def edit_text(command: list[str], text: str) -> str:
    """What the file holds when the editor is closed. Blocks. Raises `NoEditor` when it fails: the text stays."""
    with tempfile.TemporaryDirectory(prefix="hames-") as folder:
        file = Path(folder, "prompt.md")
        file.touch(mode=0o600)
        file.write_text(text)
        try:
            done = subprocess.run([*command, str(file)], check=False)
        except OSError as failure:
            raise NoEditor(f"The editor could not be started: {failure}") from None
        if done.returncode != 0:
            raise NoEditor(f"The editor ended with code {done.returncode}; the message is unchanged")
        return file.read_text(errors="replace").rstrip("\n")
