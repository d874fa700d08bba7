"""Write a completion script for your shell.

  hames completion bash > ~/.local/share/bash-completion/completions/hames
  hames completion zsh > ~/.zfunc/_hames
  hames completion fish > ~/.config/fish/completions/hames.fish

Models, threads, options and MCP servers are looked up when you press Tab.
"""

import argparse
from argparse import Action, ArgumentParser, Namespace
from importlib import import_module
from typing import Any

from hames.cli.lookups import KINDS, values
from hames.cli.main import COMMANDS

SHELLS = ("bash", "zsh", "fish")
FIXED = {
    "approval_policy": ("never", "onRequest", "unlessTrusted", "always"),
    "sandbox": ("readOnly", "workspaceWrite", "dangerFullAccess", "externalSandbox"),
    "agent": ("codex",),
    "hames eval agent": ("oracle", "perturbed", "nothing", "codex"),
    "log_level": ("debug", "info", "warning", "error"),
}
LOOKED_UP = {
    "model": "models",
    "thread": "threads",
    "option": "options",
    "hames mcp get name": "servers",
    "hames mcp remove name": "servers",
    "hames mcp test name": "servers",
}
PATHS = ("FILE", "DIR", "SOCKET")

_BASH = """_hames_{kind}() {{
  compgen -W "$(hames completion --values {kind} 2>/dev/null | cut -f1)" -- "$1"
}}"""
_ZSH = """_hames_{kind}() {{
  local tab=$'\\t'
  local -a found
  found=(${{(f)"$(hames completion --values {kind} 2>/dev/null)"}})
  found=(${{found//:/\\\\:}})
  found=(${{found//$tab/:}})
  _describe -t hames-{kind} {kind} found
}}"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, nargs="?")
    parser.add_argument("--values", choices=KINDS, help=argparse.SUPPRESS)


def run(args: Namespace) -> int:
    if args.values:
        print("\n".join(values(args.values)))
        return 0
    if args.shell is None:
        from hames.domain.errors import InvalidCommand

        raise InvalidCommand(f"which shell? Choose one of {', '.join(SHELLS)}")
    print(completion_script(args.shell))
    return 0


def completion_script(shell: str) -> str:
    import shtab

    preamble: Any = {"bash": _functions(_BASH), "zsh": _functions(_ZSH)}  # by shell, whatever its type says
    script = shtab.complete(every_command(), shell=shell, preamble=preamble)
    # shtab's zsh script knows `eval` and a directory of functions; this one may also be sourced.
    return script.replace("$zsh_eval_context[-1] == eval", "$zsh_eval_context[-1] != loadautofunc")


def every_command() -> ArgumentParser:
    """One parser of all commands, with what completes each argument. `hames` itself takes the flags of `tui`."""
    parser = ArgumentParser(prog="hames")
    parser.add_argument("-V", "--version", action="store_true", help="show the version")
    flags = ArgumentParser(add_help=False)
    import_module("hames.cli.tui").add_arguments(flags)
    for action in flags._get_optional_actions():
        parser._add_action(action)
    commands = parser.add_subparsers()
    for name, words in COMMANDS.items():
        command = commands.add_parser(name, help=words, description=words)
        import_module(f"hames.cli.{name.replace('-', '_')}").add_arguments(command)
    _complete(parser)
    return parser


def _complete(parser: ArgumentParser) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            for command in dict[str, ArgumentParser](action.choices).values():
                _complete(command)
            continue
        kind = LOOKED_UP.get(f"{parser.prog} {action.dest}", LOOKED_UP.get(action.dest, ""))
        if choices := FIXED.get(f"{parser.prog} {action.dest}", FIXED.get(action.dest, ())):
            action.choices = choices
        elif kind:
            ask = f"(hames completion --values {kind} 2>/dev/null)"
            _set_completion(action, {"bash": f"_hames_{kind}", "zsh": f"_hames_{kind}", "fish": ask})
        elif str(action.metavar) in PATHS:
            from shtab import FILE

            _set_completion(action, FILE)
        elif not action.option_strings and not action.choices:
            _set_completion(action, {"zsh": "_files"})  # with nothing to offer, zsh would complete no flag either
        if not action.option_strings and action.nargs == "?":
            action.nargs = None  # shtab's bash would never get to the argument after it


def _set_completion(action: Action, by_shell: object) -> None:
    action.complete = by_shell  # pyright: ignore[reportAttributeAccessIssue] - where shtab looks for it


def _functions(template: str) -> str:
    return "\n".join(template.format(kind=kind) for kind in KINDS)
