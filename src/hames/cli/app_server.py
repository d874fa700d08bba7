"""Serve flint (JSON lines in the format of Codex's app server) over stdin and stdout, until stdin ends.

  hames app-server --cwd path/to/repo
  echo '{"id":1,"method":"initialize","params":{"clientInfo":{"name":"me","version":"1"}}}' | hames app-server
  hames app-server --attach         use the threads of a running `hames serve` of the same data directory

stdout carries only protocol messages; logs go to stderr or to --log-file.
Exit code: 0 when stdin ends, 128 + the signal number after SIGTERM, SIGINT or SIGHUP, 2 for a bad option,
1 if the server used with --attach has ended.
"""

from argparse import Namespace

from hames.app import default_settings
from hames.cli import stdio_server
from hames.config.load import Options
from hames.ports import Models
from hames.protocols.flint.session import FlintSession

add_arguments = stdio_server.add_arguments


def run(args: Namespace) -> int:
    return stdio_server.run(args, "flint", _session)


def _session(options: Options, models: Models) -> FlintSession:
    return FlintSession(models, default_settings(options, models), home=str(options.data_dir))
