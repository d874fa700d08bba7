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


def toml_text(value: str) -> str:
    r"""A text as TOML writes it.

    >>> print(toml_text('a "b" é'))
    "a \"b\" é"
    """
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def set_value(file: Path, name: str, value: str) -> None:
    """Sets a top-level key to a text."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    write_user_file(file, with_value(text, name, value))


def set_in_table(file: Path, table: str, name: str, value: str) -> None:
    """Sets a key of a table to a text. Raises `Misconfigured` when the file has another shape."""
    import tomllib

    text = file.read_text(encoding="utf-8") if file.exists() else ""
    changed = with_value_in_table(text, table, name, value)
    found: object = tomllib.loads(changed)
    for part in (*table.split("."), name):
        found = found.get(part) if isinstance(found, dict) else None
    if found != value:
        raise Misconfigured(
            f"set {name} of [{table}] in {str(file)!r} yourself: hames cannot edit the way it is written there"
        )
    write_user_file(file, changed)


def with_value_in_table(text: str, table: str, name: str, value: str) -> str:
    r"""The file with a key of a table set, and the table made where there is none.

    >>> with_value_in_table("a = 1\n\n[x.y]  # mine\nb = 2\n\n[z]\n", "x.y", "c", "d")
    'a = 1\n\n[x.y]  # mine\nc = "d"\nb = 2\n\n[z]\n'
    >>> with_value_in_table("a = 1\n", "x.y", "c", "d")
    'a = 1\n\n[x.y]\nc = "d"\n'
    """
    lines = text.splitlines()
    heads = [at for at, line in enumerate(lines) if line.lstrip().startswith("[")]
    named = re.compile(rf"\s*\[\s*{re.escape(table)}\s*\]\s*(?:#.*)?")
    start = next((at for at in heads if named.fullmatch(lines[at])), None)
    line = f"{name} = {toml_text(value)}"
    if start is None:
        return "\n".join([*lines, *([""] if lines else []), f"[{table}]", line]) + "\n"
    end = next((at for at in heads if at > start), len(lines))
    for at in range(start + 1, end):
        if re.match(rf"\s*{re.escape(name)}\s*=", lines[at]):
            lines[at] = line
            break
    else:
        lines.insert(start + 1, line)
    return "\n".join(lines) + "\n"


def with_value(text: str, name: str, value: str) -> str:
    """The file with a top-level key set.

    >>> with_value('# mine\\nmodel = "a"\\n[providers.x]\\nmodel = "b"\\n', "model", "c")
    '# mine\\nmodel = "c"\\n[providers.x]\\nmodel = "b"\\n'
    >>> with_value('[providers.x]\\n', "model", "c")
    'model = "c"\\n\\n[providers.x]\\n'
    """
    line = f"{name} = {toml_text(value)}"
    lines = text.splitlines()
    tables = next((at for at, each in enumerate(lines) if each.lstrip().startswith("[")), len(lines))
    for at in range(tables):
        if re.match(rf"\s*{re.escape(name)}\s*=", lines[at]):
            lines[at] = line
            break
    else:
        lines[tables:tables] = [line, *([""] if tables < len(lines) else [])]
    return "\n".join(lines) + "\n"
