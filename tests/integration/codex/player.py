#!/usr/bin/env python3
"""Plays what a real `codex app-server` once said, process by process, to whoever says what was said then.

The recordings in CODEX_RECORDINGS (or beside this file) are played in the order of their names, one a process;
CODEX_PLAYER is a file that counts them. A client that says something else gets silence and then the end.
"""

import json
import os
import sys
from pathlib import Path

NAMED = ("threadId", "turnId", "input")
"""Parameters that must be what they were; the others depend on where it happens."""

state = Path(os.environ["CODEX_PLAYER"])
played = int(state.read_text()) if state.exists() else 0
state.write_text(str(played + 1))
recordings = sorted(Path(os.environ.get("CODEX_RECORDINGS") or Path(__file__).parent).glob("*.jsonl"))
here = str(Path.cwd())


def said_the_same(heard: dict, recorded: dict) -> bool:
    then, now = recorded.get("params") or {}, heard.get("params") or {}
    return (
        heard.get("method") == recorded.get("method")
        and heard.get("result") == recorded.get("result")
        and ("CODEX_RECORDINGS" not in os.environ or all(now.get(name) == then.get(name) for name in NAMED))
    )


numbers: dict[object, object] = {}
for line in recordings[played].read_text().splitlines():
    who, message = json.loads(line.replace("/workspace", here))
    if who == "C":
        heard = json.loads(sys.stdin.readline() or "{}")
        if not said_the_same(heard, message):
            print(f"expected {message}, heard {heard}", file=sys.stderr)
            sys.exit(1)
        numbers[message.get("id")] = heard.get("id")
    else:
        if "method" not in message:
            message["id"] = numbers[message["id"]]
        print(json.dumps(message), flush=True)
sys.stdin.read()
