"""`hames threads check`: damaged logs in words, and mended with `--repair`."""

from argparse import Namespace

import anyio
import msgspec

from hames.app import thread_store
from hames.cli import flags
from hames.cli.ask_server import ServerRefused, ask_server
from hames.client.appserver.client import AppServerClient
from hames.client.appserver.link import AppServerError
from hames.config.load import Options
from hames.domain.ids import ThreadId
from hames.store.health import LogHealth


def check_logs(args: Namespace) -> int:
    """The exit code: 1 if something is wrong, or stays so."""
    options = flags.options(args)
    found = [one for one in anyio.run(_check, options) if not args.thread or one.thread_id.startswith(args.thread)]
    if args.thread and not found:
        raise ServerRefused(f"no thread {args.thread!r}")
    damaged = [one for one in found if one.problems]
    refused: dict[str, str] = {}
    if args.repair and damaged:
        ask_server(args, lambda client: _repair(client, [one.thread_id for one in damaged], refused))
    if args.json:
        print(msgspec.json.encode({"checked": len(found), "damaged": damaged, "notRepaired": refused}).decode())
    else:
        _print(len(found), damaged, refused if args.repair else None)
    return 1 if refused or (damaged and not args.repair) else 0


async def _check(options: Options) -> list[LogHealth]:
    store = thread_store(options)
    try:
        return await store.check()
    finally:
        await store.close()


async def _repair(client: AppServerClient, thread_ids: list[ThreadId], refused: dict[str, str]) -> int:
    """Opening a thread mends its log. Those that cannot be opened go to `refused`, each with the reason."""
    for thread_id in thread_ids:
        try:
            await client.resume_thread(thread_id)
        except AppServerError as why:
            refused[thread_id] = str(why)
    return 0


def _print(checked: int, damaged: list[LogHealth], refused: dict[str, str] | None) -> None:
    for one in damaged:
        print(f"{one.thread_id}  {'; '.join(one.problems)}")
        if refused is not None:
            why = refused.get(one.thread_id)
            print(
                f"  not repaired: {why}" if why else "  repaired: whatever was open is closed, and it can be continued"
            )
    logs = f"{checked} {'log' if checked == 1 else 'logs'} checked"
    print(f"{logs}, {len(damaged)} damaged" if damaged else f"{logs}, all whole")
    if damaged and refused is None:
        print("hames threads check --repair mends what can be mended")
