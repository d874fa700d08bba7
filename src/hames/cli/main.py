"""The command line: one lazy module per command.

A command is a module of this package with a docstring (what it does, with examples), `add_arguments(parser)` and
`run(args) -> int`. Nothing is imported here that a server does not need before its first answer.
"""

import gc
import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # `python -m` puts the current directory there, and what lies in it must not be imported

from hames.cli import first_answer
from hames.executables import forget_current_directory

COMMANDS = {
    "setup": "choose a model, save its key and check the sandbox: run this first",
    "tui": "talk to an agent in this terminal (hames alone does the same)",
    "run": "send one prompt and print the answer, for scripts",
    "exec": "the same with the options and JSON events of `codex exec`, for programs made for Codex",
    "harness": "serve bootstrap (JSON-RPC 2.0) over stdin and stdout",
    "app-server": "serve flint (JSON lines in the format of Codex) over stdin and stdout",
    "acp": "serve ACP for editors (Zed, JetBrains, Neovim, …) over stdin and stdout",
    "stdio": "serve the protocol of an installed package over stdin and stdout",
    "serve": "serve HTTP and SSE, WebSocket and the web page on one port",
    "runner": "serve a sandbox runner over HTTP and SSE",
    "worker": "run the turns of threads in a shared PostgreSQL store",
    "nodes": "list the servers and workers of a shared PostgreSQL store",
    "tokens": "give other people and programs access to a server, with a role",
    "eval": "let a model work on tasks and print a table of the results",
    "demo": "a demo task with a fake model: no key, no network",
    "threads": "list, show, export, archive and fork threads",
    "store": "look after threads in a PostgreSQL database, and copy them",
    "undo": "take back what the agent did to your files",
    "worktrees": "list, merge, keep or drop the git worktrees of threads",
    "models": "list the available models",
    "agents": "list the agent programs that can carry out turns: Claude Code, Codex, Gemini, goose, …",
    "login": "save the API key of a model provider, or show which are saved",
    "config": "show each setting and where it comes from",
    "doctor": "check this machine and say what is missing",
    "schema": "write JSON Schema of the protocols",
    "mcp": "list, add, remove and test MCP servers; serve: offer Hames as one",
    "policy": "say what the agent may do here and why; import rules of other tools",
    "trust": "allow this project's own configuration (hames.toml, .mcp.json)",
    "sandbox": "run a command in the same sandbox as the agent's commands",
    "completion": "write completion scripts for your shell",
    "help": "show this list, or the help of a command",
}
OPTIONS_BEFORE = frozenset({"app-server", "exec"})
"""Commands that other programs start with options before the command, as Codex allows it."""


def main(argv: list[str] | None = None) -> int:
    """The exit code. Without `argv` this is the program itself, which ends here."""
    if argv is not None:
        return _main(argv)
    code = _main(sys.argv[1:])
    # Everything is closed by now; taking the interpreter apart would cost as much as starting it.
    from contextlib import suppress

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _main(words: list[str]) -> int:
    # Imports make many objects and no garbage: collecting meanwhile takes a tenth of the start.
    gc.disable()
    forget_current_directory()
    try:
        if words and words[0].startswith("-") and not OPTIONS_BEFORE.isdisjoint(words):
            from hames.cli.codex.launch import command_first

            words = command_first(words, tuple(OPTIONS_BEFORE))
        start = first_answer.start(words)
        return _run(words, start)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read us has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141


def _run(words: list[str], start: object) -> int:
    from importlib import import_module

    name = sys.argv[0].rpartition("/")[2]
    program = "bootstrap" if name == "bootstrap" else "hames"
    typed = f"{program} {words[0]}" if words and words[0] in COMMANDS else program
    if _is_for_the_terminal(words):
        words = ["tui", *words]
    elif _is_prompt(words):
        words = ["tui" if _has_terminal() else "run", *words]
    if not words or words[0] not in COMMANDS:
        return _help(program, words)
    module = import_module(f"hames.cli.{words[0].replace('-', '_')}")
    from hames.cli.parsing import parsed, parser_for
    from hames.cli.wrapping import columns, fold

    parser = parser_for(typed, module.__doc__)
    module.add_arguments(parser)
    args = parsed(parser, words[1:], prompts=words[0] in ("run", "tui"))
    args.start = start

    from hames.domain.display import printable
    from hames.domain.errors import HarnessError, InvalidCommand, Misconfigured

    gc.freeze()
    gc.enable()
    try:
        return module.run(args)
    except HarnessError as error:
        print(fold(f"{program}: {printable(str(error))}", columns(sys.stderr)), file=sys.stderr)
        return 2 if isinstance(error, InvalidCommand | Misconfigured) else 1


def _is_for_the_terminal(words: list[str]) -> bool:
    """`hames` with nothing but flags; alone, only where there is a terminal to open."""
    if not words:
        return _has_terminal()
    return words[0].startswith("-") and words[0] not in ("-h", "--help", "-V", "--version")


def _is_prompt(words: list[str]) -> bool:
    """`hames "Fix the tests"`: several words in one argument are for the agent."""
    return bool(words) and words[0] not in COMMANDS and " " in words[0].strip()


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _help(program: str, words: list[str]) -> int:
    from hames import __version__
    from hames.cli.wrapping import columns, fold, fold_help

    if words[:1] in (["-V"], ["--version"]):
        print(f"hames {__version__}")
        return 0
    asked = words[:1] in (["-h"], ["--help"])
    stream = sys.stdout if asked else sys.stderr
    width = columns(stream)
    lines = [
        fold_help(f"usage: {program}                      open the terminal in this directory", width),
        fold_help(f'       {program} "PROMPT"             the same, with a first prompt', width),
        f"       {program} COMMAND [OPTIONS]",
        "",
        "commands:",
        *(f"  {name:<12} {fold(words, width, indent=15)}" for name, words in COMMANDS.items()),
        "",
        fold(f"`{program} help COMMAND` explains a command, `{program} --version` shows the version.", width),
    ]
    if words and not asked:
        lines = [fold(f"{program}: no command {words[0]!r}; {_instead(program, words[0])}", width)]
    print("\n".join(lines), file=stream)
    return 0 if asked else 2


def _instead(program: str, word: str) -> str:
    """A suggestion for an unknown command."""
    from difflib import get_close_matches

    from hames.cli.other_tools import instead_of_command, setting_as_prompt

    if instead := instead_of_command(word):
        return f"use {instead}"
    if problem := setting_as_prompt(word, after_continue=False):
        return problem
    if near := get_close_matches(word, COMMANDS, n=1):
        return f"did you mean {program} {near[0]}?"
    return f"{program} --help lists the commands; {program} run {word!r} sends it to the agent"


if __name__ == "__main__":
    sys.exit(main())
