"""Serve bootstrap, JSON-RPC 2.0, over stdin and stdout: one message a line, until stdin ends.

  hames harness --cwd path/to/repo
  echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}' | hames harness
  hames harness --attach            a door to the threads of a running `hames serve` of the same data directory

stdout carries the protocol and nothing else; logs go to stderr or to --log-file. `bootstrap harness` is the same.
Exit code: 0 at the end of stdin, 128 and the signal's number after SIGTERM, SIGINT or SIGHUP, 2 for a bad option,
1 when the server that was joined has ended.
"""

from argparse import Namespace

from hames.cli import stdio_server
from hames.protocols.bootstrap.session import BootstrapSession

add_arguments = stdio_server.add_arguments


def run(args: Namespace) -> int:
    return stdio_server.run(args, "bootstrap", lambda _options, _models: BootstrapSession())
