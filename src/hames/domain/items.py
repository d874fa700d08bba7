"""Items: what a turn is made of. flint's types are the vocabulary; other protocols show narrower views.

An item is started once and completed once. What streams in between goes into
one text field, named in `STREAMS`; a completed item carries all of it.
"""

from typing import Literal

from msgspec.structs import replace

from hames.domain.actors import Actor
from hames.domain.ids import CallId, ItemId
from hames.domain.json import NOTHING, Json
from hames.domain.value import Value

ItemStatus = Literal["running", "completed", "failed", "declined", "interrupted", "skipped"]
"""`skipped`: the model called for it, and it was not executed because an earlier call of the same reply failed."""


class TextInput(Value, tag_field="type", tag="text"):
    text: str
    meta: Json = NOTHING


class ImageInput(Value, tag_field="type", tag="image"):
    """A picture by URL or `data:` URL."""

    url: str
    meta: Json = NOTHING


class LocalImageInput(Value, tag_field="type", tag="localImage"):
    """A picture by path. Read when the turn starts, from inside the workspace or wherever the client points."""

    path: str
    meta: Json = NOTHING


class FileInput(Value, tag_field="type", tag="file"):
    """A file the prompt points at, by path; its text is shown to the model."""

    path: str
    meta: Json = NOTHING


UserInput = TextInput | ImageInput | LocalImageInput | FileInput


class Call(Value):
    """A tool call as the model made it. `arguments` is the model's own JSON text, valid or not."""

    id: CallId
    name: str
    arguments: str


class Picture(Value):
    """An image as bytes that a model can be shown."""

    media_type: str
    base64: str


class ToolResult(Value):
    """What the model reads about a call. A failure is a result, too."""

    text: str
    failed: bool = False
    pictures: tuple[Picture, ...] = ()
    reason: str = ""
    """Why it failed, for people, where `text` has more than that or is written for the model alone."""


class FileUpdate(Value):
    """One file of a change. `path` is absolute, `diff` is unified."""

    path: str
    kind: Literal["add", "modify", "delete"]
    diff: str


class PlanEntry(Value):
    step: str
    status: Literal["pending", "inProgress", "completed", "failed"] = "pending"


class _Item(Value, tag_field="type"):
    """What every item has. Base classes carry required fields only."""

    id: ItemId
    step: int
    """Which model reply of the turn it belongs to; 0 is before the first."""


class UserMessage(_Item, tag="user_message", kw_only=True):
    content: tuple[UserInput, ...]
    status: ItemStatus = "completed"
    pictures: tuple[Picture, ...] = ()
    """What `localImage` inputs held when the turn started: history does not change with the file."""
    attachments: tuple[str, ...] = ()
    """What `file` inputs held when the turn started."""
    client_id: str | None = None
    """The name a client gave it, so that a submit that is sent twice counts once."""
    meta: Json = NOTHING
    by: Actor | None = None


class Citation(Value):
    """Where a part of an answer comes from, as the model service says.

    `start` and `end` count characters (code points) of the message's text; both are 0 where the service names no place.
    """

    url: str = ""
    title: str = ""
    quote: str = ""
    """The source's own words, where the service quotes them."""
    start: int = 0
    end: int = 0


class AgentMessage(_Item, tag="agent_message", kw_only=True):
    """What the model says. The text blocks that follow each other in one reply are one message."""

    text: str = ""
    status: ItemStatus = "running"
    citations: tuple[Citation, ...] = ()


class Reasoning(_Item, tag="reasoning", kw_only=True):
    text: str = ""
    summary: str = ""
    status: ItemStatus = "running"
    provider: str = ""
    opaque: Json = None
    """What the provider wants back unchanged: a signature, encrypted reasoning. Meaningless to any other provider."""
    duration_ms: int | None = None


class CommandExecution(_Item, tag="command_execution", kw_only=True):
    """A shell command, from request to exit code. Streams into `output`."""

    call_id: CallId
    command: str
    cwd: str
    status: ItemStatus = "running"
    output: str = ""
    exit_code: int | None = None
    duration_ms: int | None = None
    result: ToolResult | None = None


class FileChange(_Item, tag="file_change", kw_only=True):
    """Files added, modified, deleted. Streams the patch text into `output`."""

    call_id: CallId
    changes: tuple[FileUpdate, ...]
    status: ItemStatus = "running"
    output: str = ""
    result: ToolResult | None = None


class McpToolCall(_Item, tag="mcp_tool_call", kw_only=True):
    """A tool of an MCP server. Streams progress lines into `output`."""

    call_id: CallId
    server: str
    tool: str
    arguments: Json = None
    status: ItemStatus = "running"
    output: str = ""
    structured: Json = None
    result: ToolResult | None = None


class WebSearch(_Item, tag="web_search", kw_only=True):
    """A search the model service made itself (`opaque` is what it wants back), or one the model called for."""

    query: str
    status: ItemStatus = "running"
    provider: str = ""
    opaque: Json = None
    call_id: CallId = CallId("")
    """Empty: nobody called for it, the service made it."""
    result: ToolResult | None = None


class Plan(_Item, tag="plan", kw_only=True):
    """The agent's plan. Streams into `text`."""

    call_id: CallId
    text: str = ""
    entries: tuple[PlanEntry, ...] = ()
    status: ItemStatus = "running"
    result: ToolResult | None = None


class ToolCall(_Item, tag="tool_call", kw_only=True):
    """Any other tool. Streams into `output`."""

    call_id: CallId
    name: str
    arguments: Json = None
    status: ItemStatus = "running"
    output: str = ""
    result: ToolResult | None = None


class Artifact(_Item, tag="artifact", kw_only=True):
    """A file the agent declares as its product."""

    call_id: CallId
    path: str
    title: str = ""
    media_type: str = ""
    status: ItemStatus = "completed"
    result: ToolResult | None = None


class Compaction(_Item, tag="compaction", kw_only=True):
    """From here on the model sees `summary` instead of what came before, and what must not be lost, word for word:
    what the user said, the plan, the diffs of changed files."""

    summary: str = ""
    kept_chars: int = 200_000
    """How many characters of that are shown, at most."""
    status: ItemStatus = "running"


Item = (
    UserMessage
    | AgentMessage
    | Reasoning
    | CommandExecution
    | FileChange
    | McpToolCall
    | WebSearch
    | Plan
    | ToolCall
    | Artifact
    | Compaction
)

ToolItem = CommandExecution | FileChange | McpToolCall | WebSearch | Plan | ToolCall | Artifact
"""Items that answer a call of the model's. A `WebSearch` does so when it has a `call_id`."""

Stream = Literal["text", "summary", "output"]

STREAMS: dict[type[Item], frozenset[Stream]] = {
    UserMessage: frozenset(),
    AgentMessage: frozenset({"text"}),
    Reasoning: frozenset({"text", "summary"}),
    CommandExecution: frozenset({"output"}),
    FileChange: frozenset({"output"}),
    McpToolCall: frozenset({"output"}),
    WebSearch: frozenset(),
    Plan: frozenset({"text"}),
    ToolCall: frozenset({"output"}),
    Artifact: frozenset(),
    Compaction: frozenset({"summary"}),
}


def extended(item: Item, stream: Stream, text: str) -> Item:
    """The item with `text` added to one of its streams. A stream it does not have changes nothing."""
    if stream not in STREAMS[type(item)]:
        return item
    return replace(item, **{stream: getattr(item, stream) + text})


def closed(item: Item, status: ItemStatus) -> Item:
    """The item as it stands, no longer running."""
    return item if item.status != "running" else replace(item, status=status)


OUTPUT_HEAD = "Output of a command that I ran myself"
"""Begins a text that was added to a message and not typed: what a user's own command printed."""
NOT_RUN = "not run: nobody approved it"
"""The reason of a call whose turn ended while it waited for an approval."""
USER_DECLINED = "the user declined it"
"""The reason of a call that was refused without a word."""


def not_run(item: Item) -> Item:
    """A call that waited for an approval when its turn ended: it did nothing."""
    if not isinstance(item, ToolItem) or item.status != "running":
        return closed(item, "interrupted")
    return replace(item, status="interrupted", result=ToolResult(text=NOT_RUN, failed=True, reason=NOT_RUN))


REASON_CHARS = 2000


def reason_of(item: Item) -> str:
    """Why a tool was refused, failed or skipped, for people to read.

    Empty for whatever went well, and for a command that ran to its end: its exit code and output tell.
    """
    if not isinstance(item, ToolItem) or item.status in ("running", "completed"):
        return ""
    if item.result is None:
        return "interrupted" if item.status == "interrupted" else ""
    if item.result.reason:
        return item.result.reason
    if isinstance(item, CommandExecution) and item.exit_code is not None:
        return ""
    text = item.result.text.strip()
    return text if len(text) <= REASON_CHARS else f"{text[:REASON_CHARS]} …"
