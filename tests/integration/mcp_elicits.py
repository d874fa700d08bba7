"""An MCP server without the SDK, of protocol 2025-11-25: its tools ask the person something and return the answers.

Files in its directory, `go` and `on`, are what it waits for where a test must say when.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

FORM = {
    "type": "object",
    "title": "Order",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "size": {"type": "string", "enum": ["s", "m", "l"], "default": "m"},
        "count": {"type": "integer", "minimum": 1},
    },
    "required": ["name"],
}
PLAIN: dict[str, Any] = {"type": "object", "properties": {}}
QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "form": [{"message": "Who is it for?", "requestedSchema": FORM}],
    "confirm": [{"mode": "form", "message": "Really delete it?", "requestedSchema": PLAIN}],
    "visit": [{"mode": "url", "message": "Sign in first.", "url": "https://example.com/in?a=1", "elicitationId": "e1"}],
    "two": [
        {"message": "The first?", "requestedSchema": PLAIN},
        {"message": "The second?", "requestedSchema": PLAIN},
    ],
    "huge": [
        {"message": "m" * 100_000, "requestedSchema": {"type": "object", "properties": {"x": {"title": "t" * 99_999}}}}
    ],
    "given_up": [{"message": "Still there?", "requestedSchema": PLAIN}],
    "returned": [{"message": "Still there?", "requestedSchema": PLAIN}],
}


def say(*messages: dict[str, Any]) -> None:
    sys.stdout.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages))
    sys.stdout.flush()


def hear() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def wait(name: str) -> None:
    while not Path(name).exists():
        time.sleep(0.01)


def call(number: object, tool: str) -> None:
    names = [f"ask-{number}-{place}" for place in range(len(QUESTIONS[tool]))]
    asked = zip(names, QUESTIONS[tool], strict=True)
    say(*({"id": name, "method": "elicitation/create", "params": question} for name, question in asked))
    answers: dict[str, Any] = {}
    if tool == "given_up":
        wait("go")
        say({"method": "notifications/cancelled", "params": {"requestId": names[0], "reason": "no matter"}})
        wait("on")
    if tool == "returned":
        wait("go")
    while tool not in ("given_up", "returned") and len(answers) < len(names):
        message = hear()
        if message.get("id") in names:
            answers[message["id"]] = message.get("result", message.get("error"))
    text = json.dumps([answers.get(name) for name in names])
    say({"id": number, "result": {"content": [{"type": "text", "text": text}]}})


def main() -> None:
    while True:
        message = hear()
        number, method = message.get("id"), message.get("method")
        match method:
            case "initialize":
                capable = "elicitation" in message["params"]["capabilities"]
                assert capable, "the client says that it can be asked"
                about = {"name": "elicits", "version": "1"}
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
                say({"id": number, "result": result})
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in QUESTIONS]
                say({"id": number, "result": {"tools": tools}})
            case "tools/call":
                call(number, message["params"]["name"])
            case _ if method is not None and number is not None:
                say({"id": number, "error": {"code": -32601, "message": "no such method"}})
            case _:
                pass


if __name__ == "__main__":
    main()
