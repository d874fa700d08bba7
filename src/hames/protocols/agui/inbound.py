"""What an AG-UI client sends: one `RunAgentInput` per run, with the whole conversation as the client has it.

History is ours: of the messages only what comes behind the last word of the assistant is new. Everything else is in the
thread already. In a thread that is new here, the earlier messages are told to the model once, as a past.
"""

from collections.abc import Iterator, Sequence

import msgspec

from hames.codecs.jsontext import Repeated, Unreadable, encode, parse, torn, whole
from hames.domain.commands import PastMessage, PastTurn
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ApprovalId
from hames.domain.items import ImageInput, Picture, TextInput, ToolResult, UserInput
from hames.domain.json import Json
from hames.domain.options import ClientTool
from hames.domain.policy import Decision
from hames.domain.value import Value
from hames.protocols.run_session import RunAnswer

MOST_MESSAGES = 5_000
MOST_TOOLS = 128
ROLES = ("user", "assistant", "system", "developer", "tool", "reasoning", "activity")


class AguiTool(Value):
    name: str
    description: str = ""
    parameters: Json = None


class AguiContext(Value):
    description: str
    value: str


class AguiResume(Value, rename="camel"):
    interrupt_id: str
    status: str
    payload: Json = None


class RunInput(Value, rename="camel"):
    """`RunAgentInput`. `state` belongs to the application: it is echoed and never read."""

    thread_id: str
    run_id: str
    messages: list[dict[str, Json]]
    parent_run_id: str | None = None
    protocol_version: str | None = None
    state: Json = None
    tools: list[AguiTool] | None = None
    context: list[AguiContext] | None = None
    forwarded_props: Json = None
    resume: list[AguiResume] | None = None


class NewMessage(Value):
    """A message of the user that came behind the last word of the assistant."""

    id: str
    content: tuple[UserInput, ...]


class AguiRequest(Value):
    input: RunInput
    new: tuple[NewMessage, ...]
    results: dict[str, ToolResult]
    past: tuple[PastTurn, ...]
    answers: tuple[RunAnswer, ...]
    instructions: str
    tools: tuple[ClientTool, ...]


def read_input(body: bytes) -> AguiRequest:
    """Raises `InvalidCommand`."""
    try:
        value = parse(body or b"{}")
        given = msgspec.convert(whole(value) if torn(body) else value, RunInput)
    except (Unreadable, Repeated, msgspec.ValidationError) as why:
        raise InvalidCommand(f"the body: {why}") from None
    if not given.thread_id or len(given.thread_id) > 200 or not given.run_id:
        raise InvalidCommand("threadId and runId must be names of at most 200 characters")
    if len(given.messages) > MOST_MESSAGES:
        raise InvalidCommand(f"messages: more than {MOST_MESSAGES}")
    for message in given.messages:
        if (role := message.get("role")) not in ROLES:
            raise InvalidCommand(f"messages: no role is called {role!r}; there are {', '.join(ROLES)}")
    end = max((number for number, one in enumerate(given.messages, 1) if one.get("role") == "assistant"), default=0)
    new = given.messages[end:]
    said = [_new_message(message) for message in new if message.get("role") == "user"]
    return AguiRequest(
        input=given,
        new=tuple(message for message in said if message.content),
        results=dict(_results(new)),
        past=_past(given.messages[:end]),
        answers=tuple(_answer(one) for one in given.resume or ()),
        instructions=_instructions(given),
        tools=_tools(given.tools or ()),
    )


def _new_message(message: dict[str, Json]) -> NewMessage:
    name = message.get("id")
    parts = (part for part in _parts(message) if not isinstance(part, TextInput) or part.text.strip())
    return NewMessage(id=name if isinstance(name, str) else "", content=tuple(parts))


def waiting_keys(body: bytes) -> set[str]:
    """Names of a run that may wait for this body."""
    try:
        given = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return set()
    name = given.get("threadId") if isinstance(given, dict) else None
    return {thread_key(name)} if isinstance(name, str) else set()


def thread_key(name: str) -> str:
    return f"agui:{name}"


def _tools(tools: Sequence[AguiTool]) -> tuple[ClientTool, ...]:
    if len(tools) > MOST_TOOLS or len({tool.name for tool in tools}) < len(tools):
        raise InvalidCommand(f"tools: at most {MOST_TOOLS}, each with a name of its own")
    return tuple(
        ClientTool(
            name=tool.name,
            description=tool.description,
            schema=tool.parameters if isinstance(tool.parameters, dict) else {"type": "object", "properties": {}},
        )
        for tool in tools
    )


def _instructions(given: RunInput) -> str:
    """What the application says about itself: system messages, and the context."""
    texts = [
        text
        for message in given.messages
        if message.get("role") in ("system", "developer") and isinstance(text := message.get("content"), str)
    ]
    texts += [f"{one.description}: {one.value}" for one in given.context or ()]
    return "\n\n".join(text for text in texts if text)


def _parts(message: dict[str, Json]) -> Iterator[UserInput]:
    content = message.get("content")
    if isinstance(content, str):
        yield TextInput(text=content)
        return
    if not isinstance(content, list):
        raise InvalidCommand("the content of a message must be a string or a list of parts")
    for part in content:
        match part:
            case {"type": "text", "text": str(text)}:
                yield TextInput(text=text)
            case {"type": "image", "source": {"type": "url", "value": str(url)}}:
                yield _image(url)
            case {"type": "image", "source": {"type": "data", "value": str(data), "mimeType": str(kind)}}:
                yield _image(f"data:{kind};base64,{data}")
            case {"type": "binary", "mimeType": str(kind)} if kind.startswith("image/"):
                data, url = part.get("data"), part.get("url")
                yield _image(f"data:{kind};base64,{data}" if isinstance(data, str) else str(url))
            case _:
                kind = part.get("type") if isinstance(part, dict) else None
                raise InvalidCommand(f"a part of type {kind!r} is not supported; send text or images")


def _image(url: str) -> ImageInput:
    if not url.startswith(("data:image/", "https://", "http://")):
        raise InvalidCommand("an image has a data: or https: url")
    return ImageInput(url=url)


def _results(messages: Sequence[dict[str, Json]]) -> Iterator[tuple[str, ToolResult]]:
    for message in messages:
        match message:
            case {"role": "tool", "toolCallId": str(name)}:
                parts = list(_parts(message))
                text = "\n".join(part.text for part in parts if isinstance(part, TextInput))
                error = message.get("error")
                pictures = tuple(
                    Picture(media_type=kind, base64=data)
                    for part in parts
                    if isinstance(part, ImageInput) and ";base64," in part.url
                    for kind, _, data in (part.url.removeprefix("data:").partition(";base64,"),)
                )
                failed = isinstance(error, str) and bool(error)
                yield name, ToolResult(text=text or str(error or ""), failed=failed, pictures=pictures)
            case {"role": "tool"}:
                raise InvalidCommand("a tool message needs a toolCallId")
            case _:
                pass


def _past(messages: Sequence[dict[str, Json]]) -> tuple[PastTurn, ...]:
    past: list[PastMessage] = []
    for message in messages:
        match message:
            case {"role": "user"}:
                kept = tuple(part for part in _parts(message) if isinstance(part, TextInput | ImageInput))
                past.append(PastMessage(role="user", content=kept))
            case {"role": "assistant", "content": str(text)} if text:
                past.append(PastMessage(role="assistant", content=(TextInput(text=text),)))
            case _:
                pass  # tool calls of another agent, reasoning, activities
    return (PastTurn(messages=tuple(past)),) if past else ()


def _answer(entry: AguiResume) -> RunAnswer:
    """Only what was offered agrees: anything else is a rejection."""
    name = ApprovalId(entry.interrupt_id)
    if entry.status != "resolved":
        return RunAnswer(approval_id=name, decision="reject", note="the user dismissed the question")
    match entry.payload:
        case {"decision": "once" | "always" as word}:
            decision: Decision = word
        case {"approved": True} | True | "approve":
            decision = "once"
        case {"content": dict()}:
            decision = "once"
        case _:
            decision = "reject"
    payload: dict[str, Json] = entry.payload if isinstance(entry.payload, dict) else {}
    note, content = payload.get("note"), payload.get("content")
    return RunAnswer(approval_id=name, decision=decision, note=note if isinstance(note, str) else "", content=content)


def arguments_text(arguments: Json) -> str:
    return arguments if isinstance(arguments, str) else encode(arguments if arguments is not None else {}).decode()
