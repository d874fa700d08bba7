"""List the git worktrees that threads work in, and merge, keep or drop them.

  hames worktrees                      those of this repository, and what is in them
  hames worktrees merge NAME           into the branch it came from; what is not committed is committed first
  hames worktrees merge NAME --into BRANCH -m "Message of the commit"
  hames worktrees keep NAME            leave it as it is
  hames worktrees drop NAME            delete the directory and the branch

`hames --worktree` starts a thread in one. If files conflict, merge names them and changes nothing. A merged worktree is
deleted, unless files would be lost with it. Drop asks for the name if commits or files would be lost that are nowhere
else; without a terminal, `--discard NAME` says yes to that.
Exit code: 0, 1 if it failed or nothing was done, 2 for a bad option.
"""

import sys
from argparse import ArgumentParser, Namespace

import msgspec

from hames.cli import flags
from hames.cli.answers import read_answer
from hames.cli.ask_server import ServerRefused, ask_server
from hames.cli.paint import Paint
from hames.client.appserver.client import AppServerClient
from hames.domain.display import visible
from hames.domain.errors import InvalidCommand
from hames.protocols.flint import messages as m

ACTIONS = ("list", "merge", "keep", "drop")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="list", choices=ACTIONS, help="default: list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a worktree")
    parser.add_argument("--all", action="store_true", help="list those of all repositories")
    parser.add_argument("--into", metavar="BRANCH", help="with merge: another branch than the one it came from")
    parser.add_argument("-m", "--message", metavar="TEXT", help="with merge: for the commit of uncommitted changes")
    parser.add_argument("--discard", metavar="NAME", help="with drop: delete also what is nowhere else")
    parser.add_argument("--preview", action="store_true", help="only show what would happen")
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags.add_shared(parser, flags.THREADS)


def run(args: Namespace) -> int:
    if args.action != "list" and not args.name:
        raise InvalidCommand(f"name a worktree: hames worktrees {args.action} NAME")
    for option, action in (("into", "merge"), ("message", "merge"), ("discard", "drop"), ("all", "list")):
        if getattr(args, option) and args.action != action:
            raise InvalidCommand(f"--{option} belongs to {action}: hames worktrees {action}")
    return ask_server(args, lambda client: _run(args, client))


async def _run(args: Namespace, client: AppServerClient) -> int:
    if args.action == "list":
        return await _list(args, client)
    given = m.WorktreeFinishParams(
        action=args.action,
        name=args.name,
        into=args.into,
        message=args.message,
        discard=args.discard,
        preview=args.preview or None,
    )
    if args.action == "drop" and not args.preview and not args.discard:
        given = await _confirmed(client, given)
    report = await client.finish_worktree(given)
    if args.json:
        print(msgspec.json.encode(report).decode())
    else:
        print(visible(report.message))
        for path in report.conflicts:
            print(f"  conflict  {visible(path)}")
    return 0 if report.done or (args.preview and not report.conflicts) else 1


async def _confirmed(client: AppServerClient, given: m.WorktreeFinishParams) -> m.WorktreeFinishParams:
    """The yes to what would be lost is the worktree's name, typed. Raises `ServerRefused`."""
    seen = await client.finish_worktree(msgspec.structs.replace(given, preview=True))
    if not seen.loses:
        return given
    print(f"Dropping the worktree {visible(seen.worktree.name)} deletes what is nowhere else:")
    for one in seen.loses:
        print(f"  {visible(one)}")
    if not sys.stdin.isatty():
        raise ServerRefused(f"nothing was deleted; to delete it: hames worktrees drop NAME --discard {given.name}")
    typed = (await read_answer("To delete it, type the name of the worktree: ")).strip()
    if typed != given.name:
        raise ServerRefused("nothing was deleted")
    return msgspec.structs.replace(given, discard=typed)


async def _list(args: Namespace, client: AppServerClient) -> int:
    found = await client.worktrees(everywhere=args.all)
    if args.json:
        print(msgspec.json.encode(found).decode())
        return 0
    if not found:
        print("no worktrees here; hames --worktree starts a thread in one")
        return 0
    paint = Paint.for_stream(sys.stdout)
    for tree in found:
        print(f"{paint.accent(visible(tree.name))}  {summary(tree)}")
        print(f"  {visible(tree.path)}" + (f"  thread {tree.thread_id}" if tree.thread_id else "  no thread"))
    return 0


def summary(tree: m.WorktreeEntry) -> str:
    """How it is, in one line.

    >>> from hames.protocols.flint import messages as m
    >>> tree = m.WorktreeEntry(name="a", branch="hames/a", path="/t", workspace="/w", base="main", thread_id=None,
    ...     status="ready", commits=["1 x"], uncommitted=[], ignored=[])
    >>> summary(tree)
    'branch hames/a from main: 1 commit to merge'
    """
    counts = [("commit", "to merge", tree.commits), ("file", "not committed", tree.uncommitted)]
    words = [f"{len(all_)} {name}{'s' * (len(all_) != 1)} {rest}" for name, rest, all_ in counts if all_]
    status = {
        "ready": "",
        "kept": "kept",
        "unfinished": "unfinished: Hames stopped while it was made, drop it",
        "missing": "its directory is gone, drop it",
    }[tree.status]
    about = ", ".join([*([status] if status else []), *words]) or "nothing to merge"
    origin = f" from {tree.base}" if tree.base else ""
    return f"branch {visible(tree.branch)}{visible(origin)}: {about}"
