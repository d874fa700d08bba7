"""The flags that commands share, and the options they lead to. A command offers the ones it has a use for."""

import os
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hames.config.load import Options, load
from hames.domain.budgets import BudgetMeasure
from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.modes import default_policy
from hames.domain.policy import ApprovalPolicy

if TYPE_CHECKING:
    from hames.protocols.flint.messages import SandboxPolicy, WorktreeOptions

SHARED = {
    "--cwd": ("DIR", "the workspace (default: here)"),
    "--data-dir": ("DIR", "where threads are saved (default: .harness in the workspace)"),
    "--model": ("MODEL", "provider/model, or a bare model name; hames models lists them"),
    "--agent": ("NAME", "let another agent do the work: claude, codex, … (hames agents lists them) or acp:COMMAND"),
    "--mode": ("MODE", "plan, ask or auto: how much the agent does by itself"),
    "--approval-policy": ("POLICY", "never, onRequest, unlessTrusted or always"),
    "--sandbox": ("POLICY", "readOnly, workspaceWrite, dangerFullAccess or externalSandbox"),
    "--log-file": ("FILE", "write logs to this file instead of stderr"),
    "--log-level": ("LEVEL", "debug, info, warning or error"),
}
ACP = "acp:"
"""Begins a command that starts an agent which speaks ACP."""
ALIASES = {
    "--cwd": ("-C", "--cd"),
    "--model": ("-m",),
    "--approval-policy": ("-a", "--ask-for-approval"),
    "--sandbox": ("-s",),
}
"""Shorter names, and names that other tools have for the same."""
WORKSPACE = ("--cwd",)
THREADS = ("--cwd", "--data-dir")
TERMS = ("--model", "--agent", "--mode", "--approval-policy", "--sandbox")
"""The settings of turns. With `--attach` the running server sets them."""


RULES = {
    "--allow": "a command that runs without a question, in the sandbox: --allow 'pytest *'",
    "--ask": "a command that needs your approval",
    "--deny": "a command that is refused: --deny 'git push *'",
}
"""Rules for this run, beside those of the configuration. Each may be given several times."""


def add_shared(parser: ArgumentParser, names: tuple[str, ...] = tuple(SHARED), *, above: tuple[str, ...] = ()) -> None:
    """All of them, and rules; or those that are named. Of those that the command `above` has as well, its value counts
    where none is given here."""
    for name in names:
        value, words = SHARED[name]
        default = SUPPRESS if name in above else None
        parser.add_argument(name, *ALIASES.get(name, ()), metavar=value, help=words, default=default)
    if names == tuple(SHARED):
        for name, words in RULES.items():
            parser.add_argument(name, metavar="PATTERN", action="append", help=words)


def given_rules(args: Namespace) -> list[Json]:
    return [
        {"action": name.removeprefix("--"), "command": pattern}
        for name in RULES
        for pattern in getattr(args, name.removeprefix("--"), None) or ()
    ]


def given(args: Namespace, name: str) -> str | None:
    """What was said after this flag; None also where a command does not offer it."""
    return getattr(args, name.removeprefix("--").replace("-", "_"), None)


def options(
    args: Namespace, *, problems: list[str] | None = None, settings: Mapping[str, Json] | None = None
) -> Options:
    """The effective configuration. Raises `Misconfigured`; with a list of `problems` they go there instead.

    `settings` were given on the command line in another way; the flags beat them.
    """
    said: dict[str, Json] = {name.removeprefix("--").replace("-", "_"): given(args, name) for name in SHARED}
    if agent := said.pop("agent"):
        if agent.startswith(ACP):
            said["agents"] = {"acp": {"command": _words(agent.removeprefix(ACP))}}
            agent = "acp"
        said["model"] = f"{agent}/{said['model'] or 'default'}"
    said["rules"] = given_rules(args) or None
    flags = {name: value for name, value in said.items() if value is not None}
    loaded = load({**(settings or {}), **flags}, os.environ, problems=problems)
    if agent:
        from hames.app import check_agent_name

        check_agent_name(agent, os.environ, loaded.agents)
    return loaded


def _words(command: str) -> list[str]:
    import shlex

    try:
        return shlex.split(command)
    except ValueError as problem:
        raise Misconfigured(f"--agent {ACP}: {problem}") from None


def chosen_model(args: Namespace, options: Options) -> str | None:
    """The model the command line asks for, if it does."""
    return options.model if args.model or args.agent else None


def chosen_policy(args: Namespace, options: Options) -> ApprovalPolicy | None:
    """What the command line asks for. A mode that leaves the policy as it is asks for none."""
    named = args.approval_policy or (args.mode and options.agent == "code")
    return options.approval_policy if named else None


def new_thread_policy(args: Namespace, options: Options) -> ApprovalPolicy | None:
    """For threads that our own terminal and `run` start. None: a server that runs already decides."""
    if args.attach or not getattr(args, "own_default", False):
        return None
    if options.settings["approval_policy"].origin != "default":
        return options.approval_policy
    from hames.config.sandbox_proof import is_sandbox_proved

    return default_policy(options.sandbox, proved=is_sandbox_proved(options.state_dir))


def chosen_sandbox(args: Namespace, options: Options) -> "SandboxPolicy | None":
    """In flint's words."""
    from hames.protocols.flint.messages import SandboxPolicy

    return msgspec.convert(msgspec.to_builtins(options.sandbox), SandboxPolicy) if args.sandbox else None


def add_worktree(parser: ArgumentParser) -> None:
    """For commands that start threads."""
    parser.add_argument(
        "--worktree",
        metavar="NAME",
        nargs="?",
        const="",
        help="start the thread in a git worktree of its own, with the branch hames/NAME",
    )
    parser.add_argument(
        "--with-changes", action="store_true", help="with --worktree: take uncommitted and untracked files along"
    )


def chosen_worktree(args: Namespace) -> "WorktreeOptions | None":
    """In flint's words. A sentence behind `--worktree` is the prompt, and no name. Raises `Misconfigured`."""
    if args.worktree is None:
        if args.with_changes:
            raise Misconfigured("--with-changes belongs to --worktree")
        return None
    if args.last or args.thread:
        raise Misconfigured("--worktree starts a new thread; it cannot be used with --continue or --thread")
    if " " in args.worktree.strip() and not args.prompt:
        args.prompt, args.worktree = args.worktree, ""
    from hames.protocols.flint.messages import WorktreeOptions

    return WorktreeOptions(name=args.worktree or None, changes=args.with_changes)


BUDGETS: dict[str, tuple[BudgetMeasure, str, str]] = {
    "--max-cost": ("usd", "USD", "ask, or stop, once the turn has cost so much"),
    "--max-tokens": ("tokens", "N", "ask, or stop, once the turn has used so many tokens"),
    "--max-minutes": ("minutes", "N", "ask, or stop, after so many minutes of work"),
    "--max-steps": ("steps", "N", "ask, or stop, after so many model replies"),
}


def add_budgets(parser: ArgumentParser) -> None:
    for name, (measure, value, words) in BUDGETS.items():
        kind = positive if measure in ("tokens", "steps") else amount
        parser.add_argument(name, metavar=value, type=kind, help=words)


def with_budgets(options: Options, args: Namespace) -> Options:
    """The options with the budgets of the command line, which are for each turn. Raises `Misconfigured`."""
    limits = {measure: given(args, name) for name, (measure, _, _) in BUDGETS.items() if given(args, name) is not None}
    if limits and getattr(args, "attach", False):
        raise Misconfigured("budgets can't be used with --attach; the running server sets them")
    return replace(options, budgets=replace(options.budgets, turn=replace(options.budgets.turn, **limits)))


def amount(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e15:
        raise ArgumentTypeError(f"{word!r} is not a number above 0")
    return value


def without_terms(args: Namespace) -> None:
    """For `--attach`: the server that runs decides. Raises `Misconfigured`."""
    for name in TERMS:
        if given(args, name) is not None:
            raise Misconfigured(f"{name} can't be used with --attach; the running server sets it")


def positive(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise ArgumentTypeError(f"{word!r} is not a number above 0")
    return int(word)
