"""Look after a PostgreSQL database that keeps threads, and copy threads between it and files.

  hames store check postgresql://db/hames          version, nodes, and every log read and checked
  hames store migrate postgresql://db/hames        make the tables, or bring them to this version
  hames store migrate URL --gateway ROLE --worker ROLE
                                                   and give database roles what gateways or workers need
  hames store copy .harness postgresql://db/hames  threads from a data directory, or the other way round
  hames store pack postgresql://db/hames --days 90
                                                   compress threads that nobody used for so long; using one unpacks it

Without a URL the database is the one that HAMES_STORE names. A URL may name several hosts and TLS options, as
PostgreSQL's own programs take them; keep passwords in HAMES_STORE or ~/.pgpass, because everybody can read a command
line.
Exit code: 0; 1 if the check found a problem or a thread was not copied; 2 for a bad address.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

import anyio

from hames.app import data_store, database_store
from hames.cli.flags import positive
from hames.domain.display import visible
from hames.domain.errors import Misconfigured
from hames.store.copying import copy_threads
from hames.store.postgres import upkeep
from hames.store.postgres.connection import is_address


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="check the database and every log in it")
    migrate = actions.add_parser("migrate", help="make the tables, or bring them to this version")
    migrate.add_argument("--gateway", metavar="ROLE", action="append", default=[], help="a role of `serve --no-work`")
    migrate.add_argument("--worker", metavar="ROLE", action="append", default=[], help="a role of workers and servers")
    copy = actions.add_parser("copy", help="copy every thread")
    copy.add_argument("source", metavar="FROM", help="a data directory (.harness) or a postgresql:// address")
    copy.add_argument("target", metavar="TO", help="the same")
    pack = actions.add_parser("pack", help="compress threads that nobody used for long")
    pack.add_argument("--days", metavar="N", type=positive, default=30, help="for how long (default: %(default)s)")
    for action in (check, migrate, pack):
        action.add_argument("address", metavar="URL", nargs="?", help="postgresql://… (default: HAMES_STORE)")


def run(args: Namespace) -> int:
    if args.action == "copy":
        if not is_address(args.source) and not Path(args.source).is_dir():
            raise Misconfigured(f"{args.source!r} is neither a directory nor a postgresql:// address")
        return anyio.run(_copy, args.source, args.target)
    address = args.address or os.environ.get("HAMES_STORE", "")
    if not address:
        raise Misconfigured("name a database: postgresql://…, or set HAMES_STORE")
    match args.action:
        case "check":
            return anyio.run(_check, address)
        case "migrate":
            return anyio.run(_migrate, address, args.gateway, args.worker)
        case _:
            return anyio.run(_pack, address, args.days)


async def _check(address: str) -> int:
    found = await upkeep.report(address)
    print(f"{found.address}: PostgreSQL {found.server}, tables of version {found.version}")
    about = f"{found.running} with a running turn, {found.packed} packed"
    print(f"{found.threads} thread{'s' * (found.threads != 1)} ({about}), {found.nodes} live nodes")
    problems = found.problems
    if found.is_usable:
        store = database_store(address)
        count = 0
        async for thread in upkeep.check_threads(store.connections):
            count += thread.records
            if thread.problem:
                problems.append(f"{thread.thread_id}: {thread.problem}")
        await store.close()
        print(f"{count} records read")
    for problem in problems:
        print(f"problem: {visible(problem)}")
    return 1 if problems else 0


async def _migrate(address: str, gateways: list[str], workers: list[str]) -> int:
    count = await upkeep.migrate_database(address, gateways=gateways, workers=workers)
    print(f"{count} migration{'s' * (count != 1)} ran" if count else "nothing to do: the tables are of this version")
    for role in (*gateways, *workers):
        print(f"granted {visible(role)}")
    return 0


async def _pack(address: str, days: int) -> int:
    store = database_store(address)
    try:
        count = await upkeep.pack_old(store.connections, days)
        print(f"{count} thread{'s' * (count != 1)} packed")
    finally:
        await store.close()
    return 0


async def _copy(source: str, target: str) -> int:
    stores = [database_store(one) if is_address(one) else data_store(Path(one)) for one in (source, target)]
    copied = failed = 0
    try:
        async for thread in copy_threads(stores[0], stores[1]):
            if thread.problem:
                failed += 1
                print(f"{thread.thread_id}: {visible(thread.problem)}")
            elif thread.records:
                copied += 1
    finally:
        for store in stores:
            await store.close()
    print(f"{copied} thread{'s' * (copied != 1)} copied" + (f", {failed} not" if failed else ""))
    return 1 if failed else 0
