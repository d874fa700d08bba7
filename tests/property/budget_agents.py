#!/usr/bin/env python3
"""A small agent of ACP or Codex's app server that never comes to an end: reply, call, reply, call.

    budget_agents.py acp|codex window|nothing FILE

A reply takes 0.1 s and 100 tokens, and is a line in FILE. `nothing`: it tells nobody what it costs. It stops when it is
told to.
"""

import json
import select
import sys
import time
from pathlib import Path
from typing import Any

KIND, TELLS, FILE = sys.argv[-3:]
STOP = {"session/cancel", "turn/interrupt"}
IDS = {"threadId": "t", "turnId": "u"}
INPUT = sys.stdin.buffer


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message} if KIND == "acp" else message), flush=True)


def hear() -> dict[str, Any]:
    if not (line := INPUT.raw.readline()):  # type: ignore[attr-defined] - unbuffered, so that select sees what is left
        sys.exit(0)
    return json.loads(line)


def is_told_to_stop() -> bool:
    while select.select([INPUT], [], [], 0)[0]:
        message = hear()
        if "id" in message:
            send(id=message["id"], result={})
        if message.get("method") in STOP:
            return True
    return False


def reply(number: int, session: str) -> None:
    time.sleep(0.1)
    used = 100 * (number + 1)
    with Path(FILE).open("a") as file:
        file.write(f"{number}\n")
    if KIND == "acp":
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"reply {number}"}}
        told = {"sessionUpdate": "usage_update", "used": used, "size": 10**6}
        call = {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "Look", "kind": "read"}
        for one in (update, *([told] if TELLS == "window" else []), {**call, "status": "completed"}):
            send(method="session/update", params={"sessionId": session, "update": one})
        return
    item = {"type": "agentMessage", "id": f"m{number}", "text": f"reply {number}"}
    send(method="item/started", params={**IDS, "item": item})
    send(method="item/completed", params={**IDS, "item": item})
    if TELLS == "window":
        last = {"inputTokens": 60, "cachedInputTokens": 0, "outputTokens": 40, "totalTokens": 100}
        usage = {"last": last, "total": {**last, "totalTokens": used}}
        send(method="thread/tokenUsage/updated", params={**IDS, "tokenUsage": usage})


def work(number: Any, session: str) -> None:
    if KIND == "codex":
        send(method="turn/started", params={**IDS, "turn": {"id": "u", "status": "inProgress", "items": []}})
    for count in range(300):
        if is_told_to_stop():
            break
        reply(count, session)
    if KIND == "acp":
        send(id=number, result={"stopReason": "cancelled"})
    else:
        send(method="turn/completed", params={**IDS, "turn": {"id": "u", "status": "interrupted", "items": []}})


while True:
    message = hear()
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    match method:
        case "initialize" if KIND == "acp":
            result: Any = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
        case "initialize":
            result = {"userAgent": "codex/0.166.0"}
        case "session/new" | "session/load":
            result = {"sessionId": "s"}
        case "thread/start" | "thread/resume":
            result = {"thread": {"id": "t"}, "model": "m"}
        case "turn/start":
            result = {"turn": {"id": "u", "status": "inProgress", "items": []}}
        case "model/list":
            result = {"data": [], "nextCursor": None}
        case "session/prompt":
            work(number, params["sessionId"])
            continue
        case _:
            result = {}
    if number is not None and method is not None:
        send(id=number, result=result)
    if method == "turn/start":
        work(number, "")
