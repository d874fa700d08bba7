"""What a client brings for its thread, read alike in both dialects: instructions, MCP servers, an output schema."""

from collections.abc import Collection

from msgspec.structs import asdict, replace

from hames.codecs.jsonrpc_peer import Params
from hames.domain import commands
from hames.domain.budgets import BudgetLimits, Budgets
from hames.domain.events import Noticed
from hames.domain.json import NOTHING
from hames.domain.options import Overrides, Settings
from hames.domain.policy import SandboxPolicy, WorkspaceWrite
from hames.protocols.flint import messages as m
from hames.protocols.flint.client.tools import declared_tools
from hames.protocols.flint.codex.config import CodexConfig, read_config
from hames.protocols.flint.inbound import Local, read
from hames.protocols.flint.worktree_requests import with_worktree
from hames.protocols.instructions import with_instructions

ABOUT_CODEX = ("skills.", "projects.", "features.cwd_relative_turn_diffs")
"""Keys in which editors tell Codex about Codex itself, with every thread. A notice about them would be shown in the
middle of every conversation."""


def with_client_settings(
    command: commands.Command | Local, params: Params, options: Collection[str], defaults: Settings
) -> commands.Command | Local:
    """The command with what its request says about the client's own settings. Raises `InvalidCommand`.

    `options` are the ids of the selectors, which may be keys of `config`. `defaults` are those of a new thread.
    """
    if isinstance(command, commands.StartTurn | commands.SubmitPrompt):
        schema = read(params, m.TurnOutput).output_schema
        command = replace(command, output_schema=NOTHING if schema is None else schema)
    match command:
        case commands.CreateThread() | commands.ResumeThread() | commands.ForkThread():
            given = read(params, m.ThreadConfig)
            overrides = with_budgets(with_instructions(command.overrides, given), given.budgets)
            if given.dynamic_tools is not None:
                overrides = replace(overrides, client_tools=declared_tools(given.dynamic_tools))
            sandbox = overrides.sandbox or (defaults.sandbox if isinstance(command, commands.CreateThread) else None)
            opening = replace(command, overrides=_over(_config(given, options, sandbox).overrides, overrides))
            return with_worktree(opening, params)
        case commands.ChangeSettings() | commands.StartTurn():
            settings = read(params, m.ClientSettings)
            overrides = with_budgets(with_instructions(command.overrides, settings), settings.budgets)
            return replace(command, overrides=overrides)
        case _:
            return command


def with_budgets(overrides: Overrides, given: m.ThreadBudgets | None) -> Overrides:
    if given is None:
        return overrides
    limits = {
        scope: BudgetLimits(usd=one.usd, tokens=one.tokens, minutes=one.minutes, steps=one.steps)
        for scope, one in (("turn", given.turn), ("thread", given.thread))
        if one is not None
    }
    return replace(overrides, budgets=Budgets(**limits))


def config_notices(command: commands.Command, params: Params, options: Collection[str]) -> list[Noticed]:
    """What of the `config` of a request that opened a thread has no effect."""
    if not isinstance(command, commands.CreateThread | commands.ResumeThread | commands.ForkThread):
        return []
    ignored = _config(read(typed_tools(params), m.ThreadConfig), options, command.overrides.sandbox).ignored
    return [
        Noticed(source="hames", name="config", severity="warning", message=f"config.{key} has no effect here")
        for key in ignored
        if not key.startswith(ABOUT_CODEX)
    ]


def typed_tools(params: Params) -> Params:
    """A tool may leave out its type: `function` is the older kind."""
    tools = params.get("dynamicTools")
    if not isinstance(tools, list):
        return params
    typed = [{"type": "function", **tool} if isinstance(tool, dict) else tool for tool in tools]
    return {**params, "dynamicTools": typed}


def _config(given: m.ThreadConfig, options: Collection[str], sandbox: SandboxPolicy | None) -> CodexConfig:
    if not given.config:
        return CodexConfig()
    return read_config(given.config, options, can_write=isinstance(sandbox, WorkspaceWrite))


def _over(config: Overrides, given: Overrides) -> Overrides:
    """What the request says itself counts more than its `config`."""
    named = {name: value for name, value in asdict(given).items() if value is not None}
    if config.options and given.options:
        named["options"] = {**config.options, **given.options}
    if given.sandbox == WorkspaceWrite() and isinstance(config.sandbox, WorkspaceWrite):
        named["sandbox"] = config.sandbox  # the request names the sandbox, and `config` its details
    return replace(config, **named)
