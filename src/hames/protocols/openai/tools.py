"""The tools of a request of OpenAI's APIs: which the client carries out, which call it wants, and how a call is told.

Three kinds are carried out by the client: functions, functions in a namespace, and custom tools, whose input is plain
text. Tools that OpenAI hosts are refused, except web search: it is a permission and not a demand, and Codex sends it
always. It is named as ignored, because the agent has tools of its own.
"""

from collections.abc import Iterator, Sequence

from hames.codecs.jsontext import encode
from hames.domain.items import ToolCall
from hames.domain.json import NOTHING, Json
from hames.domain.options import ClientTool
from hames.domain.state import ThreadState
from hames.domain.value import Value
from hames.protocols.openai.conversation import item_name
from hames.protocols.openai.errors import InvalidParameter

MOST_TOOLS = 128
CUSTOM_SCHEMA: Json = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input of the tool, as plain text"}},
    "required": ["input"],
}
"""How a model calls a tool with plain text as its input. Also the mark by which such a tool is known."""
_OPTIONAL = ("web_search", "web_search_preview")


class RequestTools(Value):
    """`answer` is the tool that the answer has to be a call of; `schema` is what its arguments have to match."""

    tools: tuple[ClientTool, ...] = ()
    answer: str = ""
    schema: Json = NOTHING
    demand: str = ""
    """What the model is told about the tools, in words."""
    ignored: tuple[str, ...] = ()


def read_tools(given: dict[str, Json], *, is_chat: bool) -> RequestTools:
    """Raises `InvalidParameter`."""
    tools: Json = given.get("tools")
    if tools is not None and (not isinstance(tools, list) or len(tools) > MOST_TOOLS):
        raise InvalidParameter(f"tools: must be a list of at most {MOST_TOOLS}", "tools")
    found: list[ClientTool] = []
    ignored: list[str] = []
    listed: list[Json] = tools or []
    for number, one in enumerate(listed):
        kind = one.get("type") if isinstance(one, dict) else None
        if kind in _OPTIONAL or (isinstance(kind, str) and kind.startswith("web_search_preview_")):
            ignored.append(f"tools.{kind}")
            continue
        found += _client_tools(one, number, is_chat=is_chat)
    if len({model_name(tool) for tool in found}) < len(found):
        raise InvalidParameter("tools: two of them have the same name", "tools")
    if len(found) > MOST_TOOLS:
        raise InvalidParameter(f"tools: more than {MOST_TOOLS}, with those of namespaces", "tools")
    return _chosen(given.get("tool_choice"), tuple(found), tuple(ignored))


def _client_tools(tool: Json, number: int, *, is_chat: bool, namespace: str = "") -> Iterator[ClientTool]:
    match tool:
        case {"type": "function", "function": {"name": str(name)} as inner} if is_chat and name:
            yield _function(name, inner, namespace)
        case {"type": "function", "name": str(name)} if name and not is_chat:
            yield _function(name, tool, namespace)
        case {"type": "custom", "custom": {"name": str(name)} as inner} if is_chat and name:
            yield _custom(name, inner, namespace)
        case {"type": "custom", "name": str(name)} if name and not is_chat:
            yield _custom(name, tool, namespace)
        case {"type": "namespace", "name": str(name), "tools": list(inside)} if name and not is_chat and not namespace:
            for one in inside:
                yield from _client_tools(one, number, is_chat=False, namespace=name)
        case _:
            raise InvalidParameter(
                f"tools[{number}]: only tools that the client carries out are supported (function, custom); the agent"
                " has tools of its own",
                "tools",
            )


def _function(name: str, tool: dict[str, Json], namespace: str) -> ClientTool:
    schema, described = tool.get("parameters"), tool.get("description")
    return ClientTool(
        name=name,
        description=described if isinstance(described, str) else "",
        schema=schema if isinstance(schema, dict) else {"type": "object", "properties": {}},
        namespace=namespace,
    )


def _custom(name: str, tool: dict[str, Json], namespace: str) -> ClientTool:
    described, form = tool.get("description"), tool.get("format")
    text = described if isinstance(described, str) else ""
    match form:
        case {"type": "grammar", "definition": str(definition), **rest}:
            text += f"\n\nThe input has to match this {rest.get('syntax', '')} grammar:\n{definition}"
        case {"grammar": {"definition": str(definition), **rest}}:
            text += f"\n\nThe input has to match this {rest.get('syntax', '')} grammar:\n{definition}"
        case _:
            pass
    return ClientTool(name=name, description=text, schema=CUSTOM_SCHEMA, namespace=namespace)


def _chosen(choice: Json, tools: tuple[ClientTool, ...], ignored: tuple[str, ...]) -> RequestTools:
    match choice:
        case None | "auto":
            return RequestTools(tools=tools, ignored=ignored)
        case "none":
            return RequestTools(ignored=ignored)
        case "required" if len(tools) == 1 and not _is_custom(tools[0]):
            return _answer_with(tools[0], ignored)
        case "required" if tools:
            return RequestTools(tools=tools, ignored=ignored, demand=_demand(tools))
        case {"type": "function", "name": str(name)} | {"type": "function", "function": {"name": str(name)}}:
            named = next((tool for tool in tools if tool.name == name), None)
            if named is not None:
                return _answer_with(named, ignored)
        case {"type": "allowed_tools", "tools": list(allowed)} | {"allowed_tools": {"tools": list(allowed)}}:
            names = {_allowed_name(one) for one in allowed}
            mode = choice.get("mode", choice.get("allowed_tools", {}).get("mode"))
            return _chosen(mode, tuple(tool for tool in tools if tool.name in names), ignored)
        case _:
            pass
    raise InvalidParameter(
        "tool_choice: must be auto, none, required or a function of tools; the agent chooses among its own tools",
        "tool_choice",
    )


def _allowed_name(tool: Json) -> str:
    match tool:
        case {"name": str(name)} | {"function": {"name": str(name)}}:
            return name
        case _:
            return ""


def _answer_with(tool: ClientTool, ignored: tuple[str, ...]) -> RequestTools:
    """The agent works with its own tools, and its answer becomes the call: that is how clients of this API ask for
    values of a type."""
    told = f"\n\n{tool.description}" if tool.description else ""
    demand = f"Your final answer is used as the arguments of the tool {tool.name!r} of the application.{told}"
    return RequestTools(answer=tool.name, schema={**tool.schema, "type": "object"}, demand=demand, ignored=ignored)


def _demand(tools: Sequence[ClientTool]) -> str:
    names = ", ".join(model_name(tool) for tool in tools)
    return f"End your turn with a call of one of these tools of the application, and not with text: {names}"


def _is_custom(tool: ClientTool) -> bool:
    return tool.schema == CUSTOM_SCHEMA


def model_name(tool: ClientTool) -> str:
    return f"{tool.namespace}__{tool.name}" if tool.namespace else tool.name


class ClientTools:
    """The tools that the client of a thread carries out, by the name that the model knows."""

    def __init__(self, state: ThreadState | None = None) -> None:
        self.thread_id = state.id if state is not None else None
        self._tools = {model_name(tool): tool for tool in state.settings.client_tools} if state is not None else {}

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def is_custom(self, name: str) -> bool:
        return name in self._tools and _is_custom(self._tools[name])

    def output_item(self, call: ToolCall) -> dict[str, Json]:
        """A call as `/v1/responses` tells it."""
        tool = self._tools.get(call.name)
        head: dict[str, Json] = {"status": "completed", "call_id": call.call_id}
        if tool is not None and tool.namespace:
            head |= {"namespace": tool.namespace}
        name = call.name if tool is None else tool.name
        if self.is_custom(call.name):
            kind = {"id": item_name("ctc", self.thread_id, call.call_id), "type": "custom_tool_call"}
            return {**kind, **head, "name": name, "input": custom_input(call.arguments)}
        kind = {"id": item_name("fc", self.thread_id, call.call_id), "type": "function_call"}
        return {**kind, **head, "name": name, "arguments": argument_text(call.arguments)}

    def tool_call(self, call: ToolCall) -> dict[str, Json]:
        """A call as chat completions tell it."""
        if self.is_custom(call.name):
            made = {"name": call.name, "input": custom_input(call.arguments)}
            return {"id": call.call_id, "type": "custom", "custom": made}
        made = {"name": call.name, "arguments": argument_text(call.arguments)}
        return {"id": call.call_id, "type": "function", "function": made}


def argument_text(arguments: Json) -> str:
    return arguments if isinstance(arguments, str) else encode(arguments if arguments is not None else {}).decode()


def custom_input(arguments: Json) -> str:
    match arguments:
        case {"input": str(text)}:
            return text
        case _:
            return argument_text(arguments)
