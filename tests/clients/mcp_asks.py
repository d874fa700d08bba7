"""The least an MCP server can be that asks a person something: Codex understands only the plainest of forms."""

import json
import sys

FORM = {"type": "object", "properties": {"guests": {"type": "integer", "title": "Guests"}}, "required": ["guests"]}
TOOL = {"name": "book", "description": "Books a table.", "inputSchema": {"type": "object", "properties": {}}}


def say(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


calls: list[object] = []
for line in sys.stdin:
    heard = json.loads(line)
    match heard.get("method"):
        case "initialize":
            version = heard["params"]["protocolVersion"]
            who = {"name": "asks", "version": "1"}
            say(id=heard["id"], result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": who})
        case "tools/list":
            say(id=heard["id"], result={"tools": [TOOL]})
        case "tools/call":
            calls.append(heard["id"])
            asked = {"message": "For how many?", "requestedSchema": FORM}
            say(id="question", method="elicitation/create", params=asked)
        case None if heard.get("id") == "question":
            result = heard.get("result", {})
            text = f"{result.get('action')}: a table for {(result.get('content') or {}).get('guests')}"
            say(id=calls.pop(), result={"content": [{"type": "text", "text": text}]})
        case str() if "id" in heard:
            say(id=heard["id"], result={})
