"""Tools of the client: `dynamicTools` as they are declared, and the request `item/tool/call` with its answer."""

import base64

from hames.codecs.jsonrpc_peer import JsonRpcResponse
from hames.deferred import pattern
from hames.domain.errors import InvalidCommand
from hames.domain.items import Picture, ToolResult
from hames.domain.json import Json
from hames.domain.options import ClientTool
from hames.domain.pictures import shape
from hames.ports import ClientToolCall
from hames.protocols.flint import messages as m
from hames.protocols.session import ClientReply

METHOD = "item/tool/call"
MAX_TOOLS = 200
NAME_CHARS = 64
RESULT_CHARS = 60_000
PICTURE_CHARS = 14 << 20
"""Of the pictures of an answer together, in base64."""

_NAME = pattern(r"[A-Za-z0-9_-]+")


def declared_tools(given: list[m.DynamicTool | m.DynamicToolNamespace]) -> tuple[ClientTool, ...]:
    """Raises `InvalidCommand`."""
    found: dict[str, ClientTool] = {}
    for number, one in enumerate(given):
        where = f"dynamicTools[{number}]"
        if isinstance(one, m.DynamicToolNamespace):
            tools = [(f"{where}.tools[{place}]", one.name, tool) for place, tool in enumerate(one.tools)]
        else:
            tools = [(where, one.namespace or "", one)]
        for place, namespace, tool in tools:
            name = f"{namespace}__{tool.name}" if namespace else tool.name
            if not _NAME.fullmatch(name) or len(name) > NAME_CHARS:
                raise InvalidCommand(f"{place}.name: must be 1 to {NAME_CHARS} letters, digits, `_` and `-`")
            if name.startswith("mcp__"):
                raise InvalidCommand(f"{place}.name: must not begin with 'mcp__', as the tools of MCP servers do")
            if name in found:
                raise InvalidCommand(f"{place}.name: there are two tools {name!r}")
            found[name] = ClientTool(
                name=tool.name, description=tool.description, schema=tool.input_schema, namespace=namespace
            )
    if len(found) > MAX_TOOLS:
        raise InvalidCommand(f"dynamicTools: has more than {MAX_TOOLS} tools")
    return tuple(found.values())


def call_params(call: ClientToolCall, thread_id: str) -> Json:
    return m.DynamicToolCallParams(
        thread_id=thread_id,
        turn_id=call.turn_id,
        call_id=call.item_id,
        tool=call.tool,
        namespace=call.namespace or None,
        arguments=call.arguments,
    )


def read_reply(response: JsonRpcResponse) -> ClientReply:
    """What the client answered. Content that a model cannot be shown is named, so that nothing disappears silently."""
    request_id = response.request_id
    if response.error is not None:
        words = response.error.get("message") if isinstance(response.error, dict) else None
        return ClientReply(request_id=request_id, error=str(words or "it answered with an error"))
    result: Json = response.result
    content = result.get("contentItems") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(content, list) or not isinstance(result.get("success"), bool):
        return ClientReply(request_id=request_id, error="the answer must have `contentItems` and `success`")
    texts: list[str] = []
    pictures: list[Picture] = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "inputText" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind == "inputImage" and isinstance(part.get("imageUrl"), str):
            _add_picture(part["imageUrl"], texts, pictures)
        else:
            texts.append(f"[{kind or 'content'} that cannot be shown]")
    text = "\n".join(texts)
    if len(text) > RESULT_CHARS:
        omitted = len(text) - RESULT_CHARS
        text = f"{text[: RESULT_CHARS // 2]}\n[… {omitted} characters omitted …]\n{text[-RESULT_CHARS // 2 :]}"
    told = ToolResult(text=text or "(no output)", failed=not result["success"], pictures=tuple(pictures))
    return ClientReply(request_id=request_id, result=told)


def _add_picture(url: str, texts: list[str], pictures: list[Picture]) -> None:
    head, comma, data = url.partition(",")
    if not comma or not head.lower().startswith("data:image/") or not head.lower().endswith(";base64"):
        texts.append(f"[a picture at {url[:200]}]")
        return
    try:
        found = shape(base64.b64decode(data, validate=True))
    except ValueError:
        found = None
    if found is None or found.complaint or sum(len(one.base64) for one in pictures) + len(data) > PICTURE_CHARS:
        texts.append("[a picture that cannot be shown]")
        return
    pictures.append(Picture(media_type=found.media_type, base64=data))
