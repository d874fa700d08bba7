"""Show the list of commands, or the help of one.

hames help
hames help run
"""

from argparse import ArgumentParser, Namespace

from hames.cli import main


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="the command to explain")


def run(args: Namespace) -> int:
    return main.main([args.command, "--help"] if args.command else ["--help"])
