"""Talk to an agent in this terminal. `hames` without a command does the same.

  hames                                  start a new thread here
  hames --continue                       continue the last thread
  hames --thread ID                      continue this thread
  hames --model scripted/hello           no key and no network needed
  hames tui "Why does test_cart fail?"   start with a first message
  hames --attach                         use the `hames serve` that runs in this directory, and its threads
  hames --attach https://host:4800       use the server at this address; its token: HAMES_TOKEN

It starts its own server and stops it on exit; --attach uses the one that `hames serve` started in this directory, or
the one at an address. --tls-ca names the CA of a certificate that this system does not trust.
F1 shows the keys, / the commands. `NO_COLOR` turns colours off.
Exit code: 0, 1 if there is no terminal or no agent, 2 for a bad option or an unknown model, 128 + the signal number
after a signal.
"""

import gc
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from hames import __version__
from hames.cli import flags
from hames.cli.directories import is_writable
from hames.cli.spawn import server_command
from hames.config.load import Options
from hames.domain.display import visible
from hames.domain.errors import HarnessError, Misconfigured
from hames.tui.first_frame import FirstFrame, first_frame

if TYPE_CHECKING:
    from hames.tui.app import HamesApp
    from hames.tui.conversation import Conversation


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", default="", help="sent as soon as the agent is ready")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-c", "--continue", dest="last", action="store_true", help="continue the last thread")
    which.add_argument("--thread", metavar="ID", help="continue this thread")
    parser.add_argument(
        "--attach",
        metavar="URL",
        nargs="?",
        const="",
        help="use the server that `hames serve` runs in this directory, or the one at this address",
    )
    parser.add_argument("--server", metavar="URL", default="", help="the same as --attach URL")
    parser.add_argument("--tls-ca", metavar="FILE", default="", help="trust the certificates of this CA (PEM)")
    parser.add_argument(
        "--theme", choices=("auto", "dark", "light"), default="auto", help="default: the same as the terminal"
    )
    flags.add_worktree(parser)
    flags.add_shared(parser)
    parser.set_defaults(own_default=True)


def run(args: Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print('hames: there is no terminal here; hames run "PROMPT" needs none', file=sys.stderr)
        return 1
    if missing := next((name for name in ("textual", "rich") if find_spec(name) is None), None):
        raise Misconfigured(f"the terminal needs {missing!r}: pip install 'hames[tui]'")
    find_server(args)
    args.new_worktree = flags.chosen_worktree(args)
    options = flags.options(args)
    if not args.attach and not is_writable(options.data_dir):
        raise Misconfigured(
            f"threads cannot be saved in {str(options.data_dir)!r}: choose another place with --data-dir"
        )
    ask = args.theme == "auto" and os.environ.get("TERM") != "dumb"
    with first_frame(visible(str(options.cwd)), __version__, ask_background=ask) as frame:
        app = _load(args, options, frame)
        sys.setswitchinterval(0.0005)  # keys and the screen have threads of their own, and wait for the one that draws
        gc.freeze()  # what is loaded stays: looking through it again and again would hold up keys
        gc.set_threshold(5_000, 1_000_000, 1_000_000)  # the young alone; `HamesApp` looks through the rest when idle
        app.run()
    if app.unreachable is not None:
        print(f"hames: {app.unreachable}", file=sys.stderr)
        return 1 if args.attach else app.unreachable.code
    if lines := exit_lines(app.talk, _resume_flags(args, options)):
        with suppress(OSError):
            print(lines, flush=True)
    return app.return_code or 0


def find_server(args: Namespace) -> None:
    """Tells the address behind `--attach` from a prompt behind it. Raises `Misconfigured`."""
    word = args.attach or ""
    args.attach = args.attach is not None or bool(args.server)
    if word.startswith(("http://", "https://")):
        if args.server:
            raise Misconfigured("--attach and --server name the server twice; leave one out")
        args.server = word
    elif word:
        if args.prompt:
            raise Misconfigured(f"{word!r} is not an address such as https://host:4800")
        args.prompt = word
    if args.tls_ca and not args.server:
        raise Misconfigured("--tls-ca is for a server with an https address: --attach https://host:4800")


def _load(args: Namespace, options: Options, frame: FirstFrame) -> "HamesApp":
    """Loads what the screen is made of."""
    from hames.tui.app import HamesApp
    from hames.tui.palette import terminal_is_dark
    from hames.tui.server_process import spawn_server
    from hames.tui.session import NewThreadSettings

    frame.listen()
    dark = terminal_is_dark(frame.background, os.environ) if args.theme == "auto" else args.theme == "dark"
    resume = "last" if args.last else args.thread
    return HamesApp(
        partial(spawn_server, server_command(args, options, attach=args.attach), version=__version__),
        cwd=options.cwd,
        state_dir=options.state_dir,
        dark=dark,
        resume=resume,
        prompt=args.prompt,
        new_settings=NewThreadSettings(
            model=flags.chosen_model(args, options),
            policy=flags.chosen_policy(args, options),
            default_policy=flags.new_thread_policy(args, options),
            agent=options.agent if args.mode else None,
            sandbox=flags.chosen_sandbox(args, options),
            elsewhere=bool(args.server),
            worktree=args.new_worktree,
        ),
        # A thread that is opened again has a model of its own, and a running server has settings of its own.
        check=None if args.attach or resume else partial(_problem, options),
        mcp_servers=partial(_mcp_servers, args),
        first_frame=frame,
        warnings=() if args.attach else options.warnings,
        notice=None if args.server else partial(_missing_threads, options),
    )


def _problem(options: Options) -> str:
    """Why the first prompt would fail, or nothing. What keeps the server from starting, it says itself."""
    from hames.app import catalogue

    try:
        models = catalogue(options)
        models.provider(models.find(options.model or models.default))
    except HarnessError as problem:
        return str(problem)
    return ""


def _missing_threads(options: Options) -> str:
    """Threads that can be restored, in a sentence; or nothing."""
    import anyio

    from hames.app.missing_threads import missing_notice

    return anyio.run(missing_notice, options)


def _mcp_servers(args: Namespace, states: Mapping[str, str]) -> str:
    """Read again each time: the file may have changed since the start."""
    from hames.cli.config import without_secrets

    try:
        options = flags.options(args)
    except HarnessError as problem:
        return str(problem)
    lines: list[str] = []
    for name, server in options.mcp_servers.items():
        target = without_secrets(server.url) if server.url else " ".join([server.command, *server.args])
        state = states.get(name, "starts with the next thread") if server.enabled else "disabled"
        lines.append(f"{name}  {target}  ({state})")
    lines += [f"{name}  ({state})" for name, state in states.items() if name not in options.mcp_servers]
    lines = ["MCP servers:", *lines, "To try one: hames mcp test NAME"] if lines else []
    if options.untrusted:
        names = ", ".join(options.untrusted)
        lines.append(f"Ignored because this project is not trusted: {names}. To trust it: hames trust")
    return "\n".join(lines) or "No MCP servers are configured. To add one: hames mcp add --help"


def _resume_flags(args: Namespace, options: Options) -> list[str]:
    """What finds the same threads again from the directory that the command line was in."""
    words = ["--attach"] if args.attach else []
    if args.server:
        words = [f"--attach={args.server}", *([f"--tls-ca={args.tls_ca}"] if args.tls_ca else [])]
    if options.cwd != Path.cwd():
        words.append(f"--cwd={options.cwd}")
    if args.data_dir is not None:
        words.append(f"--data-dir={options.data_dir}")
    return words


def exit_lines(talk: "Conversation", words: list[str]) -> str:
    """What stays on the screen: the thread, how to open it again, and what it used. Nothing if there is no thread."""
    if not talk.thread_id:
        return ""
    from hames.tui.text import dollars, tokens

    used = [f"{tokens(talk.spent.total.total_tokens)} tokens"] if talk.spent.total is not None else []
    used += [dollars(talk.cost)] if talk.cost is not None else []
    head = f"Thread {talk.thread_id}" + (f" · {' · '.join(used)}" if used else "")
    return f"{head}\nTo continue: {shlex.join(['hames', *words, '--thread', talk.thread_id])}"
