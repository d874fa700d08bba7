"""Serve bootstrap, JSON-RPC 2.0, over stdin and stdout: one message a line, until stdin ends.

  hames harness --cwd path/to/repo
  echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}' | hames harness
  hames harness --attach            a door to the threads of a running `hames serve` of the same data directory

stdout carries the protocol and nothing else; logs go to stderr or to --log-file. `bootstrap harness` is the same.
Exit code: 0 at the end of stdin, 128 and the signal's number after SIGTERM, SIGINT or SIGHUP, 2 for a bad option,
1 when the server that was joined has ended.
"""

from argparse import ArgumentParser, Namespace

import anyio

from hames import logs
from hames.app import open_engine
from hames.cli import flags
from hames.protocols.bootstrap.session import BootstrapSession
from hames.stdio import process as stdio
from hames.stdio.descriptors import Start, claim, unblock_stderr


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser)
    parser.add_argument("--attach", action="store_true", help="join the server that runs on this data directory")


def run(args: Namespace) -> int:
    start = args.start or Start(claim())
    options = flags.options(args)
    unblock_stderr()
    logs.set_up(level=options.log_level, file=options.log_file)
    if args.attach:
        flags.without_terms(args)
        from hames.server.attach import attach

        return stdio.exit_code(anyio.run(attach, options.data_dir, "bootstrap", start))
    return stdio.exit_code(anyio.run(stdio.serve, lambda: open_engine(options), BootstrapSession(), start))
