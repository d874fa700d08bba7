"""Serve the protocol of an installed package over stdin and stdout, one message a line, until stdin ends.

  hames stdio NAME                  the protocol that a package offers as NAME under the entry point hames.protocols

stdout carries the protocol and nothing else; logs go to stderr or to --log-file.
Exit code: 0 at the end of stdin, 128 and the signal's number after SIGTERM, SIGINT or SIGHUP, 2 for a bad option.
"""

from argparse import ArgumentParser, Namespace

from hames.app import installed_session
from hames.cli import flags, stdio_server


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("protocol", metavar="NAME", help="as the package names it")
    flags.add_shared(parser)
    parser.set_defaults(attach=False, server="")


def run(args: Namespace) -> int:
    return stdio_server.run(
        args, args.protocol, lambda options, models: installed_session(options, models, args.protocol)
    )
