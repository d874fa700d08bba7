"""One action with a worktree in a process that is killed at one of its system calls, or when the disk has changed often
enough.

Run with `kill_at_call.c` preloaded. It has imported everything, and forks once for each line of JSON on stdin:
`{"action": …, "workspace": …, "place": …, "number": …, "after": …, "calls": …}`. The answer is the child's status.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

import anyio

from hames.domain.ids import ThreadId
from hames.domain.policy import WorkspaceWrite
from hames.domain.worktrees import NewWorktree
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.worktrees.local import LocalWorktrees

NAME = "work"


def worktrees(place: Path) -> LocalWorktrees:
    environment = {"PATH": os.environ["PATH"], "HOME": str(place / "home")}
    settings = SandboxSettings(state=str(place / "state" / "unchecked"))
    return LocalWorktrees(place / "trees", place / "state", LocalSandbox(settings, environ=environment))


async def act(action: str, workspace: str, place: Path) -> None:
    known = worktrees(place)
    if action == "make":
        made = await known.add(workspace, NewWorktree(name=NAME, changes=True), WorkspaceWrite())
        await known.claim(made.worktree, ThreadId("thread"))
        return
    tree = await known.find(NAME, workspace=workspace)
    report = await known.finish(
        tree, "merge" if action == "merge" else "drop", WorkspaceWrite(), discard=NAME if action == "drop" else ""
    )
    assert report.done, report.message


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if not (child := os.fork()):
            listed = os.open(asked["calls"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            if asked["number"] >= 0:
                ctypes.CDLL(None).kill_at_call(ctypes.c_long(asked["number"]), int(asked["after"]), listed)
            try:
                anyio.run(act, asked["action"], asked["workspace"], Path(asked["place"]))
            except BaseException as problem:
                os.write(2, f"{type(problem).__name__}: {problem}\n".encode())
                os._exit(1)
            os._exit(0)
        print(json.dumps({"pid": child}), flush=True)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps({"status": status}), flush=True)


if __name__ == "__main__":
    main()
