"""What every block of the transcript is: something that grows, folds, and knows its lines at a width."""

from typing import Generic, TypeVar

from rich.text import Text

from hames.domain.display import PrintableStream, visible
from hames.protocols.flint.items import ThreadItem
from hames.tui.lines import indented, line, paragraphs
from hames.tui.palette import Palette

INDENT = 2
MOST_UNDONE = 6
"""Files that are named when a turn's changes were undone."""


class Block:
    """One item on the screen. Subclasses draw; the transcript keeps what was drawn."""

    compact = False
    """Whether there is no empty line between this block and another compact one."""
    foldable = False

    def __init__(self, item_id: str) -> None:
        self.item_id = item_id
        self.open = False
        """Unfolded by hand."""
        self.waiting = False
        """Whether it waits for an approval."""
        self.pieces = PrintableStream()
        """What streams into it, made safe to show."""
        self.undone: tuple[str, ...] = ()
        """Of the last block of a turn: the files of which the turn's changes are taken back."""

    def draw(self, width: int, palette: Palette) -> list[Text]:
        """Its lines, at least one."""
        raise NotImplementedError

    def lines(self, width: int, palette: Palette) -> list[Text]:
        """What it shows, and below it whether the changes of its turn were undone."""
        rows = self.draw(width, palette)
        if not self.undone:
            return rows
        more = f" and {len(self.undone) - MOST_UNDONE} more" if len(self.undone) > MOST_UNDONE else ""
        words = f"Changes undone: {visible(', '.join(self.undone[:MOST_UNDONE]))}{more}"
        return [*rows, *indented(paragraphs(words, palette.warn, width - INDENT), line(("↶ ", palette.warn)))]

    def size(self) -> int:
        """About how many characters it shows, for a guess at its height before it is drawn."""
        return 80

    def add(self, text: str) -> None:
        """A piece of what streams into it."""

    def finish(self, item: ThreadItem) -> None:
        """The item's last word, which counts."""

    def estimate(self, width: int) -> int:
        return 1 + self.size() // max(1, width)


Shown = TypeVar("Shown", bound=ThreadItem)


class ItemBlock(Block, Generic[Shown]):
    """A block that shows an item as it is now."""

    def __init__(self, item: Shown) -> None:
        super().__init__(item.id)
        self._item = item

    def finish(self, item: ThreadItem) -> None:
        if isinstance(item, type(self._item)):
            self._item = item


def folded(rows: list[Text], *, head: int, tail: int, palette: Palette, unit: str = "lines") -> list[Text]:
    """The first and the last rows, and how many are between them."""
    hidden = len(rows) - head - tail
    if hidden <= 1:
        return rows
    words = line((f"… {hidden} more {unit} (click, or ctrl+o for all)", palette.faint))
    return [*rows[:head], words, *(rows[-tail:] if tail else [])]


def bars(palette: Palette) -> tuple[Text, Text]:
    """Before the first row and before the others of what is set in below a head."""
    bar = line(("  │ ", palette.faint))
    return bar, bar
