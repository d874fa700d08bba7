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


def add_place(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--place",
        metavar="PLACE",
        default="",
        help="where turns of threads that are created here may run: node:NAME or label:NAME (default: on any node)",
    )


def check_node(args: Namespace, address: str) -> None:
    """Options of a node need a store. Raises `Misconfigured`."""
    for name, given in (
        ("--no-work", args.no_work),
        ("--slots", args.slots is not None),
        ("--label", args.label),
        ("--name", args.name),
        ("--place", args.place),
    ):
        if given and (not address or args.runner is not None):
            raise Misconfigured(f"{name} is for a server with --store postgresql://… and without --runner")
    if args.no_work and (args.slots is not None or args.label):
        raise Misconfigured("--slots and --label can't be used with --no-work: this server runs no turns")


def store_address(args: Namespace) -> str:
    """Raises `Misconfigured`."""
    if not (address := args.store or os.environ.get("HAMES_STORE", "")):
        raise Misconfigured("name the database: --store postgresql://… or the environment variable HAMES_STORE")
    return address


def node_options(args: Namespace, address: str, *, works: bool = True) -> "NodeOptions":
    """Raises `Misconfigured`."""
    from hames.app.nodes import NodeOptions
    from hames.core.settings import checked_place

    slots = (args.slots or SLOTS) if works else 0
    labels, place = tuple(args.label), getattr(args, "place", "")
    return NodeOptions(
        store=address, name=args.name, labels=labels, slots=slots, lease_s=args.lease, place=checked_place(place)
    )


def lease_seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 0.5 <= seconds <= 3600:
        raise ArgumentTypeError(f"{word!r} is not a number of seconds between 0.5 and 3600")
    return seconds
