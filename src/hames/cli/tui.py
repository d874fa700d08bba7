"""The terminal: talk to an agent in this directory. `hames` alone opens it, too.

  hames                                  a new thread, here
  hames tui --continue                   go on with the last one
  hames --model scripted/hello           no key and no network needed
  hames tui "Why does test_cart fail?"   with a first prompt
  hames tui --attach                     join the server that runs here, and its threads

It starts a server of its own and ends it when it leaves; --attach joins the one that `hames serve` runs here.
Keys are under F1, commands behind /. `NO_COLOR` turns colours off.
Exit code: 0, or 1 when there is no terminal or no agent.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from functools import partial

from hames import __version__
from hames.cli import flags
from hames.cli.spawn import server_command
from hames.domain.errors import Misconfigured


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", default="", help="sent as soon as the agent is there")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-c", "--continue", dest="last", action="store_true", help="go on with the last thread")
    which.add_argument("--thread", metavar="ID", help="go on with this thread")
    parser.add_argument("--attach", action="store_true", help="join the server that runs here (hames serve)")
    parser.add_argument("--theme", choices=("auto", "dark", "light"), default="auto", help="default: as the terminal")
    flags.add_shared(parser)


def run(args: Namespace) -> int:
    options = flags.options(args)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print('hames: there is no terminal here; hames run "PROMPT" needs none', file=sys.stderr)
        return 1
    try:
        from hames.tui.app import HamesApp
        from hames.tui.palette import terminal_is_dark
        from hames.tui.reach import spawned
    except ModuleNotFoundError as missing:
        raise Misconfigured(f"the terminal needs {missing.name!r}: pip install 'hames[tui]'") from None
    reach = partial(spawned, server_command(args, options, attach=args.attach), version=__version__)
    dark = terminal_is_dark(os.environ) if args.theme == "auto" else args.theme == "dark"
    app = HamesApp(
        reach,
        cwd=options.cwd,
        state_dir=options.state_dir,
        dark=dark,
        resume="last" if args.last else args.thread,
        prompt=args.prompt,
        model=args.model,
    )
    app.run()
    return app.return_code or 0
