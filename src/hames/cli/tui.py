"""The terminal: talk to an agent in this directory. `hames` alone opens it, too.

  hames                                  a new thread, here
  hames tui --continue                   go on with the last one
  hames --model scripted/hello           no key and no network needed
  hames tui "Why does test_cart fail?"   with a first prompt
  hames tui --attach                     join the server that runs here, and its threads

It starts a server of its own and ends it when it leaves; --attach joins the one that `hames serve` runs here.
Keys are under F1, commands behind /. `NO_COLOR` turns colours off.
Exit code: 0, 1 when there is no terminal or no agent, 2 for a bad option or an unknown model.
"""

import gc
import os
import sys
from argparse import ArgumentParser, Namespace
from functools import partial

from hames import __version__
from hames.cli import flags
from hames.cli.places import usable
from hames.cli.spawn import server_command
from hames.config.options import Options
from hames.domain.errors import HarnessError, Misconfigured


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", default="", help="sent as soon as the agent is there")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-c", "--continue", dest="last", action="store_true", help="go on with the last thread")
    which.add_argument("--thread", metavar="ID", help="go on with this thread")
    parser.add_argument("--attach", action="store_true", help="join the server that runs here (hames serve)")
    parser.add_argument("--theme", choices=("auto", "dark", "light"), default="auto", help="default: as the terminal")
    flags.add_shared(parser)


def run(args: Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print('hames: there is no terminal here; hames run "PROMPT" needs none', file=sys.stderr)
        return 1
    options = flags.options(args)
    hint = "" if args.attach else _checked(options)
    try:
        from hames.tui.app import HamesApp
        from hames.tui.palette import terminal_is_dark
        from hames.tui.reach import spawned
        from hames.tui.session import Wishes
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
        wishes=Wishes(
            model=flags.chosen_model(args, options),
            policy=flags.chosen_policy(args, options),
            sandbox=flags.chosen_sandbox(args, options),
        ),
        hint=hint,
        warnings=() if args.attach else options.warnings,
    )
    sys.setswitchinterval(0.0005)  # keys and the screen have threads of their own, and wait for the one that draws
    gc.freeze()  # what is loaded stays: looking through it again and again would hold up keys
    gc.set_threshold(5_000, 1_000_000, 1_000_000)  # the young alone; `HamesApp` looks through the rest when it rests
    app.run()
    if app.unreachable is not None:
        print(f"hames: {app.unreachable}", file=sys.stderr)
        return 1 if args.attach else app.unreachable.code
    return app.return_code or 0


def _checked(options: Options) -> str:
    """What is said at once, because the first prompt would fail. Raises `UnknownModel` and `Misconfigured`."""
    from hames.app import catalogue

    if not usable(options.data_dir):
        raise Misconfigured(f"threads cannot be kept in {str(options.data_dir)!r}: name another place with --data-dir")
    models = catalogue(options)
    card = models.find(options.model or models.default)
    try:
        models.provider(card)
    except HarnessError as problem:
        return str(problem)
    return ""
