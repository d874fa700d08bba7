"""Serve all network protocols and the web page on one port, until Ctrl+C or SIGTERM.

  hames serve                       http://127.0.0.1:4800, for this user only
  hames serve --open                and open the page in a browser
  hames serve --port 0              any free port; the first line says which
  hames serve --host 0.0.0.0 --token
                                    for other machines; clients need a token (HAMES_TOKEN, or one that hames creates)
  hames serve --runner http://10.0.0.7:4900
                                    run turns on that `hames runner` (its token: HAMES_RUNNER_TOKEN)

GET / is the page, GET /events and POST /prompt are the HTTP protocol, /ws, /bootstrap and /flint are WebSockets, and
/openapi.json describes the rest. Programs of this user can also connect to hames.sock in the data directory:
`hames harness --attach`, `hames app-server --attach`.
Exit code: 0 after Ctrl+C or SIGTERM, 2 for a bad option.
"""

import os
import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from hames import __version__, logs
from hames.agents.runner.agent import STALL_SECONDS, RunnerAgent
from hames.agents.runner.models import RunnerShelf
from hames.app import catalogue, open_engine, sandbox_settings
from hames.cli import flags
from hames.cli.own_addresses import own_addresses
from hames.cli.wrapping import columns, fold
from hames.clock_and_ids import SystemClock
from hames.config.options import Options
from hames.core.engine import Engine
from hames.domain.display import visible
from hames.domain.errors import Misconfigured
from hames.domain.items import FileUpdate
from hames.observe import traces as server_traces
from hames.protocols.bootstrap.session import BootstrapSession
from hames.protocols.flint.session import FlintSession
from hames.protocols.sync.pages import GitChanges, SandboxReport
from hames.providers.catalogue import Catalogue
from hames.sandbox.local import LocalSandbox
from hames.server.app import Extras, Server, serving
from hames.server.guard.token import checked, token_in
from hames.server.listener import Address
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.tui.git_changes import NoDiff, uncommitted_changes

PORT = 4800
OTHER_DEVICES = "only this machine can connect. To allow other devices: hames serve --host 0.0.0.0 --token"
PLAIN_HTTP = (
    "other devices on this network can connect with the token. This is plain HTTP: whoever can watch the network can"
    " read everything, the token too. Use it only on a network that you trust; anywhere else use an SSH tunnel, a"
    " VPN, or a"
    " proxy with HTTPS"
)
DEMO_MODEL = "scripted/hello"
PAGE = Path(__file__).resolve().parent.parent / "web" / "static"
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LAST_SPANS_SECONDS = 2.0
EXIT_SECONDS = 12.0
"""After that the process ends, whatever hangs. The log is whole at any moment."""


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser)
    add_address(parser, PORT)
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--runner", metavar="URL", help="run the turns on the sandbox runner at this address")
    parser.add_argument(
        "--runner-stall",
        metavar="SECONDS",
        type=float,
        default=STALL_SECONDS,
        help="end a run if the runner sends nothing for so long (default: %(default)g)",
    )


def add_address(parser: ArgumentParser, port: int) -> None:
    parser.add_argument(
        "--host", metavar="ADDRESS", default="127.0.0.1", help="the address to listen on (default: %(default)s)"
    )
    parser.add_argument("--port", metavar="N", type=int, default=port, help="0: any (default: %(default)s)")
    parser.add_argument(
        "--token",
        action="store_true",
        help="every client needs a token: HAMES_TOKEN, or one that hames creates and saves",
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="another name of this server, with port if it has one",
    )
    parser.add_argument(
        "--allow-origin",
        metavar="URL",
        action="append",
        default=[],
        help="allow web pages of this origin to use this server",
    )


def run(args: Namespace) -> int:
    options = flags.options(args)
    logs.set_up(level=options.log_level, file=options.log_file)
    address, token = address_of(args), token_of(args, options)
    return anyio.run(_serve, options, address, token, args)


def address_of(args: Namespace) -> Address:
    """Raises `Misconfigured`."""
    if not 0 <= args.port <= 65535:
        raise Misconfigured(f"{args.port} is not a port: ports are numbers from 0 to 65535")
    return Address(host=args.host, port=args.port, names=tuple(args.allow_host), origins=tuple(args.allow_origin))


def token_of(args: Namespace, options: Options) -> str | None:
    """From the environment, else from a file; never from the command line, which everybody can read."""
    if named := os.environ.get("HAMES_TOKEN"):
        return checked(named)
    return token_in(options.state_dir) if args.token else None


async def _serve(options: Options, address: Address, token: str | None, args: Namespace) -> int:
    store = JsonlStore(options.data_dir, places=Places(options.state_dir))
    store.prepare()
    models, agents = catalogue(options), None
    if args.runner:
        agent = RunnerAgent(args.runner, token=os.environ.get("HAMES_RUNNER_TOKEN", ""), stall_s=args.runner_stall)
        shelf = RunnerShelf()
        models = Catalogue(options.environment, clock=SystemClock(), default=shelf.cards()[0].id, sources=[shelf])
        agents = {agent.name: agent}
    async with (
        open_engine(options, models=models, store=store, agents=agents) as engine,
        serving(engine, address, _extras(options, engine), token=token) as server,
        _traced(engine, options),
    ):
        await _welcome(server, options, engine, address)
        if args.open:
            await anyio.to_thread.run_sync(_show, server.link(), abandon_on_cancel=True)
        await until_stopped()
    return 0


@asynccontextmanager
async def _traced(engine: Engine, options: Options) -> AsyncGenerator[None]:
    traces = server_traces.set_up(options.environment, version=__version__)
    if traces is None:
        yield
        return
    engine.observers.append(traces.observe)
    try:
        yield
    finally:
        engine.observers.remove(traces.observe)
        with anyio.move_on_after(LAST_SPANS_SECONDS, shield=True):
            await anyio.to_thread.run_sync(traces.close, abandon_on_cancel=True)


def _extras(options: Options, engine: Engine) -> Extras:
    home = str(options.data_dir)
    return Extras(
        data_dir=options.data_dir,
        uploads_dir=options.state_dir / "uploads",
        version=__version__,
        sessions={
            "bootstrap": BootstrapSession,
            "flint": lambda: FlintSession(engine.models, engine.rules.defaults, home=home),
        },
        page=PAGE,
        demo_model=DEMO_MODEL,
        sandbox=lambda: _sandbox(options),
        git_changes=git_changes,
    )


async def git_changes(cwd: str) -> GitChanges:
    """What is not committed in a directory, for the page. The terminal's `/diff` asks in the same way."""
    try:
        found = await uncommitted_changes(Path(cwd))
    except NoDiff as why:
        return GitChanges(problem=str(why))
    return GitChanges(files=tuple(FileUpdate(path=one.path, kind=one.kind, diff=one.diff) for one in found))


async def _sandbox(options: Options) -> SandboxReport:
    walls = await LocalSandbox(sandbox_settings(options), environ=options.environment).walls()
    return SandboxReport(ok=walls.kind != "none", message="" if walls.kind != "none" else walls.sentence)


async def until_stopped() -> None:
    """Waits for a signal. A second signal, or EXIT_SECONDS, ends the process at once."""
    with anyio.open_signal_receiver(*STOPPING) as signals:
        async for _ in signals:
            break
    print("stopping", file=sys.stderr, flush=True)
    alarm = threading.Timer(EXIT_SECONDS, os._exit, (1,))
    alarm.daemon = True
    alarm.start()


async def _welcome(server: Server, options: Options, engine: Engine, address: Address) -> None:
    report = await _sandbox(options)
    width = columns(sys.stdout)
    rows = [
        *(("page", link) for link in _links(server, address)),
        *([("", "this link works once, on whichever device opens it first")] if server.service.keyring else []),
        ("workspace", visible(str(options.cwd))),
        ("model", engine.rules.defaults.model),
        ("sandbox", "ready" if report.ok else report.message),
        *(("warning", visible(warning)) for warning in options.warnings),
        ("devices", OTHER_DEVICES if address.is_loopback else PLAIN_HTTP),
    ]
    lines = [f"  {name:<10} {fold(says, width, indent=13)}" for name, says in rows]
    print("\n".join([f"Hames listens on {server.url}", *lines, "Ctrl+C stops it."]), flush=True)


def _links(server: Server, address: Address) -> list[str]:
    """The page's address: by name, and by each of this machine's addresses where other devices may come in."""
    link = server.link()
    if address.host not in ("0.0.0.0", "::"):
        return [link]
    port = server.url.rpartition(":")[2]
    return [link, *(link.replace(server.url, f"http://{own}:{port}", 1) for own in own_addresses())]


def _show(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print(f"no browser was found here; open {url} in yours", file=sys.stderr, flush=True)
