"""List, show, export, archive, copy and delete the threads of a workspace.

  hames threads                          the latest, newest first
  hames threads list --search cart --json
  hames threads show last
  hames threads export last > notes.md   or --format json, or --format trajectory (ATIF, for Harbor's tools)
  hames threads fork ID                  a copy, to try something else
  hames threads archive ID               unarchive ID brings it back
  hames threads rm ID                    delete it; asks first, unless --yes is given
  hames threads check                    look for damaged logs; --repair mends what can be mended
  hames threads restore                  threads whose directory was deleted; restore ID or --all brings them back

ID can be the beginning of an id, or `last` for the newest thread (for unarchive: the newest archived one).
Exit code: 0, 1 if it failed or `check` found damage, 2 for a bad option.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from unicodedata import combining, east_asian_width

import msgspec

from hames.cli import flags
from hames.cli.answers import read_answer
from hames.cli.ask_server import ServerRefused, ask_server
from hames.cli.export import as_json, as_markdown
from hames.cli.paint import Paint
from hames.cli.wrapping import columns
from hames.client.appserver.client import AppServerClient
from hames.domain.display import printable, visible
from hames.domain.errors import InvalidCommand
from hames.protocols.flint import messages as m

ACTIONS = ("list", "show", "export", "archive", "unarchive", "fork", "rename", "rm", "check", "restore")
FORMATS = ("markdown", "json", "trajectory")
PAGE = 100
TITLE_CELLS = 60
LEAST_TITLE_CELLS = 16
WHEN_CELLS = 20
"""The column of the date, with what is around it."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="list", choices=ACTIONS, help="default: list")
    parser.add_argument("thread", nargs="?", metavar="ID", help="a thread, the beginning of its id, or last")
    parser.add_argument("name", nargs="?", metavar="NAME", help="with rename: the new name")
    parser.add_argument("--archived", action="store_true", help="list archived threads")
    parser.add_argument("--search", metavar="WORDS", help="list threads that contain these words")
    parser.add_argument("--limit", metavar="N", type=flags.positive, default=20, help="how many (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--format", choices=FORMATS, default="markdown", help="format of an export")
    parser.add_argument("--yes", action="store_true", help="delete without asking")
    parser.add_argument("--repair", action="store_true", help="with check: mend what can be mended")
    parser.add_argument("--all", action="store_true", help="with restore: every thread that is missing")
    parser.add_argument("--list", action="store_true", help="with restore: only list them")
    flags.add_shared(parser, flags.THREADS)


def run(args: Namespace) -> int:
    if args.repair and args.action != "check":
        raise InvalidCommand("--repair belongs to check: hames threads check --repair")
    if (args.all or args.list) and args.action != "restore":
        raise InvalidCommand("--all and --list belong to restore: hames threads restore --all")
    if args.action == "restore":
        from hames.cli.restoring import restore_threads

        return restore_threads(args)
    if args.action == "check":
        from hames.cli.log_check import check_logs

        return check_logs(args)
    return ask_server(args, lambda client: _run(args, client))


async def _run(args: Namespace, client: AppServerClient) -> int:
    if args.action == "list":
        return await _list(args, client)
    thread_id = await find(client, args.thread, archived=args.action == "unarchive")
    match args.action:
        case "export" if args.format == "trajectory":
            from hames.evals.saved_threads import saved_trajectory

            print(await saved_trajectory(flags.options(args), thread_id))
        case "show" | "export":
            thread = await client.read_thread(thread_id)
            if args.json or (args.action == "export" and args.format == "json"):
                print(as_json(thread))
            else:
                print(as_markdown(thread))
        case "archive":
            await client.archive_thread(thread_id)
            print(f"archived {thread_id}")
        case "unarchive":
            if not (await client.read_thread(thread_id)).archived:
                raise ServerRefused(f"thread {thread_id!r} is not archived")
            await client.unarchive_thread(thread_id)
            print(f"unarchived {thread_id}")
        case "fork":
            opened = await client.fork_thread(thread_id)
            print(msgspec.json.encode(opened.thread).decode() if args.json else opened.thread.id)
        case "rename":
            if not args.name:
                raise ServerRefused("a name is missing: hames threads rename ID NAME")
            await client.rename_thread(thread_id, args.name)
            print(f"renamed {thread_id}")
        case _:
            return await _remove(args, client, thread_id)
    return 0


async def find(client: AppServerClient, words: str | None, *, archived: bool = False) -> str:
    """A thread's whole id. `last` is the newest one, or with `archived` the newest archived one. Raises `Refused`."""
    if not words:
        raise ServerRefused("which thread? Give its id, the beginning of it, or last")
    if words == "last":
        if archived:
            newest = next(iter((await client.list_threads(limit=1, archived=True)).data), None)
        else:
            newest = await client.latest_thread()
        if newest is None:
            raise ServerRefused("no thread is archived" if archived else "there is no thread yet")
        return newest.id
    found = [thread.id for put_away in (False, True) for thread in await every(client, archived=put_away)]
    matching = [thread_id for thread_id in found if thread_id.startswith(words)]
    if words in matching or len(matching) == 1:
        return words if words in matching else matching[0]
    raise ServerRefused(
        f"no thread {words!r}"
        if not matching
        else f"{words!r} is the beginning of {len(matching)} thread ids; give more of the id"
    )


async def every(client: AppServerClient, *, archived: bool, search: str | None = None) -> list[m.Thread]:
    """All pages."""
    found: list[m.Thread] = []
    cursor: str | None = None
    while True:
        page = await client.list_threads(cursor=cursor, limit=PAGE, archived=archived, search=search)
        found += page.data
        if not isinstance(page.next_cursor, str):
            return found
        cursor = page.next_cursor


async def _list(args: Namespace, client: AppServerClient) -> int:
    page = await client.list_threads(limit=args.limit, archived=args.archived, search=args.search)
    if args.json:
        print(msgspec.json.encode([{**msgspec.to_builtins(thread), "turns": None} for thread in page.data]).decode())
        return 0
    paint = Paint.for_stream(sys.stdout)
    ids = max((len(thread.id) for thread in page.data), default=0)
    models = max((_cells(visible(thread.model)) for thread in page.data), default=0)
    room, with_model = _room(columns(sys.stdout) - ids - WHEN_CELLS, models)
    titles = [_title(thread, room) for thread in page.data]
    width = max((_cells(title) for title in titles), default=0)
    for thread, title in zip(page.data, titles, strict=True):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(thread.updated_at))
        padded = title + " " * (width - _cells(title))
        whose = f"  {paint.warn('not written by you')}" if thread.foreign else ""
        model = f"  {paint.dim(visible(thread.model))}" if with_model else ""
        print(f"{paint.accent(thread.id.ljust(ids))}  {paint.dim(when)}  {padded}{model}{whose}".rstrip())
    if not page.data:
        print("no threads" + (f" mention {args.search!r}" if args.search else " yet"))
    elif isinstance(page.next_cursor, str):
        print(paint.dim(f"the first {len(page.data)}; --limit shows more"))
    await _tell_missing(args, paint)
    return 0


async def _tell_missing(args: Namespace, paint: Paint) -> None:
    """Threads that went with their directory and can be brought back."""
    if args.search or args.archived:
        return
    from hames.app.missing_threads import missing_notice

    if words := await missing_notice(flags.options(args)):
        print(paint.warn(words))


def _room(room: int, model: int) -> tuple[int, bool]:
    """How many columns a title gets, and whether the model stands beside it. Without a terminal `room` is below 0."""
    if room <= 0:
        return TITLE_CELLS, True
    beside = room - model - 2
    return (min(TITLE_CELLS, beside), True) if beside >= LEAST_TITLE_CELLS else (max(1, min(TITLE_CELLS, room)), False)


def _title(thread: m.Thread, most: int) -> str:
    """One line of at most so many columns."""
    title = " ".join(visible((thread.name or thread.preview or "(no messages yet)").replace("\n", " ")).split())
    if _cells(title) <= most:
        return title
    while _cells(title) > most - 1:
        title = title[:-1]
    return f"{title}…"


def _cells(text: str) -> int:
    """How wide it is on a terminal: some letters take two columns, some none."""
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


async def _remove(args: Namespace, client: AppServerClient, thread_id: str) -> int:
    if not args.yes:
        if not sys.stdin.isatty():
            raise ServerRefused("deleting a thread needs a confirmation, and there is no terminal to ask on; use --yes")
        thread = await client.read_thread(thread_id)
        print(f"{thread_id}: {printable(thread.name or thread.preview)[:200]}")
        answer = await read_answer("Delete this thread permanently? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print("kept")
            return 1
    await client.delete_thread(thread_id)
    print(f"removed {thread_id}")
    return 0
