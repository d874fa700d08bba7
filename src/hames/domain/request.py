"""What goes to a model and what comes back, in no provider's dialect."""

from typing import Literal

from hames.domain.items import Call, Citation, Picture
from hames.domain.json import Json
from hames.domain.usage import Usage
from hames.domain.value import Value


class TextBlock(Value, tag="text"):
    text: str


class PictureBlock(Value, tag="picture"):
    """By bytes, or by URL."""

    picture: Picture | None = None
    url: str = ""


class ReasoningBlock(Value, tag="reasoning"):
    """Sent back only to the provider that made it, exactly as it came."""

    provider: str
    text: str
    opaque: Json


class SearchBlock(Value, tag="search"):
    """A web search the provider made itself; sent back only to that provider."""

    provider: str
    opaque: Json


class CallBlock(Value, tag="call"):
    call: Call


class ResultBlock(Value, tag="result"):
    call: Call
    text: str
    failed: bool = False
    pictures: tuple[Picture, ...] = ()


Block = TextBlock | PictureBlock | ReasoningBlock | SearchBlock | CallBlock | ResultBlock


class Message(Value):
    """Roles alternate; every `CallBlock` has its `ResultBlock` in the next message."""

    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]


class OfferedTool(Value):
    name: str
    description: str
    schema: Json
    grammar: str = ""
    """Where the service can, the model writes plain text by this grammar (Lark). Its arguments are then an object with
    that text as `FREEFORM`."""


FREEFORM = "input"


class ModelRequest(Value):
    model: str
    """The provider's own name for it."""
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[OfferedTool, ...] = ()
    max_tokens: int = 4096
    options: dict[str, str] = {}
    cache_key: str = ""
    """Requests with the same key share a prefix."""


class TextDelta(Value):
    """`block` tells blocks of one reply apart."""

    block: int
    text: str


class TextEnded(Value):
    """`citations` count from the beginning of the block. With `whole` the message ends here, and the next text block is
    another message."""

    block: int
    citations: tuple[Citation, ...] = ()
    whole: bool = False


class ReasoningDelta(Value):
    block: int
    text: str


class SummaryDelta(Value):
    block: int
    text: str


class ReasoningEnded(Value):
    block: int
    opaque: Json = None


class ToolCallStarted(Value):
    """Shown early; nothing runs before `ToolCallEnded`."""

    block: int
    name: str


class ToolCallDelta(Value):
    block: int
    text: str


class ToolCallEnded(Value):
    block: int
    call: Call


class SearchStarted(Value):
    """The service searches the web."""

    block: int
    query: str


class SearchEnded(Value):
    block: int
    query: str
    opaque: Json = None
    failed: bool = False


class UsageSeen(Value):
    """The tokens of this call so far; a later one replaces it."""

    usage: Usage


class ProviderNotice(Value):
    """Something the service said beside the answer: rate limits, a retry."""

    name: str
    message: str = ""
    data: Json = None


StopReason = Literal["end", "tools", "max_tokens", "refusal", "pause", "context_exceeded", "unknown"]


class ReplyEnded(Value):
    """`word` is the service's own."""

    reason: StopReason
    word: str = ""


ModelEvent = (
    TextDelta
    | TextEnded
    | ReasoningDelta
    | SummaryDelta
    | ReasoningEnded
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallEnded
    | SearchStarted
    | SearchEnded
    | UsageSeen
    | ProviderNotice
    | ReplyEnded
)
