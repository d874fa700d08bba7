"""The key `language_servers` of the user's configuration file."""

from typing import Final

import msgspec

from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.language_servers import LanguageServerOptions, LanguageServerSettings

MODES: Final = ("auto", "on", "off")


def language_servers(value: Json, origin: str) -> LanguageServerOptions:
    """Raises `Misconfigured`.

    >>> language_servers("off", "config.toml").mode
    'off'
    """
    where = f"language_servers ({origin})"
    if not isinstance(value, dict):
        if value not in MODES:
            raise Misconfigured(f"{where} is {value!r}; it must be one of {', '.join(MODES)}, or a table of servers")
        return msgspec.convert({"mode": value}, LanguageServerOptions)
    known = [field.name for field in msgspec.structs.fields(LanguageServerSettings)]
    for name, table in value.items():
        for key in table if isinstance(table, dict) else ():
            if key not in known:
                raise Misconfigured(
                    f"{where} sets {key!r} in {name!r}, which is not a known key. The keys are: {', '.join(known)}"
                )
    try:
        servers = msgspec.convert(value, dict[str, LanguageServerSettings], strict=True)
    except msgspec.ValidationError as problem:
        raise Misconfigured(f"{where}: {problem}") from None
    for name, server in servers.items():
        program = server.command[0] if server.command else ""
        if any("\0" in word for word in server.command) or ("/" in program and not program.startswith("/")):
            raise Misconfigured(f"{where}: the command of {name!r} must begin with a name or an absolute path")
        if bool(server.command) and not server.extensions and name not in KNOWN_NAMES:
            raise Misconfigured(f"{where}: {name!r} needs extensions, the kinds of files that it checks")
    return LanguageServerOptions(servers=servers)


KNOWN_NAMES: Final = frozenset(
    {"pyright", "basedpyright", "pylsp", "ruff", "typescript", "gopls", "rust-analyzer", "clangd", "zls"}
)
"""Those of tools/language_servers/installed.py, which this package may not import. A test compares the two."""
