"""`[agents.NAME]`: agent programs that speak ACP, and how each is started."""

from hames.deferred import pattern
from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.value import Value

_NAME = pattern(r"[a-z][a-z0-9_-]*")
TAKEN = frozenset({"codex", "runner", "anthropic", "openai", "scripted"})
LATEST = 2


class AgentProgram(Value):
    """How an agent is started, and the version of ACP that it is asked for. `env` comes beside our environment."""

    command: tuple[str, ...]
    env: dict[str, str] = {}
    version: int = LATEST


def read_agents(tables: dict[str, Json], origin: str) -> dict[str, AgentProgram]:
    """The agents by their names. Raises `Misconfigured`."""
    found: dict[str, AgentProgram] = {}
    for name, table in tables.items():
        where = f"agents.{name} ({origin})"
        if not _NAME.fullmatch(name) or name in TAKEN:
            raise Misconfigured(f"{where}: the name must be small letters and digits, and not that of a provider")
        match table:
            case {"command": [str(program), *words]} if program and not table.keys() - {"command", "env", "version"}:
                pass
            case _:
                keys = 'command = ["program", "argument"] and, if needed, env = { NAME = "value" } and version = 1'
                raise Misconfigured(f"{where} must have the key {keys}, and no others")
        if not all(isinstance(word, str) and "\0" not in word for word in (program, *words)):
            raise Misconfigured(f"{where}.command must be a list of strings: a program and its arguments")
        version = table.get("version", LATEST)
        if isinstance(version, bool) or version not in (1, LATEST):
            raise Misconfigured(f"{where}.version must be 1 or 2, the version of ACP that the agent is asked for")
        found[name] = AgentProgram(command=(program, *words), env=_env(table.get("env", {}), where), version=version)
    return found


def _env(table: Json, where: str) -> dict[str, str]:
    if not isinstance(table, dict):
        raise Misconfigured(f'{where}.env must be a table: {{ NAME = "value" }}')
    for name, value in table.items():
        if not name or "=" in name or not isinstance(value, str) or "\0" in name + value:
            raise Misconfigured(f"{where}.env.{name} must be a text")
    return dict(table)
