"""The options of commands that use a shared PostgreSQL store."""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from hames.cli.flags import positive
from hames.domain.errors import Misconfigured

if TYPE_CHECKING:
    from hames.app.nodes import NodeOptions

SLOTS = 20


def add_node(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--slots", metavar="N", type=positive, default=None, help=f"take up to N turns at once (default: {SLOTS})"
    )
    parser.add_argument(
        "--label",
        metavar="NAME",
        action="append",
        default=[],
        help="run threads whose place is label:NAME, too; can be given several times",
    )
    parser.add_argument("--name", metavar="NAME", default="", help="the name of this node (default: the machine's)")
    parser.add_argument(
        "--lease",
        metavar="SECONDS",
        type=lease_seconds,
        default=10.0,
        help="other nodes take over the threads of this one if it is silent for so long (default: %(default)g)",
    )


def store_address(args: Namespace) -> str:
    """Raises `Misconfigured`."""
    if not (address := args.store or os.environ.get("HAMES_STORE", "")):
        raise Misconfigured("name the database: --store postgresql://… or the environment variable HAMES_STORE")
    return address


def node_options(args: Namespace, address: str, *, works: bool = True) -> "NodeOptions":
    """Raises `Misconfigured`."""
    from hames.app.nodes import NodeOptions

    slots = (args.slots or SLOTS) if works else 0
    return NodeOptions(store=address, name=args.name, labels=tuple(args.label), slots=slots, lease_s=args.lease)


def lease_seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 0.5 <= seconds <= 3600:
        raise ArgumentTypeError(f"{word!r} is not a number of seconds between 0.5 and 3600")
    return seconds
