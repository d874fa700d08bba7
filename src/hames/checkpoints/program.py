"""Run as a program of its own by `local.py`: questions as JSON lines on stdin, answers on stdout.

Looking at 20,000 files keeps an interpreter busy for a tenth of a second, and an engine has better things to do.
"""

import json
import os
import select
import sys

IDLE_SECONDS = 120.0


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
    while select.select([questions], [], [], IDLE_SECONDS)[0] and (line := questions.readline()):
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
    if os.getppid() == parent:  # of a killed engine nothing is written any more
        for store in stores.values():
            store.save()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
