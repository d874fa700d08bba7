"""Blocks of what is said: prompts, answers, thoughts, plans, summaries and sentences of our own.

Whatever comes from a model passes through `printable` here.
"""

from rich.style import Style
from rich.text import Text

from hames.domain.display import printable, visible
from hames.protocols.flint import items as wire
from hames.tui.blocks.block import INDENT, Block, ItemBlock, bars, folded
from hames.tui.lines import cut, filled, indented, line, paragraphs, wrapped
from hames.tui.markdown import StreamingMarkdown
from hames.tui.palette import Palette
from hames.tui.people import somebody_else
from hames.tui.text import shown_input, source_lines
from hames.tui.user_shell import context_label

MESSAGE_HEAD, MESSAGE_TAIL = 8, 3
"""Lines of a long message that are shown folded."""


class UserMessageBlock(Block):
    """What the user sent, on a row of its own colour. The output of the user's own commands is a label until opened."""

    foldable = True

    def __init__(self, item: wire.UserMessageItem) -> None:
        super().__init__(item.id)
        self._who = somebody_else(item.by)
        self._text = printable(shown_input(item.content))
        self._short = printable(shown_input([_labelled(part) for part in item.content]))

    def size(self) -> int:
        return min(len(self._short), 80 * (MESSAGE_HEAD + MESSAGE_TAIL + 1))

    def draw(self, width: int, palette: Palette) -> list[Text]:
        text = self._text if self.open else self._short
        rows = indented(paragraphs(text, palette.strong, width - 3), line(("› ", palette.accent)))
        if not self.open:
            rows = folded(rows, head=MESSAGE_HEAD, tail=MESSAGE_TAIL, palette=palette)
        if self._who:
            rows = [*rows, *indented(paragraphs(self._who, palette.quiet, width - 3), line(("  ", palette.quiet)))]
        return [filled(row, width, palette.prompt) for row in rows]


def _labelled(part: wire.UserInput) -> wire.UserInput:
    if isinstance(part, wire.TextInput) and (label := context_label(part.text)) is not None:
        return wire.TextInput(text=label)
    return part


class AgentMessageBlock(Block):
    def __init__(self, item: wire.AgentMessageItem) -> None:
        super().__init__(item.id)
        self._markdown = StreamingMarkdown(indent=INDENT)
        self._sources: list[str] = []
        self.finish(item)

    def finish(self, item: wire.ThreadItem) -> None:
        if not isinstance(item, wire.AgentMessageItem):
            return
        self._markdown.replace(printable(item.text))
        self._sources = [visible(source) for source in source_lines(item)]

    def add(self, text: str) -> None:
        self._markdown.add(self.pieces.feed(text))

    def size(self) -> int:
        return len(self._markdown.source) + 40 * self._markdown.source.count("\n") + 80 * len(self._sources)

    def draw(self, width: int, palette: Palette) -> list[Text]:
        rows = self._markdown.lines(width, palette) or [line(("  …", palette.faint))]
        if not self._sources:
            return rows
        sources = [row for words in self._sources for row in paragraphs(words, palette.quiet, width - INDENT)]
        return [*rows, Text(""), *indented(sources, line(("  ", palette.faint)))]


class ThinkingBlock(Block):
    foldable = True

    def __init__(self, item: wire.ReasoningItem) -> None:
        super().__init__(item.id)
        self._text = ""
        self._done = False
        self._read(item)

    def _read(self, item: wire.ReasoningItem) -> None:
        said = [part for part in (item.summary, item.content) if isinstance(part, str) and part]
        self._text = printable("\n\n".join(said)) or self._text

    def finish(self, item: wire.ThreadItem) -> None:
        if not isinstance(item, wire.ReasoningItem):
            return
        self._read(item)
        self._done = True

    def add(self, text: str) -> None:
        self._text += self.pieces.feed(text)

    def draw(self, width: int, palette: Palette) -> list[Text]:
        quiet = palette.quiet + Style(italic=True)
        mark = line(("∴ ", palette.faint))
        if self.open:
            return indented(paragraphs(self._text.strip(), quiet, width - INDENT), mark)
        said = self._text.strip() or "thinking"
        shown = said if self._done else said[-max(1, width - 8) :]
        return indented([Text(cut(shown, width - 4), quiet)], mark)


class PlanBlock(ItemBlock[wire.PlanItem]):
    def __init__(self, item: wire.PlanItem) -> None:
        super().__init__(item)
        self._streamed = printable(item.text)

    def finish(self, item: wire.ThreadItem) -> None:
        super().finish(item)
        self._streamed = printable(self._item.text)

    def add(self, text: str) -> None:
        self._streamed += self.pieces.feed(text)

    def size(self) -> int:
        return 80 * (1 + len(self._item.entries or ()))

    def draw(self, width: int, palette: Palette) -> list[Text]:
        entries = self._item.entries or []
        if not entries:
            return indented(paragraphs(self._streamed, palette.text, width - INDENT), line(("☰ ", palette.accent)))
        done = sum(entry.status == "completed" for entry in entries)
        head = line(("☰ ", palette.accent), ("Plan", palette.strong), (f"  {done} of {len(entries)}", palette.quiet))
        return [head, *plan_lines(entries, width, palette)]


def plan_lines(entries: list[wire.PlanEntry], width: int, palette: Palette) -> list[Text]:
    marks = {
        "completed": ("✓ ", palette.good, palette.quiet),
        "inProgress": ("→ ", palette.warn, palette.strong),
        "failed": ("✗ ", palette.bad, palette.text),
        "pending": ("· ", palette.faint, palette.text),
    }
    rows: list[Text] = []
    for entry in entries:
        mark, style, words = marks[entry.status]
        step = wrapped(Text(printable(entry.step), words), width - 4)
        rows += indented(step, line(("  ", style), (mark, style)))
    return rows


COMPACTED = "Conversation compacted: the model now sees a summary instead of the messages above"
COMPACTED_SHORT = "Compacted: the model sees a summary"


class CompactionBlock(Block):
    foldable = True

    def __init__(self, item: wire.ContextCompactionItem) -> None:
        super().__init__(item.id)
        self._summary = ""
        self._running = True
        self.finish(item)

    def finish(self, item: wire.ThreadItem) -> None:
        if not isinstance(item, wire.ContextCompactionItem):
            return
        self._summary = printable(item.summary) if isinstance(item.summary, str) else ""
        self._running = item.status == "inProgress"

    def add(self, text: str) -> None:
        self._summary += self.pieces.feed(text)

    def draw(self, width: int, palette: Palette) -> list[Text]:
        word = " compacting the conversation … " if self._running else f" {COMPACTED} "
        if len(word) > width - 4:
            word = word if self._running else f" {COMPACTED_SHORT} "
        side = max(2, (width - len(word)) // 2)
        head = line(("─" * side, palette.faint), (word, palette.quiet), ("─" * side, palette.faint))
        return (
            [head, *indented(paragraphs(self._summary, palette.quiet, width - 4), *bars(palette))]
            if self.open
            else [head]
        )


class NoteBlock(Block):
    """A sentence of our own or of the provider's: a failed turn, a notice, a hint."""

    compact = True

    def __init__(self, words: str, *, meaning: str = "quiet", mark: str = "") -> None:
        """Without a `mark` of its own, only what needs attention carries an exclamation mark."""
        super().__init__("")
        self._words = printable(words)
        self._meaning = meaning
        self._mark = mark or {"bad": "✗", "warn": "!"}.get(meaning, "·")

    def size(self) -> int:
        return len(self._words)

    def draw(self, width: int, palette: Palette) -> list[Text]:
        style = {"bad": palette.bad, "warn": palette.warn, "good": palette.good}.get(self._meaning, palette.quiet)
        return indented(paragraphs(self._words, style, width - INDENT), line((f"{self._mark} ", style)))
