"""`[agents.NAME]`: agent programs that speak ACP, and how each is started."""

from hames.deferred import pattern
from hames.domain.errors import Misconfigured
from hames.domain.json import Json

_NAME = pattern(r"[a-z][a-z0-9_-]*")
TAKEN = frozenset({"codex", "runner", "anthropic", "openai", "scripted"})


def read_agents(tables: dict[str, Json], origin: str) -> dict[str, tuple[str, ...]]:
    """The command of each agent by its name. Raises `Misconfigured`."""
    found: dict[str, tuple[str, ...]] = {}
    for name, table in tables.items():
        where = f"agents.{name} ({origin})"
        if not _NAME.fullmatch(name) or name in TAKEN:
            raise Misconfigured(f"{where}: the name must be small letters and digits, and not that of a provider")
        match table:
            case {"command": [str(program), *words]} if program and len(table) == 1:
                pass
            case _:
                raise Misconfigured(f'{where} must have one key: command = ["program", "argument"]')
        if not all(isinstance(word, str) and "\0" not in word for word in (program, *words)):
            raise Misconfigured(f"{where}.command must be a list of strings: a program and its arguments")
        found[name] = (program, *words)
    return found
