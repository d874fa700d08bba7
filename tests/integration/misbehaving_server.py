"""A language server that does what its first argument says. It is copied into workspaces and run in the sandbox."""

import json
import sys
from pathlib import Path


def send(**message: object) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def receive() -> dict:
    size = 0
    while (line := sys.stdin.buffer.readline()).strip():
        size = int(line.split(b":")[1])
    if not line:
        sys.exit()
    return json.loads(sys.stdin.buffer.read(size))


def diagnostic(message: str, line: int = 0, **more: object) -> dict:
    where = {"line": line, "character": 0}
    return {"range": {"start": where, "end": where}, "message": message, "severity": 1, **more}


def answer_to(request: str, **params: object) -> str:
    send(id=request, method=request, params=params)
    while (message := receive()).get("id") != request:
        pass
    return str(message.get("result", message.get("error", {}).get("message")))


def attempt_writing(folder: str) -> str:
    try:
        Path(folder, "written-by-the-server").write_text("x")
    except OSError as refusal:
        return f"refused: {refusal.strerror}"
    return "written"


def errors(mode: str, text: str, root: str) -> list[dict]:
    """One error for each line that has the word `bad`."""
    bad = [diagnostic(f"bad line: {line}", n) for n, line in enumerate(text.split("\n")) if "bad" in line]
    if not bad:
        return []
    match mode:
        case "writes":
            return [diagnostic(attempt_writing(root))]
        case "asks":
            edit = answer_to("workspace/applyEdit", edit={"changes": {}})
            shown = answer_to("window/showDocument", uri="https://example.org")
            return [diagnostic(f"applyEdit: {edit}; showDocument: {shown}")]
        case "escapes":
            return [diagnostic("red \x1b[31m\nand a second line\u202e"), {"message": "no range"}, None]
        case "warns":
            return [diagnostic("only a warning", severity=2), *bad]
    return bad


def main() -> None:
    mode = sys.argv[1]
    print("words on stderr are no part of the protocol", file=sys.stderr, flush=True)
    if mode == "dies":
        sys.exit(3)
    root = ""
    while True:
        message = receive()
        method, params = message.get("method"), message.get("params", {})
        if mode == "hangs":
            continue
        if method == "initialize":
            root = params["rootPath"]
            if mode == "garbage":
                sys.stdout.write("this is not the protocol\n" * 1000)
                sys.stdout.flush()
            if mode == "huge":
                sys.stdout.write("Content-Length: 99999999999\r\n\r\n")
                sys.stdout.flush()
            send(id=message["id"], result={"capabilities": {"textDocumentSync": 1}})
        elif method in ("textDocument/didOpen", "textDocument/didChange"):
            document = params["textDocument"]
            text = document["text"] if "text" in document else params["contentChanges"][-1]["text"]
            if mode == "dies later" and "bad" in text:
                sys.exit(3)
            while mode == "floods":
                send(method="window/logMessage", params={"type": 3, "message": "x" * 1_000_000})
            found = errors(mode, text, root)
            version = {} if mode == "unversioned" else {"version": document["version"]}
            send(
                method="textDocument/publishDiagnostics",
                params={"uri": document["uri"], "diagnostics": found, **version},
            )


main()
