"""Serve bootstrap (JSON-RPC 2.0) over stdin and stdout, one message per line, until stdin ends.

  hames harness --cwd path/to/repo
  echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}' | hames harness
  hames harness --attach            use the threads of a running `hames serve` of the same data directory

stdout carries only protocol messages; logs go to stderr or to --log-file. `bootstrap harness` is the same.
Exit code: 0 when stdin ends, 128 + the signal number after SIGTERM, SIGINT or SIGHUP, 2 for a bad option,
1 if the server used with --attach has ended.
"""

from argparse import Namespace

from hames.cli import stdio_server
from hames.protocols.bootstrap.session import BootstrapSession

add_arguments = stdio_server.add_arguments


def run(args: Namespace) -> int:
    return stdio_server.run(args, "bootstrap", lambda _options, _models: BootstrapSession())
