"""Write the completions of a shell, made from the commands themselves.

  hames completion bash > ~/.local/share/bash-completion/completions/hames
  hames completion zsh > ~/.zfunc/_hames
  hames completion fish > ~/.config/fish/completions/hames.fish

Models, threads, selectors and MCP servers are looked up as you press Tab.
"""

import argparse
from argparse import Action, ArgumentParser, Namespace
from importlib import import_module

from hames.cli.completion_shells import Word, bash, fish, zsh
from hames.cli.completion_values import KINDS, values
from hames.cli.main import COMMANDS

SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
FIXED = {
    "--approval-policy": ("never", "unlessTrusted", "always"),
    "--sandbox": ("readOnly", "workspaceWrite", "dangerFullAccess", "externalSandbox"),
    "--agent": ("codex",),
    "--log-level": ("debug", "info", "warning", "error"),
}
LOOKED_UP = {"--model": "models", "-m": "models", "--thread": "threads", "--option": "options", "-o": "options"}
PATHS = ("FILE", "DIR", "SOCKET")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, nargs="?")
    parser.add_argument("--values", choices=KINDS, help=argparse.SUPPRESS)


def run(args: Namespace) -> int:
    if args.values:
        print("\n".join(values(args.values)))
        return 0
    if args.shell is None:
        from hames.domain.errors import InvalidCommand

        raise InvalidCommand(f"which shell? There are {', '.join(SHELLS)}")
    print(SHELLS[args.shell](words(), COMMANDS))
    return 0


def words() -> dict[str, list[Word]]:
    """Every command of this installation with what may follow it."""
    found: dict[str, list[Word]] = {}
    for name in COMMANDS:
        parser = ArgumentParser(prog=name)
        import_module(f"hames.cli.{name.replace('-', '_')}").add_arguments(parser)
        found[name] = [word for action in parser._actions for word in _words(action)]
    found["threads"].append(Word(text="", help="", looked_up="threads"))
    found["mcp"].append(Word(text="", help="", looked_up="servers"))
    return found


def _words(action: Action) -> list[Word]:
    if action.help == argparse.SUPPRESS:
        return []
    help_text = (action.help or "").replace("%(default)s", str(action.default)).replace("%(default)g", "")
    choices = tuple(str(choice) for choice in action.choices or ())
    if not action.option_strings:
        return [Word(text=choice, help="") for choice in choices]
    return [
        Word(
            text=flag,
            help=help_text,
            takes=choices or FIXED.get(action.option_strings[0], ()),
            looked_up=LOOKED_UP.get(flag, ""),
            file=str(action.metavar) in PATHS,
            valued=action.nargs != 0,
        )
        for flag in action.option_strings
    ]
