"""A thread's settings, from defaults and what clients ask for. Nothing half-valid gets in."""

import re
from typing import get_args

from msgspec.structs import replace

from hames.domain.errors import InvalidCommand
from hames.domain.network import NetworkRules
from hames.domain.options import Overrides, Settings, without_values
from hames.domain.policy import AfterCrash, SandboxPolicy, WorkspaceWrite
from hames.ports import Models, Workspace

AFTER_CRASH, PLACE = "after_crash", "place"
_PLACE = re.compile(r"(?:(?:node|label):[A-Za-z0-9][A-Za-z0-9._-]{0,62})?")


async def overridden(settings: Settings, overrides: Overrides, models: Models, workspace: Workspace) -> Settings:
    """Raises `InvalidCommand` for a model, directory or option that does not exist."""
    changes: dict[str, object] = {}
    if overrides.model is not None:
        changes["model"] = models.find(overrides.model).id
    if overrides.cwd is not None:
        changes["cwd"] = await workspace.resolve_directory(overrides.cwd)
    if overrides.approval_policy is not None:
        changes["approval_policy"] = overrides.approval_policy
    if overrides.sandbox is not None:
        changes["sandbox"] = overrides.sandbox
        if isinstance(overrides.sandbox, WorkspaceWrite):
            for root in overrides.sandbox.writable_roots:
                await workspace.resolve_directory(root)
    if overrides.workspace_roots:
        changes["sandbox"] = await _extended(replace(settings, **changes), overrides.workspace_roots, workspace)
    if overrides.agent is not None:
        changes["agent"] = overrides.agent
    if overrides.budgets is not None and overrides.budgets.limited("day"):
        raise InvalidCommand("a budget of the day is for all threads: set it in the configuration (budgets.day)")
    for name in (
        "instructions",
        "base_instructions",
        "mode_instructions",
        "personality",
        "client_tools",
        "after_crash",
        "rules",
        "budgets",
    ):
        if (value := getattr(overrides, name)) is not None:
            changes[name] = value
    if overrides.mcp_servers is not None:
        changes["mcp_servers"] = tuple(map(without_values, overrides.mcp_servers))
    if overrides.options is not None:
        # Not options of a model, but they travel with them: every protocol that can set one can set these.
        named = {name: value for name, value in overrides.options.items() if name not in (AFTER_CRASH, PLACE)}
        changes["options"] = {**settings.options, **_options(named, models)}
        if AFTER_CRASH in overrides.options:
            changes[AFTER_CRASH] = _after_crash(overrides.options[AFTER_CRASH])
        if PLACE in overrides.options:
            changes[PLACE] = checked_place(overrides.options[PLACE])
    return replace(settings, **changes) if changes else settings


def with_host_questions(settings: Settings, overrides: Overrides) -> Settings:
    """A thread that is switched to `onRequest` asks about hosts as one that began with it. A client that says which
    sandbox it wants gets that one."""
    sandbox = settings.sandbox
    if overrides.approval_policy != "onRequest" or overrides.sandbox is not None:
        return settings
    if not isinstance(sandbox, WorkspaceWrite) or sandbox.network_access or sandbox.hosts is not None:
        return settings
    return replace(settings, sandbox=replace(sandbox, network=NetworkRules()))


async def _extended(settings: Settings, roots: tuple[str, ...], workspace: Workspace) -> SandboxPolicy:
    """The sandbox with further directories to write to; one that forbids writing stays as it is."""
    resolved = [await workspace.resolve_directory(root) for root in roots]
    if not isinstance(settings.sandbox, WorkspaceWrite):
        return settings.sandbox
    known = settings.sandbox.writable_roots
    return replace(
        settings.sandbox,
        writable_roots=tuple(dict.fromkeys((*known, *(root for root in resolved if root != settings.cwd)))),
    )


def _options(options: dict[str, str], models: Models) -> dict[str, str]:
    """Providers share names: a value counts if any selector of that name has it."""
    choices: dict[str, list[str]] = {}
    for selector in models.selectors():
        choices.setdefault(selector.id, []).extend(choice.id for choice in selector.choices)
    for name, choice in options.items():
        if name not in choices:
            raise InvalidCommand(f"unknown option {name!r}; the options are: {', '.join(choices)}")
        if choice not in choices[name]:
            values = ", ".join(dict.fromkeys(choices[name]))
            raise InvalidCommand(f"option {name!r} has no value {choice!r}; its values are: {values}")
    return options


def checked_place(value: str) -> str:
    """Raises `InvalidCommand`."""
    if not _PLACE.fullmatch(value):
        raise InvalidCommand(f"{value!r} is not a place; places are node:NAME, label:NAME, or nothing for any node")
    return value


def _after_crash(value: str) -> AfterCrash:
    for known in get_args(AfterCrash):
        if value == known:
            return known
    raise InvalidCommand(f"{AFTER_CRASH} has no value {value!r}; its values are: {', '.join(get_args(AfterCrash))}")
