"""A small agent that speaks ACP v1, for tests: what it does goes by the words of the prompt."""

import json
import sys
from pathlib import Path
from typing import Any

MEMORY = Path(sys.argv[1])
"""Where it notes the prompts of each session: what it has seen."""


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def update(session: str, name: str, /, **members: Any) -> None:
    send(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": name, **members}})


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def ask(session: str, call: dict[str, Any]) -> str:
    options = [{"optionId": f"x-{kind}", "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    params = {"sessionId": session, "toolCall": call, "options": options}
    send(id="q1", method="session/request_permission", params=params)
    while (answer := receive()).get("id") != "q1":
        pass
    return answer["result"]["outcome"].get("optionId", "cancelled")


def prompt(session: str, words: str) -> str:
    words = words.rpartition("\n")[2]
    update(session, "agent_thought_chunk", content=text("Hm."), messageId="t")
    if "ask" in words:
        call = {"toolCallId": "c1", "title": "touch made", "kind": "execute", "rawInput": {"command": "touch made"}}
        update(session, "tool_call", **call, status="pending")
        answer = ask(session, call)
        done = "completed" if answer == "x-allow_once" else "failed"
        output = [{"type": "content", "content": text(f"it was {answer}")}]
        update(session, "tool_call_update", toolCallId="c1", status=done, content=output)
    if "edit" in words:
        diff = {"type": "diff", "path": "/w/a", "oldText": "a\n", "newText": "b\n"}
        update(session, "tool_call", toolCallId="c2", title="Edit a", kind="edit", status="completed", content=[diff])
    if "plan" in words:
        entries = [{"content": "look", "priority": "high", "status": "completed"}]
        update(session, "plan", entries=entries)
    if "unknown" in words:
        send(id="u1", method="fs/read_text_file", params={"sessionId": session, "path": "/etc/passwd"})
        words += f" {receive()['error']['code']}"
    if "die" in words:
        print("error: out of patience", file=sys.stderr)
        sys.exit(3)
    update(session, "some_update_of_the_future", anything=1)
    for piece in ("You said: ", words.rpartition("\n")[2]):
        update(session, "agent_message_chunk", content=text(piece), messageId="m")
    if "hang" in words:
        while receive().get("method") != "session/cancel":
            pass
        (MEMORY / "cancelled").touch()
        return "cancelled"
    return "end_turn"


def main() -> None:
    while True:
        message = receive()
        number, method, params = message.get("id"), message.get("method"), message.get("params", {})
        match method:
            case "initialize":
                offered = {"loadSession": True}
                send(id=number, result={"protocolVersion": 1, "agentCapabilities": offered})
            case "session/new":
                session = f"s{len(list(MEMORY.glob('s*')))}"
                (MEMORY / session).write_text("")
                send(id=number, result={"sessionId": session})
            case "session/load":
                if not (MEMORY / params["sessionId"]).exists():
                    send(id=number, error={"code": -32002, "message": "no such session"})
                    continue
                update(params["sessionId"], "agent_message_chunk", content=text("replayed"), messageId="old")
                send(id=number, result={})
            case "session/prompt":
                words = "\n".join(block.get("text", "") for block in params["prompt"])
                with (MEMORY / params["sessionId"]).open("a") as file:
                    file.write(f"{words}\n")
                send(id=number, result={"stopReason": prompt(params["sessionId"], words)})
            case _:
                if number is not None:
                    send(id=number, error={"code": -32601, "message": "no such method"})


main()
