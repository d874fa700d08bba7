"""What `hames harness` and `hames app-server` have in common: one protocol over stdin and stdout."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial

import anyio

from hames import logs
from hames.app import catalogue, open_engine
from hames.cli import flags
from hames.config.load import Options
from hames.ports import Models
from hames.protocols.session import Session
from hames.stdio import process
from hames.stdio.descriptors import Start, claim, unblock_stderr


def add_arguments(parser: ArgumentParser, *, above: tuple[str, ...] = ()) -> None:
    """`above`: the flags that the command above has as well."""
    flags.add_shared(parser, above=above)
    parser.add_argument("--attach", action="store_true", help="use the server that runs on this data directory")
    add_remote(parser)


def add_remote(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--server", metavar="URL", default="", help="use the server at this address; its token: HAMES_TOKEN"
    )
    parser.add_argument("--tls-ca", metavar="FILE", default="", help="trust the certificates of this CA (PEM)")


def run(
    args: Namespace,
    protocol: str,
    open_session: Callable[[Options, Models], Session],
    *,
    load: Callable[[], Options] | None = None,
) -> int:
    """`load` reads the configuration, where the flags alone do not say it all."""
    start = args.start or Start(claim())
    options = load() if load is not None else flags.options(args)
    unblock_stderr()
    logs.set_up(level=options.log_level, file=options.log_file)
    if args.server:
        flags.without_terms(args)
        from hames.server.remote import attach_remote

        token = options.environment.get("HAMES_TOKEN", "")
        joined = partial(attach_remote, args.server, protocol, start, token=token, ca_file=args.tls_ca)
        return process.exit_code(anyio.run(joined))
    if args.attach:
        flags.without_terms(args)
        from hames.server.attach import attach

        return process.exit_code(anyio.run(attach, options.data_dir, protocol, start))
    models = catalogue(options)
    session = open_session(options, models)
    return process.exit_code(anyio.run(process.serve, lambda: open_engine(options, models=models), session, start))
