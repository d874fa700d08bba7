"""Serve flint over stdin and stdout: JSONL, shaped like Codex's app server, one message a line, until stdin ends.

  hames app-server --cwd path/to/repo
  echo '{"id":1,"method":"initialize","params":{"clientInfo":{"name":"me","version":"1"}}}' | hames app-server
  hames app-server --attach         a door to the threads of a running `hames serve` of the same data directory

stdout carries the protocol and nothing else; logs go to stderr or to --log-file.
Exit code: 0 at the end of stdin, 128 and the signal's number after SIGTERM, SIGINT or SIGHUP, 2 for a bad option,
1 when the server that was joined has ended.
"""

from argparse import Namespace

from hames.app import default_settings
from hames.cli import stdio_server
from hames.config.options import Options
from hames.ports import Models
from hames.protocols.flint.session import FlintSession

add_arguments = stdio_server.add_arguments


def run(args: Namespace) -> int:
    return stdio_server.run(args, "flint", _session)


def _session(options: Options, models: Models) -> FlintSession:
    return FlintSession(models, default_settings(options, models), home=str(options.data_dir))
