"""A process that has imported everything and forks workers on request: a node that is killed is soon replaced.

Each line on stdin is `{"address": …, "name": …, "directory": …, "slots": …, "lease": …, "sandbox": …}`. The pid of the
worker is printed. It is killed, frozen or stopped from outside, at any moment.
"""

import ctypes
import gc
import json
import os
import signal
import sys
from typing import Any

import anyio

from hames.app.nodes import NodeOptions, open_node
from hames.cli.serve import until_stopped
from hames.config.load import load


async def work(request: dict[str, Any]) -> None:
    flags = {
        "cwd": request["directory"],
        "model": "scripted/hello",
        "approval_policy": request.get("policy", "never"),
        "sandbox": request.get("sandbox", "dangerFullAccess"),
    }
    options = load(flags, {"HOME": request["directory"], "PATH": os.environ["PATH"]})
    node = NodeOptions(
        store=request["address"],
        name=request["name"],
        slots=request.get("slots", 20),
        lease_s=request.get("lease", 1.5),
        labels=tuple(request.get("labels", ())),
    )
    async with open_node(options, node):
        await until_stopped()


def end_with_parent() -> None:
    """No worker is left when a test is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main() -> None:
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the workers here
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            end_with_parent()
            os.close(0)
            os.dup2(2, 1)
            anyio.run(work, json.loads(line))
            os._exit(0)
        print(pid, flush=True)


main()
