"""Serve flint over stdin and stdout: JSONL, shaped like Codex's app server, one message a line, until stdin ends.

  hames app-server --cwd path/to/repo
  echo '{"id":1,"method":"initialize","params":{"clientInfo":{"name":"me","version":"1"}}}' | hames app-server

stdout carries the protocol and nothing else; logs go to stderr or to --log-file.
Exit code: 0 at the end of stdin, 128 and the signal's number after SIGTERM, SIGINT or SIGHUP, 2 for a bad option.
"""

from argparse import ArgumentParser, Namespace

import anyio

from hames import logs
from hames.app import catalogue, default_settings, open_engine
from hames.cli import flags
from hames.protocols.flint.protocol import Flint
from hames.transports import stdio
from hames.transports.wire import Start, claim, unblock_stderr


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser)


def run(args: Namespace) -> int:
    start = args.start or Start(claim())
    options = flags.options(args)
    unblock_stderr()
    logs.set_up(level=options.log_level, file=options.log_file)
    models = catalogue(options)
    dialect = Flint(models, default_settings(options, models), home=str(options.data_dir))
    return stdio.exit_code(anyio.run(stdio.serve, lambda: open_engine(options, models=models), dialect, start))
