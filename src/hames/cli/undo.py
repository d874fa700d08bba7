"""Take back what the agent did to your files, or do it again.

  hames undo                     what the last turn of the newest thread changed; shows it and asks first
  hames undo ID                  of another thread
  hames undo --preview           only show what would happen
  hames undo --path src/cart.py  only this file or directory; can be given several times
  hames undo --turn 3 --later    what the third turn and every later one did
  hames undo --redo              the other way round

Only files that still are as the agent left them are restored. Those that somebody has changed since are named and left
alone, unless --overwrite is given. Branches, commits and the index of git stay as they are, and so do directories that
the project ignores. Exit code: 0, 1 if there was nothing to do or something was left alone, 2 for a bad option.
"""

import sys
from argparse import ArgumentParser, Namespace

import msgspec

from hames.cli import flags
from hames.cli.answers import read_answer
from hames.cli.ask_server import ServerRefused, ask_server
from hames.cli.paint import Paint
from hames.cli.threads import find
from hames.client.appserver.client import AppServerClient
from hames.domain.display import visible
from hames.domain.undo import TO_DO
from hames.protocols.flint import messages as m

MOST_SHOWN = 40


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "thread", nargs="?", default="last", metavar="ID", help="a thread, the beginning of its id, or last"
    )
    parser.add_argument(
        "--turn", metavar="N", help="the number of the turn, or its id (default: the last with changes)"
    )
    parser.add_argument("--later", action="store_true", help="with --turn: and what every later turn did")
    parser.add_argument("--path", metavar="PATH", action="append", default=[], help="only this file or directory")
    parser.add_argument("--redo", action="store_true", help="do it again")
    parser.add_argument("--overwrite", action="store_true", help="also files that somebody has changed since")
    parser.add_argument("--preview", action="store_true", help="only show what would happen")
    parser.add_argument("--yes", action="store_true", help="do it without asking")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags.add_shared(parser, flags.THREADS)


def run(args: Namespace) -> int:
    return ask_server(args, lambda client: _run(args, client))


async def _run(args: Namespace, client: AppServerClient) -> int:
    thread_id = await find(client, args.thread)
    if args.later and args.turn is None:
        raise ServerRefused("--later needs --turn: hames undo --turn N --later")
    given = m.ThreadUndoParams(
        thread_id=thread_id,
        turn_id=await _turn_id(client, thread_id, args.turn),
        later=args.later,
        redo=args.redo,
        paths=args.path,
        overwrite=args.overwrite,
        preview=True,
    )
    found = await client.undo(given)
    asks = not (args.yes or args.preview or args.json)
    if found.restored and not args.preview and (not asks or await _agreed(found)):
        found = await client.undo(msgspec.structs.replace(given, preview=False))
        _print(found, as_json=args.json)
        return 1 if found.conflicts else 0
    if not asks or not found.restored:
        _print(found, as_json=args.json, to_do=args.preview)
    else:
        print("nothing was changed")
    return 0 if args.preview and found.restored else 1


async def _turn_id(client: AppServerClient, thread_id: str, named: str | None) -> str | None:
    if named is None or not named.isdecimal():
        return named
    turns = (await client.read_thread(thread_id)).turns
    if not 1 <= int(named) <= len(turns):
        raise ServerRefused(f"the thread has {len(turns)} turns; there is no turn {named}")
    return turns[int(named) - 1].id


async def _agreed(found: m.ThreadUndoResult) -> bool:
    _print(found, as_json=False, to_do=True)
    if not sys.stdin.isatty():
        raise ServerRefused("this needs a confirmation, and there is no terminal to ask on; use --yes")
    return (await read_answer("Go ahead? [y/N] ")).strip().lower() in ("y", "yes")


def _print(found: m.ThreadUndoResult, *, as_json: bool, to_do: bool = False) -> None:
    """`to_do`: nothing of it is done yet."""
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    paint = Paint.for_stream(sys.stdout)
    for one in found.restored[:MOST_SHOWN]:
        action = TO_DO.get(one.action, one.action) if to_do else one.action
        print(f"  {paint.accent(action.ljust(12))}  {visible(one.path)}")
    if len(found.restored) > MOST_SHOWN:
        print(f"  and {len(found.restored) - MOST_SHOWN} more")
    for left in (*found.conflicts, *found.not_kept)[:MOST_SHOWN]:
        print(f"  {paint.warn('left alone'.ljust(12))}  {visible(left.path)}: {left.why}")
    print(found.message)
