"""Changes to the user's own configuration file. What it holds besides stays as it is, comments included."""

import json
import re
from pathlib import Path

from hames.domain.errors import Misconfigured
from hames.private_files import write_private


def write_user_file(file: Path, text: str) -> None:
    """Replaces the file in one step; only the user can read it. Raises `Misconfigured`."""
    try:
        write_private(file, text.encode())
    except OSError as failure:
        raise Misconfigured(f"cannot write {str(file)!r}: {failure.strerror}") from None


def set_value(file: Path, name: str, value: str) -> None:
    """Sets a top-level key to a text."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    write_user_file(file, with_value(text, name, value))


def with_value(text: str, name: str, value: str) -> str:
    """The file with a top-level key set.

    >>> with_value('# mine\\nmodel = "a"\\n[providers.x]\\nmodel = "b"\\n', "model", "c")
    '# mine\\nmodel = "c"\\n[providers.x]\\nmodel = "b"\\n'
    >>> with_value('[providers.x]\\n', "model", "c")
    'model = "c"\\n\\n[providers.x]\\n'
    """
    line = f"{name} = {json.dumps(value)}"
    lines = text.splitlines()
    tables = next((at for at, each in enumerate(lines) if each.lstrip().startswith("[")), len(lines))
    for at in range(tables):
        if re.match(rf"\s*{re.escape(name)}\s*=", lines[at]):
            lines[at] = line
            break
    else:
        lines[tables:tables] = [line, *([""] if tables < len(lines) else [])]
    return "\n".join(lines) + "\n"
