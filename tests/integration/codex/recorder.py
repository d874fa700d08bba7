#!/usr/bin/env python3
"""Stands before a real `codex` and writes down what it and its client say, for `player.py`.

CODEX_RECORDINGS is the directory; their names sort by time, and processes that open no thread leave nothing behind.
Where it all happened is left out.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

PLACES = {
    str(Path.cwd()): "/workspace",
    os.environ["CODEX_HOME"]: "/home/somebody/.codex",
    os.environ["HOME"]: "/home/somebody",
}

folder = Path(os.environ["CODEX_RECORDINGS"])
folder.mkdir(parents=True, exist_ok=True)
path = folder / f"{time.time_ns()}.jsonl"
recording = path.open("w")
writing = threading.Lock()


def note(who: str, line: bytes) -> None:
    text = line.decode()
    for place, name in PLACES.items():
        text = text.replace(place, name)
    with writing:
        recording.write(json.dumps([who, json.loads(text)]) + "\n")
        recording.flush()


codex = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert codex.stdin
assert codex.stdout


def from_the_client() -> None:
    for line in sys.stdin.buffer:
        note("C", line)
        codex.stdin.write(line)
        codex.stdin.flush()
    codex.stdin.close()


threading.Thread(target=from_the_client, daemon=True).start()
for line in codex.stdout:
    note("S", line)
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
recording.close()
if '"thread/' not in path.read_text():
    path.unlink()
sys.exit(codex.wait())
