"""`hames threads restore`: brings back threads whose directory was deleted, by `git clean -fdx` for example."""

import time
from argparse import Namespace

import anyio
import msgspec

from hames.app import thread_store
from hames.cli import flags
from hames.cli.ask_server import ServerRefused
from hames.config.load import Options
from hames.domain.commands import ThreadSummary
from hames.domain.display import visible
from hames.domain.errors import HarnessError
from hames.store.jsonl import JsonlStore
from hames.store.restoring import restore_thread, summarize_missing
from hames.store.second_names import MissingThread


def restore_threads(args: Namespace) -> int:
    """The exit code: 1 if a thread could not be brought back."""
    return anyio.run(_restore, args, flags.options(args))


async def _restore(args: Namespace, options: Options) -> int:
    store = thread_store(options)
    try:
        missing = await store.missing()
        if args.list or not (args.all or args.thread):
            return _print_missing(args, missing)
        wanted = missing if args.all else _named(missing, args.thread)
        return await _bring_back(args, store, wanted)
    finally:
        await store.close()


def _named(missing: list[MissingThread], words: str) -> list[MissingThread]:
    """Raises `ServerRefused`."""
    found = missing[:1] if words == "last" else [one for one in missing if one.thread_id.startswith(words)]
    if len(found) > 1:
        raise ServerRefused(f"{words!r} is the beginning of {len(found)} thread ids; give more of the id")
    if not found:
        raise ServerRefused(f"no thread {words!r} is missing here; hames threads restore lists those that are")
    return found


async def _bring_back(args: Namespace, store: JsonlStore, wanted: list[MissingThread]) -> int:
    restored: list[str] = []
    refused: dict[str, str] = {}
    for one in wanted:
        try:
            shown = await restore_thread(store, one)
        except HarnessError as why:
            refused[one.thread_id] = str(why)
            continue
        restored.append(one.thread_id)
        if not args.json:
            print(f"restored {one.thread_id}  {_words(shown)}".rstrip())
    if args.json:
        print(msgspec.json.encode({"restored": restored, "notRestored": refused}).decode())
    else:
        for thread_id, why in refused.items():
            print(f"not restored {thread_id}: {why}")
        if not wanted:
            print("no thread is missing here")
    return 1 if refused else 0


def _print_missing(args: Namespace, missing: list[MissingThread]) -> int:
    shown = [(one, summarize_missing(one)) for one in missing]
    if args.json:
        rows = [
            {"id": one.thread_id, "changedAt": int(one.kept.changed_at), "bytes": one.kept.size, "title": _words(what)}
            for one, what in shown
        ]
        print(msgspec.json.encode(rows).decode())
        return 0
    for one, what in shown:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.kept.changed_at))
        print(f"{one.thread_id}  {when}  {_words(what)}".rstrip())
    print(
        "hames threads restore --all brings them back, or restore ID one of them"
        if shown
        else "no thread is missing here"
    )
    return 0


def _words(what: ThreadSummary | None) -> str:
    return visible(" ".join((what.title or what.preview).split()))[:60] if what is not None else ""
