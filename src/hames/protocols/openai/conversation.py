"""A conversation as a client of OpenAI's APIs sends it: whole with each request, or its newest part.

The client knows what was said, and not the tools that we used. So a thread is found by what was said, without blanks:
clients trim texts, and join messages or cut them.
"""

import hashlib
from collections.abc import Iterable, Sequence

from hames.domain.commands import PastMessage, PastTurn
from hames.domain.ids import ThreadId, TurnId
from hames.domain.items import AgentMessage, ImageInput, TextInput, ToolResult, UserInput, UserMessage
from hames.domain.state import ThreadState, Turn, is_voided
from hames.domain.value import Value

META = "openai"
"""The member of a thread's `meta` that has the mark of its first message."""


class UserSays(Value):
    content: tuple[UserInput, ...]


class AssistantSays(Value):
    text: str


class AssistantCalls(Value):
    """A call of a tool that the client carries out."""

    call_id: str
    name: str
    arguments: str


class ToolSays(Value):
    call_id: str
    result: ToolResult


class UserDecides(Value):
    approval_id: str
    approve: bool
    reason: str = ""


class ItemReference(Value):
    """An item of an earlier response, by the id that it had there. It names the thread as well."""

    name: str


Entry = UserSays | AssistantSays | AssistantCalls | ToolSays | UserDecides | ItemReference


class Conversation(Value):
    """`earlier` is what was there when the assistant last spoke, `new` is what came since."""

    earlier: tuple[Entry, ...] = ()
    new: tuple[Entry, ...] = ()

    @property
    def content(self) -> tuple[UserInput, ...]:
        return tuple(part for entry in self.new if isinstance(entry, UserSays) for part in entry.content)

    @property
    def results(self) -> dict[str, ToolResult]:
        return {entry.call_id: entry.result for entry in self.new if isinstance(entry, ToolSays)}

    @property
    def decisions(self) -> tuple[UserDecides, ...]:
        return tuple(entry for entry in self.new if isinstance(entry, UserDecides))

    @property
    def reference(self) -> str:
        """The last item that is named and not sent."""
        return next((one.name for one in reversed(self.earlier) if isinstance(one, ItemReference)), "")

    @property
    def key(self) -> str:
        """Names everything that came before the new part."""
        return _hash(_marks(self.earlier))

    @property
    def first(self) -> str:
        """Names the first message of the user."""
        return _hash(_marks((*self.earlier, *self.new))[:1])

    def key_after(self, text: str) -> str:
        """The `key` of a request that goes on after this one was answered with `text`."""
        return _hash(_marks((*self.earlier, *self.new, AssistantSays(text=text))))

    @property
    def past(self) -> tuple[PastTurn, ...]:
        """The earlier part as turns of another program."""
        messages: list[PastMessage] = []
        for entry in self.earlier:
            match entry:
                case UserSays(content=content):
                    kept = tuple(part for part in content if isinstance(part, TextInput | ImageInput))
                    messages.append(PastMessage(role="user", content=kept))
                case AssistantSays(text=text):
                    messages.append(PastMessage(role="assistant", content=(TextInput(text=text),)))
                case AssistantCalls(name=name, arguments=arguments):
                    text = f"[called the tool {name} with {arguments}]"
                    messages.append(PastMessage(role="assistant", content=(TextInput(text=text),)))
                case ToolSays(result=result):
                    text = f"[result of the tool call: {result.text}]"
                    messages.append(PastMessage(role="user", content=(TextInput(text=text),)))
                case UserDecides() | ItemReference():
                    pass
        return (PastTurn(messages=tuple(messages)),) if messages else ()


def split(entries: Sequence[Entry]) -> Conversation:
    """Cuts a conversation behind the last word of the assistant."""
    spoken = (AssistantSays, AssistantCalls, ItemReference)
    end = max((number for number, one in enumerate(entries, 1) if isinstance(one, spoken)), default=0)
    return Conversation(earlier=tuple(entries[:end]), new=tuple(entries[end:]))


def conversation_turn(state: ThreadState, conversation: Conversation) -> TurnId | None:
    """The turn of a thread after which the new part of a conversation comes. None: it is another conversation."""
    wanted = _marks(conversation.earlier)
    entries: list[Entry] = []
    for turn in state.turns:
        entries += _said_in(turn)
        if _marks(entries) == wanted:
            return turn.id
    return None


def turn_text(turn: Turn, first_item: int = 0) -> str:
    """All that the agent said in a turn."""
    said = [one for one in turn.items[first_item:] if isinstance(one, AgentMessage) and not is_voided(turn, one)]
    return "\n\n".join(one.text for one in said if one.text)


def _said_in(turn: Turn) -> list[Entry]:
    entries: list[Entry] = []
    for item in turn.items:
        if isinstance(item, UserMessage):
            entries.append(UserSays(content=item.content))
        elif isinstance(item, AgentMessage) and not is_voided(turn, item):
            entries.append(AssistantSays(text=item.text))
    return entries


def _marks(entries: Iterable[Entry]) -> list[str]:
    """Who said what, in a row; what one side says without a break is one."""
    marks: list[str] = []
    for entry in entries:
        match entry:
            case UserSays(content=content):
                texts = "".join(part.text for part in content if isinstance(part, TextInput))
                mark = "u" + "".join(texts.split()) + "\0" * sum(not isinstance(part, TextInput) for part in content)
            case AssistantSays(text=text):
                mark = "a" + "".join(text.split())
            case _:
                continue
        if len(mark) == 1:
            continue
        if marks and marks[-1][0] == mark[0]:
            marks[-1] += mark[1:]
        else:
            marks.append(mark)
    return marks


def _hash(marks: Iterable[str]) -> str:
    return hashlib.sha256("\1".join(marks).encode(errors="surrogatepass")).hexdigest()[:32]


def is_candidate(meta: object, first: str) -> bool:
    """Whether a thread in a list may be the one of a conversation."""
    match meta:
        case {"openai": {"first": str(mark)}}:
            return mark == first
        case _:
            return False


def response_id(thread_id: ThreadId, turn_id: TurnId, first_item: int) -> str:
    """Names a response for good: nothing about it has to be remembered."""
    return f"resp_{thread_id}.{turn_id}.{first_item}"


def item_name(kind: str, thread_id: ThreadId | None, name: str) -> str:
    """The id of an output item. A client may send it in the place of the item (`item_reference`)."""
    return f"{kind}_{thread_id or ''}.{name}"


def read_item_name(name: str) -> tuple[ThreadId, str] | None:
    kind, _, rest = name.partition("_")
    thread_id, _, item = rest.partition(".")
    return (ThreadId(thread_id), item) if kind and thread_id and item else None


def referenced_turn(state: ThreadState, name: str) -> TurnId | None:
    """The turn that has this item, by the item's id or by that of its call."""
    for turn in reversed(state.turns):
        if any(name in (item.id, getattr(item, "call_id", None)) for item in turn.items):
            return turn.id
    return None


def read_response_id(name: str) -> tuple[ThreadId, TurnId, int] | None:
    thread_id, _, rest = name.removeprefix("resp_").partition(".")
    turn_id, _, first = rest.partition(".")
    if not name.startswith("resp_") or not thread_id or not turn_id or not (first.isascii() and first.isdigit()):
        return None
    return ThreadId(thread_id), TurnId(turn_id), int(first[:9])
