#!/usr/bin/env python3
"""A small `codex app-server` that asks about what its prompt says, and does it if the answer is yes.

`run COMMAND` is a command, `change PATH` a change of a file.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

IDS = {"threadId": "t", "turnId": "u"}


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def tell(method: str, **params: Any) -> None:
    say(method=method, params={**IDS, **params})


def hear() -> dict[str, Any]:
    if not (line := sys.stdin.readline()):
        sys.exit(0)
    return json.loads(line)


def asked(method: str, **params: Any) -> bool:
    say(id=900, method=method, params={**IDS, "itemId": "c", **params})
    while (answer := hear()).get("id") != 900 or "method" in answer:
        pass
    return str(answer.get("result", {}).get("decision", "")).startswith("accept")


def turn(words: str) -> None:
    kind, _, rest = words.rpartition("\n")[2].partition(" ")
    tell("turn/started", turn={"id": "u", "status": "inProgress", "items": []})
    if kind == "run":
        item = {"type": "commandExecution", "id": "c", "command": f"/bin/bash -lc {rest!r}", "cwd": str(Path.cwd())}
        tell("item/started", item={**item, "status": "inProgress"})
        if allowed := asked("item/commandExecution/requestApproval", command=rest, cwd=str(Path.cwd())):
            done = subprocess.run(["bash", "-c", rest], capture_output=True, text=True, check=False)
            item |= {"aggregatedOutput": done.stdout, "exitCode": done.returncode}
    else:
        changes = [{"path": rest, "kind": {"type": "update"}, "diff": "@@ -1 +1 @@\n-locked\n+changed\n"}]
        item = {"type": "fileChange", "id": "c", "changes": changes}
        tell("item/started", item={**item, "status": "inProgress"})
        if allowed := asked("item/fileChange/requestApproval"):
            Path(rest).write_text("changed\n")
    tell("item/completed", item={**item, "status": "completed" if allowed else "declined"})
    tell("turn/completed", turn={"id": "u", "status": "completed", "items": [], "error": None})


while True:
    message = hear()
    match message.get("method"):
        case "initialize":
            result: dict[str, Any] = {"userAgent": "codex/0.166.0"}
        case "thread/start" | "thread/resume":
            result = {"thread": {"id": "t"}, "model": "m"}
        case "turn/start":
            result = {"turn": {"id": "u", "status": "inProgress", "items": []}}
        case "model/list":
            result = {"data": [], "nextCursor": None}
        case _:
            result = {}
    if "id" in message and "method" in message:
        say(id=message["id"], result=result)
    if message.get("method") == "turn/start":
        turn(message["params"]["input"][-1]["text"])
