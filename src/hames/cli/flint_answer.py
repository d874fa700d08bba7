"""flint's first answer, before anything heavy is imported. Standard library only.

It is given only where it is certainly the one that the whole server would give: nothing but the flags may have
a say in which model comes first. In any other case the server itself answers.
"""

import os

from hames import __version__
from hames.config.paths import PROJECT_CONFIG, data_directory, user_config
from hames.protocols.flint import greeting

DEFAULT_PROVIDER = "anthropic"


def plain_answer(params: object, flags: list[str]) -> dict[str, object] | None:
    """The result, when these parameters and flags are beyond doubt."""
    given = _valued(flags)
    cwd = os.path.realpath(given.get("--cwd") or ".")
    provider = _provider(given.get("--model"), cwd)
    if provider is None or not _plain(params):
        return None
    home = data_directory(cwd, given.get("--data-dir"))
    return greeting.result(version=__version__, provider=provider, home=home, options=True, reasoning=True)


def _plain(params: object) -> bool:
    if not isinstance(params, dict) or not params.keys() <= {"clientInfo", "capabilities"}:
        return False
    client = params.get("clientInfo")
    if not isinstance(client, dict) or not client.keys() <= {"name", "title", "version"}:
        return False
    if not isinstance(client.get("name"), str) or not isinstance(client.get("version"), str):
        return False
    if not isinstance(client.get("title"), str | None):
        return False
    capabilities = params.get("capabilities")
    if capabilities is None:
        return True
    known = {"experimentalApi", "requestAttestation", "optOutNotificationMethods"}
    if not isinstance(capabilities, dict) or not capabilities.keys() <= known:
        return False
    if capabilities.get("optOutNotificationMethods") is not None:
        return False
    return all(isinstance(value, bool | None) for value in capabilities.values())


def _provider(model: str | None, cwd: str) -> str | None:
    """None where more than the flags decides; the full server answers then."""
    if os.environ.get("HAMES_MODEL") or any(map(os.path.exists, (user_config(os.environ), f"{cwd}/{PROJECT_CONFIG}"))):
        return None
    if model is None:
        return DEFAULT_PROVIDER
    provider, slash, name = model.partition("/")
    return provider if slash and name and provider == DEFAULT_PROVIDER else None


def _valued(flags: list[str]) -> dict[str, str]:
    """The last value of each flag. They were found to be plain before."""
    given: dict[str, str] = {}
    while flags:
        name, equals, value = flags[0].partition("=")
        given[name] = value if equals else flags[1]
        flags = flags[1:] if equals else flags[2:]
    return given
