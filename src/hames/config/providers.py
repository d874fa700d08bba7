"""`[providers.NAME]` tables of the user's file: addresses and keys of model services.

Each key stands for an environment variable: `base_url` of `[providers.openai]` is `OPENAI_BASE_URL`. A name that is not
built in becomes a provider of that name which speaks chat completions; it needs a `base_url`.
"""

from typing import Final

from hames.deferred import pattern
from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.providers.chat.servers import SERVERS

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("api_key", "auth_token", "base_url"),
    "openai": ("api_key", "base_url"),
    **{server.name: ("api_key", "base_url", "extra_body") for server in SERVERS},
}
"""What can be set for each provider that is built in."""
OF_YOUR_OWN: Final = ("api_key", "base_url", "extra_body")

TAKEN: Final = frozenset({"bedrock", "cassette", "codex", "foundry", "hames", "runner", "scripted", "vertex"})
"""Names that mean something else already. They have nothing to set here."""

_SERVICES: Final = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}
_NAME = pattern(r"[a-z][a-z0-9-]{0,30}")
_HINTS = {
    "env_key": "put the key itself into api_key, or save it with `hames login {name}`",
    "env_http_headers": "extra headers are not supported",
    "http_headers": "extra headers are not supported",
    "url": "the address is called base_url",
    "wire_api": "your own providers always use chat completions",
    "name": "the name of the provider is the name of the table",
    "model": "set model = '{name}/MODEL' at the top of the file",
}


def variable(provider: str, key: str) -> str:
    """
    >>> variable("my-server", "base_url")
    'MY_SERVER_BASE_URL'
    """
    return f"{provider}_{key}".upper().replace("-", "_")


def usual_address(provider: str) -> str:
    """The default address of a provider; empty where there is none."""
    if provider in _SERVICES:
        return _SERVICES[provider]
    return next((server.url for server in SERVERS if server.name == provider), "")


def address_problem(address: str) -> str:
    """Why a text cannot be the address of a model server, or nothing."""
    from urllib.parse import urlsplit  # slow to import, and most files have no address

    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if good and address.isprintable() and " " not in address:
        return ""
    return f"{address!r} is not the address of a server. One looks like http://127.0.0.1:8080/v1"


def read_providers(tables: Json, origin: str, problems: list[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables that the tables set, and the names of the providers that are the user's own."""
    if not isinstance(tables, dict):
        problems.append(f"providers in {origin} must be a table")
        return {}, ()
    found: dict[str, str] = {}
    own: list[str] = []
    for name, table in tables.items():
        try:
            found |= _variables(name, table, origin, problems)
        except Misconfigured as problem:
            problems.append(str(problem))
            continue
        if name not in KEYS:
            own.append(name)
    return found, tuple(own)


def _variables(name: str, table: Json, origin: str, problems: list[str]) -> dict[str, str]:
    """Raises `Misconfigured` for a table that no provider can be made of."""
    where = f"[providers.{name}] in {origin}"
    if not isinstance(table, dict):
        raise Misconfigured(f'{where} must be a table, such as [providers.openai] with base_url = "…" below it')
    if name in TAKEN:
        raise Misconfigured(f"{where}: {name!r} has no settings here. {_known()}")
    if name not in KEYS and not _NAME.fullmatch(name):
        raise Misconfigured(
            f"{where}: a provider's name is lower-case letters, digits and -, beginning with a letter. {_known()}"
        )
    keys = KEYS.get(name, OF_YOUR_OWN)
    found: dict[str, str] = {}
    for key, value in table.items():
        if key not in keys:
            hint = _HINTS.get(key, "").format(name=name)
            problems.append(
                f"{where} sets {key!r}, which is not a known key{f': {hint}' if hint else ''}."
                f" The keys are: {', '.join(keys)}"
            )
        elif not isinstance(value, str):
            problems.append(f"{where}: {key} must be text")
        elif key == "base_url" and (problem := address_problem(value)):
            problems.append(f"{where}: base_url: {problem}")
        else:
            found[variable(name, key)] = value
    if name not in KEYS and "base_url" not in table:
        raise Misconfigured(f"{where} needs base_url, the address of its server. {_known()}")
    return found


def _known() -> str:
    return f"The providers that are built in are: {', '.join(KEYS)}. Any other name needs base_url"
