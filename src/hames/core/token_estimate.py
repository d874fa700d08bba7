"""How large a request is, in characters and in tokens.

Tokens are estimated: the last reply said how many there were, and what came since is counted in characters.
"""

from collections.abc import Iterable

import msgspec

from hames.domain import request
from hames.domain.models import ModelCard

CHARS_PER_TOKEN = 3.5
"""Of code and English, for a model that has not said how it counts."""
MOST_CHARS_PER_TOKEN = 6.0
"""A service that counts fewer tokens than this miscounts."""
PICTURE_CHARS = 5_600
BLOCK_CHARS = 40
"""What a block costs beside its text."""
FULL = 0.8
"""How much of the window may be used before room is made."""
MOST_TOKENS = 300_000
"""However large the window: beyond this, models answer worse, and every step costs more."""


def default_limit(card: ModelCard) -> int:
    """From how many tokens on a conversation is shortened, unless the user has set it."""
    return min(int(card.context_window * FULL), MOST_TOKENS)


def messages_size(messages: Iterable[request.Message]) -> int:
    return sum(block_size(block) for message in messages for block in message.blocks)


def tools_size(tools: Iterable[request.OfferedTool]) -> int:
    return sum(len(tool.name) + len(tool.description) + len(msgspec.json.encode(tool.schema)) for tool in tools)


def block_size(block: request.Block) -> int:
    match block:
        case request.TextBlock(text=text):
            return len(text) + BLOCK_CHARS
        case request.PictureBlock():
            return PICTURE_CHARS
        case request.ReasoningBlock(text=text, opaque=opaque):
            return len(text) + len(msgspec.json.encode(opaque)) + BLOCK_CHARS
        case request.SearchBlock(opaque=opaque):
            return len(msgspec.json.encode(opaque)) + BLOCK_CHARS
        case request.CallBlock(call=call):
            return len(call.arguments) + len(call.name) + BLOCK_CHARS
        case request.ResultBlock(text=text, pictures=pictures):
            return len(text) + PICTURE_CHARS * len(pictures) + BLOCK_CHARS


class ContextGauge:
    """How full the window of a thread is. It learns from the counts of the model service while the thread is loaded."""

    def __init__(self) -> None:
        self.chars_per_token = CHARS_PER_TOKEN
        self.refused_at: int | None = None
        """The smallest request, in our tokens, that the service found too long."""
        self.told_nearly_full = False
        """The model knows that its context is about to be shortened."""
        self.fixed_chars = 0
        """Of the system prompt and the tools, in the last request."""
        self.tools_chars = 0
        self._asked_chars = 0
        self._sized: tuple[Iterable[request.Message] | None, int] = None, 0
        """The last messages that were measured, and their size."""
        self._replied = False

    def measure(self, system: str, tools: Iterable[request.OfferedTool]) -> None:
        """Called before the first request of a step, with what stands before the conversation."""
        self.tools_chars = tools_size(tools)
        self.fixed_chars = len(system) + self.tools_chars

    def asked(self, messages: Iterable[request.Message]) -> None:
        """Called with each request."""
        self._asked_chars = self.fixed_chars + self._size(messages)
        self._replied = False

    @property
    def asked_tokens(self) -> int:
        """An estimate for the last request."""
        return round(self._asked_chars / self.chars_per_token)

    def replied(self, input_tokens: int) -> None:
        """Called with the service's own count of the tokens of that request."""
        if input_tokens > 0:
            self._replied = True
            if self._asked_chars > 2_000:  # a short request says little about long ones
                self.chars_per_token = min(max(self._asked_chars / input_tokens, 1.0), 5.0)

    def tokens(self, messages: Iterable[request.Message], last_tokens: int = 0) -> int:
        """An estimate for the next request. `last_tokens`: what the last one had with its reply, 0 if unknown."""
        chars = self.fixed_chars + self._size(messages)
        if last_tokens and self._replied:
            grown = last_tokens + max(0, round((chars - self._asked_chars) / self.chars_per_token))
            return max(grown, round(chars / MOST_CHARS_PER_TOKEN))
        return max(last_tokens, round(chars / self.chars_per_token))

    def _size(self, messages: Iterable[request.Message]) -> int:
        if self._sized[0] is not messages:
            self._sized = messages, messages_size(messages)
        return self._sized[1]

    def refused(self, messages: Iterable[request.Message]) -> None:
        size = self.tokens(messages)
        self.refused_at = min(size, self.refused_at or size)
