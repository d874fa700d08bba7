"""List the servers and workers that use a shared PostgreSQL store.

  hames nodes --store postgresql://db/hames
                                    one line for each: name, state, turns and slots, threads it writes, commands that
                                    wait for it, threads it took up and lost, readers of other nodes' threads, time of
                                    an append (median and 99 of 100), the last renewal of its lease, labels, version
  hames nodes --store postgresql://db/hames --json
                                    the same as JSON, one object per line

The address can also be in the environment variable HAMES_STORE. A node that died is listed for an hour.
Exit code: 0, 1 if the database cannot be reached, 2 for a bad option.
"""

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

import anyio

from hames.cli.node_flags import store_address
from hames.domain.display import visible

if TYPE_CHECKING:
    from hames.ports import NodeStatus


HEAD = (
    *("NODE", "STATE", "TURNS", "THREADS", "INBOX", "CLAIMED", "FENCED", "FOLLOWERS"),
    *("APPEND", "SEEN", "LAG", "LABELS", "VERSION"),
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--store", metavar="URL", default="", help="the PostgreSQL database: postgresql://…")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(args: Namespace) -> int:
    from hames.app.nodes import find_nodes

    found = anyio.run(find_nodes, store_address(args))
    if args.json:
        import msgspec

        for one in found:
            print(msgspec.json.encode(one).decode())
    elif found:
        _print_table([HEAD, *map(_row, found)])
    else:
        print("no server or worker uses this store", file=sys.stderr)
    return 0


def _row(node: "NodeStatus") -> tuple[str, ...]:
    state = ("works" if node.slots else "gateway") if node.live else "dead"
    turns = f"{node.running}/{node.slots}" if node.slots else "-"
    labels = ",".join(node.labels) or "-"
    counts = (node.threads, node.inbox, node.claimed, node.fenced, node.followers)
    append = f"{node.append_ms:g}/{node.append_ms_p99:g} ms" if node.batches else "-"
    times = append, f"{max(node.seen_s, 0.0):.1f} s", f"{node.lag_ms} ms"
    return visible(node.name), state, turns, *map(str, counts), *times, visible(labels), node.version or "-"


def _print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())
