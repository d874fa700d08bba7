"""Command lines, and errors that name the word that was not understood."""

import argparse
import os
import sys
from typing import NoReturn

from hames.cli import other_tools
from hames.cli.wrapping import columns, fold, fold_help

COLUMNS = 80
"""Of help that goes to no terminal."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Names the value of an option once, however many names the option has."""

    def __init__(self, prog: str) -> None:
        # argparse makes one for every option that is added, and imports a slow module to find the width.
        known = "COLUMNS" in os.environ or sys.stdout.isatty()
        super().__init__(prog, width=None if known else COLUMNS - 2)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, action.dest.upper())
        return f"{', '.join(sorted(action.option_strings, key=len))} {value}"


class Parser(argparse.ArgumentParser):
    """Says one sentence about a mistake, and no list of everything there is."""

    mixes_words_and_options = False
    """Whether the words of a command may stand before, between and behind its options."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, fold(f"{self.prog}: {message}", columns(sys.stderr)) + "\n")


def parser_for(typed: str, description: str | None) -> Parser:
    """`typed` is what the user typed to get here, such as `hames run`."""
    return Parser(
        prog=typed,
        description=fold_help(description or "", columns(sys.stdout)),
        formatter_class=_Help,
    )


def parsed(parser: Parser, words: list[str], *, prompts: bool) -> argparse.Namespace:
    """Ends the program with a sentence for what cannot be understood. `prompts`: the command takes a prompt."""
    parse = parser.parse_known_intermixed_args if parser.mixes_words_and_options else parser.parse_known_args
    args, left = parse(words)
    if prompts and (problem := _misplaced_setting(args)):
        parser.error(problem)
    if left:
        parser.error(_unknown(parser.prog, left, args, prompts=prompts))
    return args


def _misplaced_setting(args: argparse.Namespace) -> str:
    return other_tools.setting_as_prompt(args.prompt, after_continue=args.last)


def _unknown(prog: str, left: list[str], args: argparse.Namespace, *, prompts: bool) -> str:
    flags = [word for word in left if word.startswith("-") and word != "-"]
    if flags:
        word = flags[0].partition("=")[0]
        if instead := other_tools.instead_of_flag(word):
            use = "" if instead.startswith("Leave") else "Use "
            return f"unknown option {word!r}. {use}{instead}"
        return f"unknown option {word!r}; {_help(prog)} lists the options"
    if prompts:
        return f"put the prompt in quotes: {prog} {' '.join((args.prompt, *left))!r}"
    return f"{left[0]!r} is an unexpected argument; {_help(prog)} shows the arguments"


def _help(prog: str) -> str:
    return f"{prog} --help" if " " in prog else f"{prog} help tui"
