"""Run as a program of its own by `local.py`: questions as JSON lines on stdin, answers on stdout.

Looking at 20,000 files keeps an interpreter busy for a tenth of a second, and an engine has better things to do.
"""

import json
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import BinaryIO

    from hames.checkpoints.store import CheckpointStore

IDLE_SECONDS = 120.0
SAVE_SECONDS = 1.0
"""After so long without a question it saves what it knows: at the end nobody waits for it."""


def main(package: str) -> int:
    """`package` is the directory that `hames` is imported from."""
    sys.path.insert(0, package)
    from hames.checkpoints.pack import DamagedContent
    from hames.checkpoints.scan import CheckpointLimits
    from hames.checkpoints.store import CheckpointStore

    os.umask(0o077)
    parent = os.getppid()
    stores: dict[str, CheckpointStore] = {}
    questions = sys.stdin.buffer
    while (line := _next_question(questions, stores.values())) is not None:
        asked = json.loads(line)
        directory = asked["directory"]
        try:
            if directory not in stores:
                stores[directory] = CheckpointStore(
                    directory,
                    asked["workspace"],
                    git=asked["git"],
                    excluded=asked["excluded"],
                    limits=CheckpointLimits(**asked["limits"]),
                )
            answer = getattr(stores[directory], asked["do"])(**asked["with"])
        except (OSError, DamagedContent) as problem:
            answer = {"error": str(problem)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    if os.getppid() == parent:  # of an engine that has gone nothing is written any more
        _save(stores.values())
    return 0


def _next_question(questions: "BinaryIO", stores: "Collection[CheckpointStore]") -> bytes | None:
    """None: there is no more, or there was none for a long time."""
    if not select.select([questions], [], [], SAVE_SECONDS)[0]:
        _save(stores)
        if not select.select([questions], [], [], IDLE_SECONDS)[0]:
            return None
    return questions.readline() or None


def _save(stores: "Collection[CheckpointStore]") -> None:
    for store in stores:
        with suppress(OSError):
            store.save()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
