"""The conversation, as long as it may be: only what is on the screen is drawn.

The height of a block nobody has looked at is a guess; it is corrected when the block comes into view, and the row
under the reader's eyes stays where it is. While the end is in view, the view follows the end.
"""

import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from hames.tui.blocks.block import Block
from hames.tui.lines import CONSOLE
from hames.tui.palette import Palette

FRAME_SECONDS = 1 / 20
KEPT_DRAWN = 400
"""Blocks whose lines are remembered."""
PAD = 1


class _Row:
    """A block, its place and its lines."""

    __slots__ = ("block", "gap", "height", "lines", "stale", "strips")

    def __init__(self, block: Block, gap: int, height: int) -> None:
        self.block = block
        self.gap = gap
        self.height = height
        self.lines: list[Text] | None = None
        self.stale = True
        self.strips: dict[int, tuple[Text, int, Strip]] = {}
        """By line: what it was made of, where it stood, and the strip itself, which remembers how it was painted."""


class Transcript(ScrollView, can_focus=False):
    DEFAULT_CSS = """
    Transcript {
        height: 1fr;
        background: $background;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
        scrollbar-color: $panel;
        scrollbar-color-hover: $border;
        scrollbar-color-active: $border;
    }
    """

    def __init__(self, palette: Palette) -> None:
        super().__init__(id="transcript")
        self.palette = palette
        self.following = True
        self.everything_open = False
        self._rows: list[_Row] = []
        self._index: dict[int, int] = {}
        self._tops: list[int] = [0]
        self._firm = 0
        """How many of `_tops` are right."""
        self._drawn: dict[int, None] = {}
        self._dirty: set[int] = set()
        self._timer: Timer | None = None
        self._cost_s = 0.0
        self._anchor = (0, 0)
        self._placing = False
        self._thumb = (0, 0, 0)
        self._width = 0
        self._look: tuple[Style, Color, Sequence[LineFilter]] | None = None

    # -- what is in it

    @property
    def blocks(self) -> list[Block]:
        return [row.block for row in self._rows]

    @property
    def drawn(self) -> int:
        """How many blocks have been drawn and are remembered."""
        return len(self._drawn)

    def append(self, block: Block) -> None:
        self.extend([block])

    def extend(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            before = self._rows[-1].block if self._rows else None
            gap = 0 if before is None or (before.compact and block.compact) else 1
            row = _Row(block, gap, gap + block.estimate(self._columns))
            self._index[id(block)] = len(self._rows)
            self._dirty.add(len(self._rows))
            self._rows.append(row)
        self._soon()

    def changed(self, block: Block) -> None:
        """It has something new to show."""
        number = self._index.get(id(block))
        if number is not None:
            self._dirty.add(number)
            self._soon()

    def clear(self) -> None:
        self._rows.clear()
        self._index.clear()
        self._drawn.clear()
        self._dirty.clear()
        self._tops, self._firm = [0], 0
        self._anchor = (0, 0)
        self.following = True
        self._soon()

    def repaint(self, palette: Palette) -> None:
        self.palette = palette
        self._forget()

    def open_all(self, *, everything: bool) -> None:
        self.everything_open = everything
        for row in self._rows:
            row.block.open = everything
        self._forget()

    def toggle(self, block: Block) -> None:
        block.open = not block.open
        self.changed(block)

    # -- drawing

    @property
    def _columns(self) -> int:
        return max(20, (self._width or 80) - 2 * PAD)

    def _forget(self) -> None:
        self._drawn.clear()
        for row in self._rows:
            row.lines, row.stale = None, True
            row.strips.clear()
            row.height = row.gap + row.block.estimate(self._columns)
        self._firm = 0
        self._flush()

    def _soon(self) -> None:
        if self._timer is None and self.is_attached:
            # Drawing never takes more than a quarter of the time: keys come first.
            self._timer = self.set_timer(max(FRAME_SECONDS, 3 * self._cost_s), self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        started = time.perf_counter()
        if self._dirty:
            self._firm = min(self._firm, *self._dirty)
            for number in self._dirty:
                row = self._rows[number]
                row.stale = True
                if row.lines is None:
                    row.height = row.gap + row.block.estimate(self._columns)
            self._dirty.clear()
        self._settle()
        self.refresh()
        self._cost_s = time.perf_counter() - started

    def _draw(self, number: int) -> list[Text]:
        row = self._rows[number]
        if row.lines is None or row.stale:
            row.lines = row.block.lines(self._columns, self.palette)
            row.stale = False
            self._drawn.pop(number, None)
            self._drawn[number] = None
            if row.height != row.gap + len(row.lines):
                row.height = row.gap + len(row.lines)
                self._firm = min(self._firm, number)
            while len(self._drawn) > KEPT_DRAWN:
                oldest = next(iter(self._drawn))
                del self._drawn[oldest]
                self._rows[oldest].lines = None
                self._rows[oldest].strips.clear()
        return row.lines

    def _top(self, number: int) -> int:
        """The first line of a block; `_top(len)` is the height of everything."""
        if self._firm < number:
            tops = self._tops
            del tops[self._firm + 1 :]
            for row in self._rows[self._firm : len(self._rows)]:
                tops.append(tops[-1] + row.height)
            self._firm = len(self._rows)
        return self._tops[number]

    def _settle(self) -> None:
        """Draw what is in view, correct the heights, and put the view where the reader was."""
        height, count = self.size.height, len(self._rows)
        if not count or height <= 0:
            self._place(0, 0)
            return
        if self.following:
            number, need = count, height
            while number > 0 and need > 0:
                number -= 1
                self._draw(number)
                need -= self._rows[number].height
            self._place(self._top(count), max(0, self._top(count) - height))
            return
        number, inside = self._anchor
        number = min(number, count - 1)
        need = height + inside
        last = number
        while last < count and need > 0:
            self._draw(last)
            need -= self._rows[last].height
            last += 1
        inside = min(inside, max(0, self._rows[number].height - 1))
        self._place(self._top(count), self._top(number) + inside)

    def _place(self, total: int, top: int) -> None:
        self._placing = True
        try:
            if self.virtual_size.height != total:
                # Its scrollbar is always there, so a longer text moves nothing else: no layout of the whole screen.
                self.set_reactive(Widget.virtual_size, Size(self.size.width, total))  # pyright: ignore[reportArgumentType] - a class attribute is the reactive itself
                self.scroll_y = self.validate_scroll_y(self.scroll_y)
            if round(self.scroll_y) != top:
                self.scroll_to(y=top, animate=False, immediate=True, force=True)
        finally:
            self._placing = False
        self._show_thumb()

    def _locate(self, y: int) -> tuple[int, int]:
        count = len(self._rows)
        total = self._top(count)
        if not count or y >= total:
            return max(0, count - 1), 0
        number = bisect_right(self._tops, y, 0, count + 1) - 1
        return number, y - self._tops[number]

    # -- Textual

    def on_mount(self) -> None:
        super().on_mount()
        self._soon()

    def on_resize(self, _: events.Resize) -> None:
        if self.scrollable_content_region.width != self._width:
            self._width = self.scrollable_content_region.width
            self._forget()
        else:
            self._settle()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if not self._placing and round(old_value) != round(new_value):
            self.following = new_value >= self.max_scroll_y
            self._anchor = self._locate(round(new_value))
            self._settle()
            new_value = self.scroll_y
        if not self._placing:
            self._show_thumb()
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)

    def _show_thumb(self) -> None:
        """Painting a scrollbar costs as much as painting the text: it is done when an eighth of a cell would change."""
        height, total = self.size.height, self.virtual_size.height
        share = min(1.0, height / total) if total else 1.0
        length = max(8, round(share * height * 8))
        start = round((height * 8 - length) * self.scroll_y / max(1, total - height))
        if (height, length, start) == self._thumb:
            return
        self._thumb = (height, length, start)
        bar = self.vertical_scrollbar
        bar.window_virtual_size, bar.window_size, bar.position = total, height, self.scroll_y

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._look = None

    def _looks(self) -> tuple[Style, Color, Sequence[LineFilter]]:
        # Asked for once a frame, and costly to work out.
        if self._look is None:
            self._look = self.rich_style, self.background_colors[1], self.get_line_filters()
            for row in self._rows:
                row.strips.clear()
        return self._look

    def to_end(self) -> None:
        self.following = True
        self._flush()

    def render_lines(self, crop: Region) -> list[Strip]:
        """There is no border and no padding, so a row that was painted before is handed out as it is."""
        base, background, filters = self._looks()
        first, total, width = round(self.scroll_y), self._top(len(self._rows)), self.outer_size.width
        blank = self._painted(Strip.blank(width, base), background, filters)
        strips = [
            self._line(first + y, width) if first + y < total else blank for y in range(crop.y, crop.y + crop.height)
        ]
        left, right = crop.column_span
        return strips if (left, right) == (0, width) else [strip.crop(left, right) for strip in strips]

    def render_line(self, y: int) -> Strip:
        return self.render_lines(Region(0, y, self.outer_size.width, 1))[0]

    def _line(self, at: int, width: int) -> Strip:
        base, background, filters = self._looks()
        number, inside = self._locate(at)
        row, lines = self._rows[number], self._draw(number)
        inside -= row.gap
        if inside < 0 or inside >= len(lines):
            return self._painted(Strip.blank(width, base), background, filters)
        text, selected = lines[inside], self.text_selection is not None
        kept = row.strips.get(inside)
        if kept is not None and kept[0] is text and kept[1] == at and not selected:
            return kept[2]
        strip = self._strip(text, at, base).crop_extend(0, width, base).apply_offsets(0, at)
        strip = self._painted(strip, background, filters)
        if not selected:
            row.strips[inside] = (text, at, strip)
        return strip

    def _painted(self, strip: Strip, background: Color, filters: Sequence[LineFilter]) -> Strip:
        for each in filters:
            strip = strip.apply_filter(each, background)
        return strip

    def _strip(self, text: Text, at: int, base: Style) -> Strip:
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(at)) is not None:
            start, end = span
            text = text.copy()
            end = len(text) if end == -1 else max(0, end - PAD)
            text.stylize(self.screen.get_component_rich_style("screen--selection"), max(0, start - PAD), end)
        segments = [Segment(" " * PAD, base)]
        segments += Segment.apply_style(text.render(CONSOLE, end=""), base)
        return Strip(segments)

    @property
    def allow_select(self) -> bool:
        return True

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else self._top(len(self._rows)) - 1
        rows: list[str] = []
        for y in range(first, last + 1):
            number, inside = self._locate(y)
            lines, inside = self._draw(number), inside - self._rows[number].gap
            rows.append(" " * PAD + lines[inside].plain if 0 <= inside < len(lines) else "")
        moved = Selection(
            selection.start and selection.start - (0, first), selection.end and selection.end - (0, first)
        )
        return "\n".join(row.rstrip() for row in moved.extract("\n".join(rows)).split("\n")), "\n"

    def selection_updated(self, selection: Selection | None) -> None:  # noqa: ARG002 - Textual's name
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        if not self._rows or self.text_selection is not None:
            return
        number, _ = self._locate(round(self.scroll_y) + event.y)
        if self._rows[number].block.foldable:
            self.toggle(self._rows[number].block)
