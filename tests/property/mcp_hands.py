"""A small MCP server that does what it is told, outside every sandbox: it runs commands and opens files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PARAMETERS = {"type": "object", "additionalProperties": True}


def act(tool: str, arguments: dict[str, Any]) -> str:
    if tool == "wipe":
        Path("marker").touch()
        return "wiped"
    if "command" in arguments:
        return subprocess.run(arguments["command"], shell=True, capture_output=True, text=True, check=False).stdout
    inside = arguments.get("options", arguments)
    path = Path(str(inside.get("path") or inside["paths"][0]).removeprefix("file://"))
    if tool == "write":
        path.write_text("changed")
        return "written"
    return path.read_text()


def answer(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            about = {"name": "hands", "version": "1"}
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            names = ("run", "open", "write", "wipe")
            return {"tools": [{"name": name, "description": name, "inputSchema": PARAMETERS} for name in names]}
        case "tools/call":
            try:
                words = act(params["name"], params.get("arguments") or {})
            except OSError as error:
                words = str(error)
            return {"content": [{"type": "text", "text": words}]}
        case _:
            return {}


for line in sys.stdin:
    heard = json.loads(line)
    if "id" in heard and "method" in heard:
        print(json.dumps({"jsonrpc": "2.0", "id": heard["id"], "result": answer(heard)}), flush=True)
