#!/usr/bin/env python3
"""Plays what a real `codex app-server` once said, process by process, to whoever says what was said then.

The recordings in CODEX_RECORDINGS (or beside this file) are played in the order of their names, one for each process
that opens a thread; CODEX_PLAYER is a file that counts them. A client that says something else gets silence and then
the end. Who only asks for the models is answered and counts for nothing.
"""

import json
import os
import socket
import sys
from pathlib import Path

NAMED = ("threadId", "turnId", "input", "lastTurnId")
"""Parameters that must be what they were; the others depend on where it happens."""
UNSEEN = "thread/inject_items"
"""A client that stopped a turn before Codex answered tells of it the next time; whether it was that fast is chance."""
GREETING = {"initialize", "initialized", "model/list"}

state = Path(os.environ["CODEX_PLAYER"])
recordings = sorted(Path(os.environ.get("CODEX_RECORDINGS") or Path(__file__).parent).glob("*.jsonl"))


def read(path: Path) -> list:
    return [json.loads(line) for line in path.read_text().replace("/workspace", str(Path.cwd())).splitlines()]


def hear() -> dict:
    if not (line := sys.stdin.readline()):
        sys.exit(0)
    return json.loads(line)


def say(message: dict) -> None:
    print(json.dumps(message), flush=True)


def said_the_same(heard: dict, recorded: dict) -> bool:
    then, now = recorded.get("params") or {}, heard.get("params") or {}
    return (
        heard.get("method") == recorded.get("method")
        and heard.get("result") == recorded.get("result")
        and ("CODEX_RECORDINGS" not in os.environ or all(now.get(name) == then.get(name) for name in NAMED))
    )


def begun(name: str) -> None:
    """Tell whoever waits for it in CODEX_LISTENER, a socket, that the words of this recording have begun."""
    if listener := os.environ.pop("CODEX_LISTENER", ""):
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(listener)
            line.sendall(name.encode())


first = read(recordings[0])
asked = {
    message["id"]: message["method"] for who, message in first if who == "C" and "method" in message and "id" in message
}
answers = {asked[message["id"]]: message for who, message in first if who == "S" and "method" not in message}
while (heard := hear()).get("method") in GREETING:
    if "id" in heard:
        say({"result": {"data": []}, **answers.get(heard["method"], {}), "id": heard["id"]})

played = int(state.read_text()) if state.exists() else 0
state.write_text(str(played + 1))
numbers: dict[object, object] = {}
greeted: set[object] = set()
for who, message in read(recordings[played]):
    if message.get("method") in GREETING:
        greeted.add(message.get("id"))
    elif who == "C":
        heard = heard or hear()
        if heard.get("method") == UNSEEN != message.get("method"):
            say({"id": heard["id"], "result": {}})
            heard = hear()
        if not said_the_same(heard, message):
            print(f"expected {message}, heard {heard}", file=sys.stderr)
            sys.exit(1)
        numbers[message.get("id")] = heard.get("id")
        heard = {}
    elif "method" in message:
        say(message)
        if message["method"] == "item/agentMessage/delta":
            begun(recordings[played].stem)
    elif message["id"] not in greeted:
        say({**message, "id": numbers[message["id"]]})
sys.stdin.read()
