"""Serve all network protocols and the web page on one port, until Ctrl+C or SIGTERM.

  hames serve                       http://127.0.0.1:4800, for this user only
  hames serve --open                and open the page in a browser
  hames serve --port 0              any free port; the first line says which
  hames serve --host 0.0.0.0 --token
                                    for other machines; clients need a token (HAMES_TOKEN, or one that hames creates)
  hames serve --host 0.0.0.0 --token --tls-cert cert.pem --tls-key key.pem
                                    the same over HTTPS; the files are read again when they change
  hames serve --store postgresql://db/hames
                                    keep threads in PostgreSQL instead of files, so that several machines share them;
                                    with a password rather HAMES_STORE, because everybody can read a command line
  hames serve --runner http://10.0.0.7:4900
                                    run every turn on that `hames runner` (its token: HAMES_RUNNER_TOKEN); nothing
                                    runs on this machine, and --model names one of the runner's models
  hames serve --store postgresql://db/hames
                                    keep threads in a database that other servers and `hames worker` use, too
  hames serve --store postgresql://db/hames --no-work
                                    the same, and run no turns here: a gateway

GET / is the page, GET /events and POST /prompt are the HTTP protocol, /ws, /bootstrap and /flint are WebSockets, /acp,
/mcp, /agui and /v1 (OpenAI's APIs) are for clients of these protocols, and /openapi.json describes the rest.
Programs of this user can also connect to hames.sock in the data directory:
`hames harness --attach`, `hames app-server --attach`.
Exit code: 0 after Ctrl+C or SIGTERM, 2 for a bad option.
"""

import os
import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import get_args

import anyio

from hames import app, logs
from hames.app.sandboxes import sandbox_report
from hames.cli import flags
from hames.cli.node_flags import add_node, add_place, check_node, node_options
from hames.cli.own_addresses import own_addresses
from hames.cli.remote_engine import check_runner_address, open_runner_engine
from hames.cli.wrapping import columns, fold
from hames.config.load import Options
from hames.domain.display import visible
from hames.domain.errors import Misconfigured
from hames.domain.items import FileUpdate
from hames.domain.policy import ApprovalPolicy
from hames.ports.server_state import ServerState
from hames.protocols.sync.pages import GitChanges
from hames.server.app import Server
from hames.server.guard.named_tokens import FILE as TOKENS_FILE
from hames.server.guard.token import checked, token_in
from hames.server.listener import Address
from hames.tui.git_changes import NoDiff, uncommitted_changes

PORT = 4800
OTHER_DEVICES = "only this machine can connect. To allow other devices: hames serve --host 0.0.0.0 --token"
PLAIN_HTTP = (
    "other devices on this network can connect with the token. This is plain HTTP: whoever can watch the network can"
    " read everything, the token too. Use it only on a network that you trust; anywhere else use an SSH tunnel, a"
    " VPN, or"
    " HTTPS (--tls-cert, --tls-key)"
)
HTTPS = "other devices can connect with a token, over HTTPS. Named tokens with roles: hames tokens add NAME --role ROLE"
LOCAL_TOKENS = (
    "named tokens that were made on this machine are not used with --store: all its servers use those that"
    " `hames tokens add NAME --role ROLE --store URL` makes"
)
V1_POLICY: dict[ApprovalPolicy, str] = {
    "never": "clients of /v1 and /agui are never asked; commands stay in the sandbox (never)",
    "onRequest": "clients of /v1 and /agui are asked before anything leaves the sandbox (onRequest)",
    "unlessTrusted": "clients of /v1 and /agui are asked about risky actions (unlessTrusted)",
    "always": "clients of /v1 and /agui are asked every time (always)",
}
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_SECONDS = 12.0
"""After that the process ends, whatever hangs. The log is whole at any moment."""


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser)
    add_address(parser, PORT)
    parser.add_argument(
        "--store", metavar="URL", help="keep threads in this PostgreSQL database, for several machines (HAMES_STORE)"
    )
    parser.add_argument(
        "--no-work", action="store_true", help="with --store: run no turns here, leave them to `hames worker`"
    )
    add_node(parser)
    add_place(parser)
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--runner", metavar="URL", help="run the turns on the sandbox runner at this address")
    parser.add_argument(
        "--runner-stall",
        metavar="SECONDS",
        type=float,
        default=app.STALL_SECONDS,
        help="end a run if the runner sends nothing for so long (default: %(default)g)",
    )

    parser.add_argument(
        "--v1-policy",
        metavar="POLICY",
        choices=get_args(ApprovalPolicy),
        help="the approval policy of threads that clients of /v1 (OpenAI's APIs) and /agui (AG-UI) start:"
        " never, onRequest, unlessTrusted or always (default: v1_policy in config.toml, else as for every thread)",
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
    add_tls(parser)


def add_tls(parser: ArgumentParser) -> None:
    parser.add_argument("--tls-cert", metavar="FILE", default="", help="serve HTTPS with this certificate (PEM)")
    parser.add_argument("--tls-key", metavar="FILE", default="", help="the key of the certificate (PEM, no password)")
    parser.add_argument(
        "--trusted-proxy",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="believe the X-Forwarded-* headers of a reverse proxy at this address or network",
    )


def run(args: Namespace) -> int:
    if args.runner is not None:
        check_runner_address(args.runner)
        if args.agent:
            raise Misconfigured("--agent can't be used with --runner; the runner chooses who carries out the turns")
    check_node(args, args.store or os.environ.get("HAMES_STORE", ""))
    options = flags.options(args)
    logs.set_up(level=options.log_level, file=options.log_file)
    address, token = address_of(args), token_of(args, options)
    return anyio.run(_serve, options, address, token, args)


def address_of(args: Namespace) -> Address:
    """Raises `Misconfigured`."""
    if not 0 <= args.port <= 65535:
        raise Misconfigured(f"{args.port} is not a port: ports are numbers from 0 to 65535")
    return Address(
        host=args.host,
        port=args.port,
        names=tuple(args.allow_host),
        origins=tuple(args.allow_origin),
        tls_cert=args.tls_cert,
        tls_key=args.tls_key,
        proxies=tuple(args.trusted_proxy),
    )


def token_of(args: Namespace, options: Options) -> str | None:
    """From the environment, else from a file; never from the command line, which everybody can read."""
    if named := os.environ.get("HAMES_TOKEN"):
        return checked(named)
    return token_in(options.state_dir) if args.token else None


async def _serve(options: Options, address: Address, token: str | None, args: Namespace) -> int:
    files = app.thread_store(options)
    files.prepare()  # the unix socket lies there, wherever the threads are
    named = args.store or os.environ.get("HAMES_STORE", "")
    shared: ServerState | None = None
    if args.runner is not None:
        store, workspace = files, None
        if named:
            from hames.app.nodes import NodeWorkspace, server_state

            store = app.database_store(named)
            shared = server_state(store)
            workspace = NodeWorkspace(shared)
        opening = open_runner_engine(
            options,
            store,
            args.runner,
            model=args.model or "",
            token=os.environ.get("HAMES_RUNNER_TOKEN", ""),
            stall_s=args.runner_stall,
            memory=partial(files.private_directory, "runner"),
            workspace=workspace,
        )
    elif named:
        from hames.app.nodes import node_store, open_node, server_state

        node = node_options(args, named, works=not args.no_work)
        store = node_store(node)
        shared = server_state(store)
        opening = open_node(options, node, store=store)
    else:
        opening = app.open_engine(options, store=files, leaves_turns=True)
    policy: ApprovalPolicy | None = args.v1_policy or options.v1_policy or None
    async with (
        opening as engine,
        app.serve_engine(
            engine,
            options,
            address,
            token=token,
            git_changes=_git_changes(args),
            api_policy=policy,
            shared=shared,
        ) as server,
        app.traced(engine, options),
    ):
        if engine.node is None:  # a node finds such turns by itself
            engine.beside(engine.continue_turns)
        await _welcome(server, options, engine.rules.defaults.model, address, args.runner)
        if args.open:
            await anyio.to_thread.run_sync(_show, await server.link(), abandon_on_cancel=True)
        await until_stopped()
    return 0


def _git_changes(args: Namespace) -> Callable[[str], Awaitable[GitChanges]]:
    """What a runner or a worker changed is on its machine: the changes of this one would be taken for them."""
    where = f"the runner at {args.runner}" if args.runner else "workers"

    async def none_here(_cwd: str) -> GitChanges:
        return GitChanges(problem=f"turns run on {where}, and so do their changes to files")

    return none_here if args.runner or args.no_work else git_changes


async def git_changes(cwd: str) -> GitChanges:
    """What is not committed in a directory, for the page. The terminal's `/diff` asks in the same way."""
    try:
        found = await uncommitted_changes(Path(cwd))
    except NoDiff as why:
        return GitChanges(problem=str(why))
    return GitChanges(files=tuple(FileUpdate(path=one.path, kind=one.kind, diff=one.diff) for one in found))


async def until_stopped() -> None:
    """Waits for a signal. A second signal, or EXIT_SECONDS, ends the process at once."""
    with anyio.open_signal_receiver(*STOPPING) as signals:
        async for _ in signals:
            break
    print("stopping", file=sys.stderr, flush=True)
    alarm = threading.Timer(EXIT_SECONDS, os._exit, (1,))
    alarm.daemon = True
    alarm.start()


async def _welcome(server: Server, options: Options, model: str, address: Address, runner: str | None) -> None:
    width = columns(sys.stdout)
    rows = [
        *(("page", link) for link in await _links(server, address)),
        *([("", "this link works once, on whichever device opens it first")] if server.service.keyring else []),
        ("workspace", visible(str(options.cwd))),
        ("model", model),
        *([("v1 policy", V1_POLICY[policy])] if (policy := server.service.extras.api_policy) is not None else []),
        *(_runner_rows(options, runner, model) if runner else [("sandbox", await _sandbox(options))]),
        *(("warning", visible(warning)) for warning in options.warnings),
        *([("warning", LOCAL_TOKENS)] if _has_unused_tokens(server, options) else []),
        ("devices", OTHER_DEVICES if address.is_loopback else HTTPS if address.tls_cert else PLAIN_HTTP),
    ]
    lines = [f"  {name:<10} {fold(says, width, indent=13)}" for name, says in rows]
    print("\n".join([f"Hames listens on {server.url}", *lines, "Ctrl+C stops it."]), flush=True)


def _has_unused_tokens(server: Server, options: Options) -> bool:
    return server.service.extras.shared is not None and (options.state_dir / TOKENS_FILE).exists()


async def _sandbox(options: Options) -> str:
    report = await sandbox_report(options)
    return "ready" if report.ok else report.message


def _runner_rows(options: Options, runner: str, model: str) -> list[tuple[str, str]]:
    rows = [("runner", f"{visible(runner)} runs every turn; nothing runs on this machine")]
    if options.model and model.partition("/")[2] not in (options.model, options.model.partition("/")[2]):
        rows.append(("warning", f"the configured model {visible(options.model)} is ignored: the runner has its own"))
    return rows


async def _links(server: Server, address: Address) -> list[str]:
    """The page's address: by name, and by each of this machine's addresses where other devices may come in."""
    link = await server.link()
    if address.host not in ("0.0.0.0", "::"):
        return [link]
    port = server.url.rpartition(":")[2]
    return [link, *(link.replace(server.url, f"{address.scheme}://{own}:{port}", 1) for own in own_addresses())]


def _show(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print(f"no browser was found here; open {url} in yours", file=sys.stderr, flush=True)
