"""Measures what fills the context window of a thread's model, for `/context`."""

from collections import Counter

from hames.core.context import SUMMARY, Memory, messages
from hames.core.token_estimate import ContextGauge, block_size, default_limit
from hames.domain.context_report import ContextPart, ContextReport
from hames.domain.items import Compaction
from hames.domain.models import ModelCard
from hames.domain.request import Block, CallBlock, Message, PictureBlock, ReasoningBlock, ResultBlock, TextBlock
from hames.domain.situation import NOTE_TAGS
from hames.domain.state import ThreadState


def window_report(
    state: ThreadState, memory: Memory, gauge: ContextGauge, card: ModelCard, compact_at: int
) -> ContextReport:
    chars, counts = Counter[str](), Counter[str]()
    shown = messages(state, memory)
    for message in shown:
        for block in message.blocks:
            name = _name(message, block)
            chars[name] += block_size(block)
            counts[name] += 1
    chars["instructions"] = gauge.fixed_chars - gauge.tools_chars
    chars["tools"] = gauge.tools_chars
    parts = [
        ContextPart(name=name, tokens=round(size / gauge.chars_per_token), count=counts[name])
        for name, size in chars.most_common()
        if size
    ]
    return ContextReport(
        tokens=gauge.tokens(shown, state.last_usage.context_tokens),
        limit=compact_at or default_limit(card),
        window=card.context_window,
        parts=tuple(parts),
        shortened=_shortened(state),
    )


def _name(message: Message, block: Block) -> str:
    match block:
        case TextBlock(text=text) if message.role == "user":
            if text.startswith(SUMMARY):
                return "summary"
            return "situation and notes" if text.startswith(NOTE_TAGS) else "user messages"
        case TextBlock():
            return "answers"
        case ReasoningBlock():
            return "reasoning"
        case CallBlock():
            return "tool calls"
        case ResultBlock():
            return "tool results"
        case PictureBlock():
            return "pictures"
        case _:
            return "web searches"


def _shortened(state: ThreadState) -> tuple[str, ...]:
    words: list[str] = []
    summaries = [
        item
        for turn in state.turns
        for item in turn.items
        if isinstance(item, Compaction) and item.status == "completed"
    ]
    if summaries:
        words.append("everything before the last summary, except what you said, the plan and the diffs")
    if state.trimmed is not None:
        words.append(f"old tool results but the last {state.trimmed.results}")
        if state.trimmed.max_chars:
            words.append(f"the middle of old texts longer than {state.trimmed.max_chars:,} characters")
    return tuple(words)
