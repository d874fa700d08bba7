"""Serve ACP (the Agent Client Protocol of Zed, JetBrains and other editors) over stdin and stdout, until stdin ends.

  hames acp --cwd path/to/repo
  hames acp --attach                use the threads of a running `hames serve` of the same data directory
  hames acp --setup                 choose a model and save its key, in a terminal; editors offer this as sign-in

Versions 1 and 2 of the protocol are spoken; the editor chooses. docs/editors.md has the settings of each editor.

stdout carries only protocol messages; logs go to stderr or to --log-file.
Exit code: 0 when stdin ends, 128 + the signal number after SIGTERM, SIGINT or SIGHUP, 2 for a bad option,
1 if the server used with --attach has ended.
"""

from argparse import ArgumentParser, Namespace

from hames.app import default_settings
from hames.cli import stdio_server
from hames.protocols.acp.session import AcpSession


def add_arguments(parser: ArgumentParser) -> None:
    stdio_server.add_arguments(parser)
    parser.add_argument("--setup", action="store_true", help="choose a model and save its key, then end")


def run(args: Namespace) -> int:
    if args.setup:
        from hames.cli import setup
        from hames.cli.parsing import parser_for

        parser = parser_for("hames setup", setup.__doc__)
        setup.add_arguments(parser)
        return setup.run(parser.parse_args([]))
    return stdio_server.run(args, "acp", lambda options, models: AcpSession(models, default_settings(options, models)))
