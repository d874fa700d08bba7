"""Items in flint's format.

The union is open: a client keeps what it does not know (`UnknownItem`) and shows it as
a tool call. `toolCall`, `artifact` and `contextCompaction` are ours; the rest is the specification's, but for
`reason` (why a tool was refused, failed or skipped) and `outcome`, which are ours on every item that is a tool's.
"""

from typing import Literal, get_args

import msgspec
from msgspec import UNSET

from hames.domain.actors import Actor
from hames.domain.json import Json
from hames.protocols.flint.wire import ItemStatusWord, Maybe, OutcomeWord, Wire


class TextInput(Wire, tag_field="type", tag="text"):
    text: str


class ImageInput(Wire, tag_field="type", tag="image"):
    """By http(s) or `data:` URL."""

    url: str


class LocalImageInput(Wire, tag_field="type", tag="localImage"):
    path: str


class FileInput(Wire, tag_field="type", tag="file"):
    """A file that the prompt refers to; the model gets its text."""

    path: str


UserInput = TextInput | ImageInput | LocalImageInput | FileInput


class UserMessageItem(Wire, tag_field="type", tag="userMessage"):
    id: str
    content: list[UserInput]
    client_id: str | None = None
    by: Actor | Maybe = UNSET
    """Who wrote it, and from where. An addition to the specification."""


class CitationMember(Wire):
    """A source that an answer names. `start` and `end` count characters (Unicode code points) of the item's text.

    `quote` is what the service quotes of the source. What the service does not say is left out.
    """

    url: str | Maybe = UNSET
    title: str | Maybe = UNSET
    quote: str | Maybe = UNSET
    start: int = 0
    end: int = 0


class AgentMessageItem(Wire, tag_field="type", tag="agentMessage"):
    """`citations` and `voided` are additions to the specification."""

    id: str
    text: str
    citations: list[CitationMember] | Maybe = UNSET
    voided: bool | Maybe = UNSET
    """The reply broke off and was asked for again: the model was not shown this."""


class ReasoningItem(Wire, tag_field="type", tag="reasoning"):
    id: str
    summary: str | Maybe = UNSET
    content: str | Maybe = UNSET
    voided: bool | Maybe = UNSET


class CommandAction(Wire):
    """What a command does. Always unknown: Hames does not classify commands here."""

    type: Literal["unknown"]
    command: str


class CommandExecutionItem(Wire, tag_field="type", tag="commandExecution"):
    id: str
    command: str
    cwd: str
    status: ItemStatusWord
    command_actions: list[CommandAction] = []
    exit_code: int | Maybe = UNSET
    aggregated_output: str | Maybe = UNSET
    duration_ms: int | Maybe = UNSET
    reason: str | Maybe = UNSET
    outcome: OutcomeWord | Maybe = UNSET


class FileUpdateChange(Wire):
    """`path` is absolute, `diff` is unified."""

    path: str
    kind: Literal["add", "modify", "delete"]
    diff: str


class FileChangeItem(Wire, tag_field="type", tag="fileChange"):
    id: str
    changes: list[FileUpdateChange]
    status: ItemStatusWord
    reason: str | Maybe = UNSET
    outcome: OutcomeWord | Maybe = UNSET


class McpToolCallItem(Wire, tag_field="type", tag="mcpToolCall"):
    id: str
    server: str
    tool: str
    status: Literal["inProgress", "completed", "failed"]
    arguments: Json = UNSET
    result: Json = UNSET
    error: str | Maybe = UNSET
    """Why it was refused or failed: here the specification has a place for it."""
    outcome: OutcomeWord | Maybe = UNSET


class WebSearchItem(Wire, tag_field="type", tag="webSearch"):
    """`status` is an addition to the specification."""

    id: str
    query: str
    status: ItemStatusWord | Maybe = UNSET
    reason: str | Maybe = UNSET
    outcome: OutcomeWord | Maybe = UNSET
    voided: bool | Maybe = UNSET


class PlanEntry(Wire):
    step: str
    status: Literal["pending", "inProgress", "completed", "failed"]


class PlanItem(Wire, tag_field="type", tag="plan"):
    id: str
    text: str
    entries: list[PlanEntry] | Maybe = UNSET


class ToolCallItem(Wire, tag_field="type", tag="toolCall"):
    """A tool without an item type of its own: read, grep, glob, …"""

    id: str
    name: str
    status: ItemStatusWord
    arguments: Json = UNSET
    result: str | Maybe = UNSET
    reason: str | Maybe = UNSET
    outcome: OutcomeWord | Maybe = UNSET


class ArtifactItem(Wire, tag_field="type", tag="artifact"):
    """A file the agent declares as its product."""

    id: str
    path: str
    status: ItemStatusWord
    title: str | Maybe = UNSET
    media_type: str | Maybe = UNSET
    reason: str | Maybe = UNSET
    outcome: OutcomeWord | Maybe = UNSET


class ContextCompactionItem(Wire, tag_field="type", tag="contextCompaction"):
    """From here on the model sees `summary` instead of what came before."""

    id: str
    status: ItemStatusWord
    summary: str | Maybe = UNSET


class UnknownItem(Wire, tag_field="type", tag="unknown"):
    """An item of a type that this version does not know, complete. Only the Python client uses it; it is never sent."""

    id: str
    kind: str
    """Its own `type`."""
    members: dict[str, Json]

    @property
    def text(self) -> str:
        """Whatever it has to say for itself."""
        for name in ("text", "result", "output", "aggregatedOutput", "summary", "content", "query", "name", "tool"):
            value = self.members.get(name)
            if isinstance(value, str) and value:
                return value
        return ""


KnownItem = (
    UserMessageItem
    | AgentMessageItem
    | ReasoningItem
    | CommandExecutionItem
    | FileChangeItem
    | McpToolCallItem
    | WebSearchItem
    | PlanItem
    | ToolCallItem
    | ArtifactItem
    | ContextCompactionItem
)

ThreadItem = KnownItem | UnknownItem

ToolItem = CommandExecutionItem | FileChangeItem | McpToolCallItem | WebSearchItem | ToolCallItem | ArtifactItem
"""Items that may have been refused, failed or skipped."""

TYPES: frozenset[str] = frozenset(str(kind.__struct_config__.tag) for kind in get_args(KnownItem))


def reason_of(item: ThreadItem) -> str:
    """Why it was refused, failed or skipped; nothing for an item that went well, and for one that does not say."""
    match item:
        case McpToolCallItem(error=str(why)):
            return why
        case CommandExecutionItem() | FileChangeItem() | WebSearchItem() | ToolCallItem() | ArtifactItem():
            return item.reason if isinstance(item.reason, str) else ""
        case _:
            return ""


def read_item(value: Json) -> ThreadItem:
    """Raises nothing: what cannot be read is kept as it is.

    >>> read_item({"type": "agentMessage", "id": "i1", "text": "Hello"}).text
    'Hello'
    >>> read_item({"type": "hologram", "id": "i2", "text": "Boo"}).text
    'Boo'
    """
    members: dict[str, Json] = value if isinstance(value, dict) else {"value": value}
    if members.get("type") in TYPES:
        try:
            return msgspec.convert(members, KnownItem)
        except msgspec.ValidationError:
            pass
    return UnknownItem(id=str(members.get("id", "")), kind=str(members.get("type", "")), members=members)
