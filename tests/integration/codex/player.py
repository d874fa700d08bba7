#!/usr/bin/env python3
"""Plays what a real `codex app-server` once said, process by process, to whoever says what was said then.

`recordings` beside the state file in `CODEX_PLAYER` are played in the order of their names, one a process.
A client that says something else gets silence and then the end.
"""

import json
import os
import sys
from pathlib import Path

here = Path(__file__).parent
state = Path(os.environ["CODEX_PLAYER"])
played = int(state.read_text()) if state.exists() else 0
state.write_text(str(played + 1))
names = sorted(here.glob("*.jsonl"))
numbers: dict[object, object] = {}
for line in names[played].read_text().splitlines():
    who, message = json.loads(line)
    if who == "C":
        said = json.loads(sys.stdin.readline() or "{}")
        if said.get("method") != message.get("method") or said.get("result") != message.get("result"):
            print(f"expected {message.get('method')}, heard {said}", file=sys.stderr)
            sys.exit(1)
        numbers[message.get("id")] = said.get("id")
    else:
        if "method" not in message:
            message["id"] = numbers[message["id"]]
        print(json.dumps(message), flush=True)
sys.stdin.read()
