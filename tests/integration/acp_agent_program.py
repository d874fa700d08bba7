"""A small agent that speaks ACP, for tests: what it does goes by the words of the prompt.

    acp_agent_program.py MEMORY [VERSION]

VERSION is the highest version that it speaks. `shape` in place of a number: it answers 2 and speaks 1, as some do.
"""

import base64
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

MEMORY = Path(sys.argv[1])
"""Where it notes the prompts of each session: what it has seen."""
HIGHEST = sys.argv[2] if len(sys.argv) > 2 else "1"
VERSION = 1
OPTIONS: dict[str, Any] = {"model": "small", "mode": "auto", "effort": "low", "loud": False}
CHOICES = {
    "model": ("model", ["small", "large"]),
    "mode": ("mode", ["auto", "approve", "plan"]),
    "effort": ("thought_level", ["low", "high"]),
}
ASKED = 0


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


def request(method: str, **params: Any) -> dict[str, Any]:
    """Asks the client, and waits for its answer."""
    global ASKED  # noqa: PLW0603
    ASKED += 1
    send(id=f"q{ASKED}", method=method, params=params)
    while (answer := receive()).get("id") != f"q{ASKED}":
        pass
    return answer


def permission(session: str, call: dict[str, Any]) -> dict[str, Any]:
    options = [{"optionId": f"x-{kind}", "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    if VERSION == 1:
        return {"sessionId": session, "toolCall": call, "options": options}
    subject = {"type": "tool_call", "toolCall": call}
    return {"sessionId": session, "title": call.get("title", ""), "subject": subject, "options": options}


def ask(session: str, call: dict[str, Any]) -> str:
    answer = request("session/request_permission", **permission(session, call))
    return answer["result"]["outcome"].get("optionId", "cancelled")


def tool(session: str, call_id: str, /, **members: Any) -> None:
    """The first update of a call has a name of its own in version 1."""
    first = VERSION == 1 and "title" in members
    update(session, "tool_call" if first else "tool_call_update", toolCallId=call_id, **members)


def use_client(session: str, words: str) -> str:
    """What it asks its client to do."""
    name, _, rest = words.partition(" ")
    where = {"sessionId": session}
    match name:
        case "terminal":
            # As real agents do it: the call is announced, then the terminal is made.
            tool(session, "t1", title="run", kind="execute", status="pending", rawInput={})
            made = request("terminal/create", **where, command=rest, env=[{"name": "COLOUR", "value": "red blue"}])
            if "error" in made:
                return f"refused {made['error']['code']}"
            terminal = {**where, "terminalId": made["result"]["terminalId"]}
            content = [{"type": "terminal", "terminalId": terminal["terminalId"]}]
            tool(session, "t1", status="in_progress", content=content)
            while "sleep" in rest and "started" not in request("terminal/output", **terminal)["result"]["output"]:
                pass
            if "sleep" in rest:
                request("terminal/kill", **terminal)
            status = request("terminal/wait_for_exit", **terminal)["result"]
            output = request("terminal/output", **terminal)["result"]
            request("terminal/release", **terminal)
            gone = request("terminal/output", **terminal)["error"]["code"]
            tool(session, "t1", status="completed")
            return f"exit {status['exitCode']} {output['output'].strip()!r} {gone}"
        case "handed":
            return hand_over(session, rest)
        case "write":
            path, _, content = rest.partition(" ")
            answer = request("fs/write_text_file", **where, path=path, content=content)
        case _:
            answer = request("fs/read_text_file", **where, path=rest, line=1, limit=2)
    return str(answer.get("result", answer.get("error")))


def hand_over(session: str, words: str) -> str:
    """A call that it tells of itself, and hands to its client: `WHEN WHAT …`. It is told before or after that, with a
    question or without, and the terminal is named in it or not."""
    when, what, rest = words.split(" ", 2)
    path, _, content = rest.partition(" ")
    if what == "write":
        diff = {"type": "diff", "path": path, "oldText": None, "newText": content}
        call = {"title": f"Write {path}", "kind": "edit", "content": [diff], "locations": [{"path": path}]}
    else:
        call = {"title": rest if what == "titled" else "Run", "kind": "execute"}
        if what != "titled":
            call["rawInput"] = {"command": rest}
    if when == "permitted":
        tool(session, "h1", status="pending", **call)
        ask(session, {"toolCallId": "h1", **call})
    elif when == "announced":
        tool(session, "h1", status="pending", **call)
    elif when == "running":
        tool(session, "h1", status="in_progress", **call)
    if what == "write":
        request("fs/write_text_file", sessionId=session, path=path, content=content)
    else:
        line = {"command": "bash", "args": ["-c", rest]} if what == "bash" else {"command": rest}
        made = request("terminal/create", sessionId=session, **line)["result"]
        if what == "named":
            tool(session, "h1", content=[{"type": "terminal", **made}], **({} if when != "late" else call))
        request("terminal/wait_for_exit", sessionId=session, **made)
        request("terminal/release", sessionId=session, **made)
    if when == "late":
        tool(session, "h1", status="in_progress", **call)
    tool(session, "h1", status="completed")
    return "handed over"


def prompt(session: str, words: str) -> str:
    words = words.rpartition("\n")[2]
    update(session, "agent_thought_chunk", content=text("Hm."), messageId="t")
    if "ask" in words:
        call = {"toolCallId": "c1", "title": "touch made", "kind": "execute", "rawInput": {"command": "touch made"}}
        tool(session, "c1", **{k: v for k, v in call.items() if k != "toolCallId"}, status="pending")
        answer = ask(session, call)
        done = "completed" if answer == "x-allow_once" else "failed"
        output = [{"type": "content", "content": text(f"it was {answer}")}]
        tool(session, "c1", status=done, content=output)
    if "two" in words:
        for number in ("c8", "c9"):
            call = {"toolCallId": number, "title": f"touch {number}", "kind": "execute"}
            send(id=number, method="session/request_permission", params=permission(session, call))
        answered = {receive()["id"] for _ in "12"}
        for number in sorted(answered):
            tool(session, number, status="completed")
    if "withdraw" in words:
        call = {"toolCallId": "c7", "title": "touch c7", "kind": "execute"}
        send(id="w1", method="session/request_permission", params=permission(session, call))
        send(method="$/cancel_request", params={"requestId": "w1"})
        words += f" {receive()['error']['code']}"
        tool(session, "c7", status="failed")
    if "form" in words:
        schema = {"type": "object", "properties": {"colour": {"type": "string", "default": "blue"}}}
        about = {"sessionId": session, "mode": "form", "message": "Which colour?", "requestedSchema": schema}
        words += f" {json.dumps(request('elicitation/create', **about)['result'])}"
    if "edit" in words:
        if VERSION == 1:
            diff: dict[str, Any] = {"type": "diff", "path": "/w/a", "oldText": "a\n", "newText": "b\n"}
        else:
            patch = "diff --git a/w/a b/w/a\n--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-a\n+b\n"
            changes = [{"operation": "modify", "path": "/w/a"}]
            diff = {"type": "diff", "changes": changes, "patch": {"format": "git_patch", "text": patch}}
        tool(session, "c2", title="Edit a", kind="edit", status="completed", content=[diff])
    if "look" in words:
        tool(session, "c3", title="Read a", kind="read", status="completed", locations=[{"path": "/w/a", "line": 3}])
    if "plan" in words:
        entries = [{"content": "look", "priority": "high", "status": "completed"}]
        if VERSION == 1:
            update(session, "plan", entries=entries)
        else:
            update(session, "plan_update", plan={"type": "items", "planId": "p", "entries": entries})
    if "stream" in words:
        if VERSION == 1:
            tool(session, "c4", title="Terminal", kind="execute", status="pending", rawInput={})
            tool(session, "c4", rawInput={"command": "seq 2"})
            for piece in ("1\n", "2\n"):
                tool(session, "c4", _meta={"terminal_output": {"terminal_id": "c4", "data": piece}})
            tool(session, "c4", status="completed", _meta={"terminal_exit": {"terminal_id": "c4", "exit_code": 0}})
        else:
            update(session, "terminal_update", terminalId="c4", command="seq 2")
            content = [{"type": "terminal", "terminalId": "c4"}]
            tool(session, "c4", kind="execute", status="pending", content=content)
            for piece in (b"1\n", b"2\n"):
                data = base64.b64encode(piece).decode()
                update(session, "terminal_output_chunk", terminalId="c4", data=data)
            update(session, "terminal_update", terminalId="c4", exitStatus={"exitCode": 0})
            tool(session, "c4", status="completed")
    if "whole" in words and VERSION == 2:
        update(session, "agent_message_chunk", messageId="w", content=text("All "))
        update(session, "agent_message", messageId="w", content=[text("All of it.")])
    if words.startswith(("terminal ", "write ", "read ", "handed ")):
        update(session, "agent_message_chunk", content=text(use_client(session, words)), messageId="m")
        return "end_turn"
    if "unknown" in words:
        words += f" {request('some/method', sessionId=session)['error']['code']}"
    if "options" in words:
        words += f" {json.dumps(OPTIONS)}"
    if "die" in words:
        print("error: out of patience", file=sys.stderr)
        sys.exit(3)
    if "killed" in words and not (MEMORY / "killed").exists():
        (MEMORY / "killed").touch()
        update(session, "agent_message_chunk", content=text("Half a "), messageId="m")
        tool(session, "c6", title="sleep 1", kind="execute", status="in_progress", rawInput={"command": "sleep 1"})
        os.kill(os.getpid(), signal.SIGKILL)
    if "always-killed" in words:
        os.kill(os.getpid(), signal.SIGKILL)
    update(session, "some_update_of_the_future", anything=1)
    for piece in ("You said: ", words.rpartition("\n")[2]):
        update(session, "agent_message_chunk", content=text(piece), messageId="m")
    if "hang" in words:
        while receive().get("method") != "session/cancel":
            pass
        (MEMORY / "cancelled").touch()
        return "cancelled"
    return "end_turn"


def state(session: str) -> dict[str, Any]:
    member = "id" if VERSION == 1 else "configId"
    listed = [
        {
            member: name,
            "name": name.capitalize(),
            "category": category,
            "type": "select",
            "currentValue": OPTIONS[name],
            "options": [{"value": value, "name": value.capitalize()} for value in values],
        }
        for name, (category, values) in CHOICES.items()
    ]
    listed.append({member: "loud", "name": "Loud", "type": "boolean", "currentValue": OPTIONS["loud"]})
    found: dict[str, Any] = {"configOptions": listed}
    if VERSION == 2:
        found["availableCommands"] = [{"type": "command", "name": "compact", "description": "Summarise"}]
    else:
        commands = [{"name": "compact", "description": "Summarise"}]
        update(session, "available_commands_update", availableCommands=commands)
    return found


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    global VERSION  # noqa: PLW0603
    if HIGHEST == "2" and params["protocolVersion"] >= 2:
        VERSION = 2
        about = {"name": "small", "title": "Small", "version": "1"}
        return {"protocolVersion": 2, "info": about, "capabilities": {"session": {"prompt": {"image": {}}}}}
    number = 2 if HIGHEST == "shape" else 1
    return {"protocolVersion": number, "agentCapabilities": {"loadSession": True}}


def run_prompt(number: Any, params: dict[str, Any]) -> None:
    session = params["sessionId"]
    words = "\n".join(block.get("text", "") for block in params["prompt"])
    with (MEMORY / session).open("a") as file:
        file.write(f"{words}\n")
    if VERSION == 1:
        usage = {"inputTokens": 3, "outputTokens": 4, "cachedReadTokens": 5}
        send(id=number, result={"stopReason": prompt(session, words), "usage": usage})
        return
    update(session, "user_message", messageId="u", content=params["prompt"])
    send(id=number, result={"messageId": "u"})
    update(session, "state_update", state="running")
    reason = prompt(session, words)
    update(session, "usage_update", used=12, size=100)
    update(session, "state_update", state="idle", stopReason=reason)


def main() -> None:
    (MEMORY / "pid").write_text(str(os.getpid()))
    if HIGHEST == "none":
        print("This is no protocol.", flush=True)
    while True:
        message = receive()
        number, method, params = message.get("id"), message.get("method"), message.get("params", {})
        match method:
            case "initialize":
                if HIGHEST == "refuses-2" and params["protocolVersion"] != 1:
                    send(id=number, error={"code": -32602, "message": "only 1"})
                else:
                    send(id=number, result=initialize(params))
            case "session/new" if HIGHEST == "no-key":
                send(id=number, error={"code": -32000, "message": "Authentication required"})
            case "session/new":
                session = f"s{len(list(MEMORY.glob('s*')))}"
                (MEMORY / session).write_text("")
                send(id=number, result={"sessionId": session, **state(session)})
            case "session/load" | "session/resume":
                if not (MEMORY / params["sessionId"]).exists():
                    send(id=number, error={"code": -32002, "message": "no such session"})
                    continue
                if method == "session/load":
                    update(params["sessionId"], "agent_message_chunk", content=text("replayed"), messageId="old")
                else:
                    update(params["sessionId"], "state_update", state="idle")
                send(id=number, result=state(params["sessionId"]))
            case "session/set_config_option":
                OPTIONS[params["configId"]] = params["value"]
                send(id=number, result=state(params["sessionId"]))
            case "session/prompt":
                run_prompt(number, params)
            case _:
                if number is not None:
                    send(id=number, error={"code": -32601, "message": "no such method"})


main()
