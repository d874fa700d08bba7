"""Where prompts are typed: Enter sends, Shift+Enter or Ctrl+J breaks the line, the arrows walk the history.

A long pasted text is one label here, and a joined emoji is one character: the cursor is never inside either, and
both are deleted as a whole.
"""

import time
import unicodedata
from collections.abc import Callable, Sequence

from rich.cells import split_graphemes
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option
from textual.widgets.text_area import Edit, EditResult, Location, Selection

from hames.domain.display import printable, visible
from hames.tui.completing import (
    CompletionQuery,
    file_mention,
    pasted_picture,
    rank_matches,
    replace_word,
    word_to_complete,
)
from hames.tui.lines import cut
from hames.tui.pastes import Pastes
from hames.tui.prompt_history import PromptHistory

NEWLINES = ("shift+enter", "ctrl+j", "alt+enter", "newline")
MOST_FILES_OFFERED = 50
SHOWN_SUGGESTIONS = 8
EDITOR_PREFIX, EDITOR_KEY = "ctrl+x", "ctrl+e"
SHELL_TITLE = "Shell command: runs as you, outside the sandbox"


class Suggestions(OptionList, can_focus=False):
    """What the word may become. The keys stay with the composer."""

    DEFAULT_CSS = """
    Suggestions {
        display: none; height: auto; max-height: 9; border: none; padding: 0 2; background: $surface;
        scrollbar-size-vertical: 1; border-subtitle-color: $text-muted; border-subtitle-align: left;
    }
    Suggestions > .option-list--option-highlighted { background: $primary 30%; color: $foreground; text-style: bold; }
    Suggestions.-long { border-bottom: blank; }
    """

    def __init__(self) -> None:
        super().__init__(id="suggestions")
        self.names: list[str] = []

    def offer(self, names: Sequence[str], describe: Callable[[str], str], *, mark: str = "") -> None:
        self.names = list(names)
        self.display = bool(names)
        self.clear_options()
        width = max((len(visible(name)) for name in names), default=0) + len(mark) + 2
        room = max(10, self.app.size.width - width - 6)
        for name in names:
            row = Text(f"{mark}{visible(name)}".ljust(width), no_wrap=True)
            row.append(cut(describe(name), room), "dim")
            self.add_option(Option(row))
        self.set_class(len(names) > SHOWN_SUGGESTIONS, "-long")
        self.highlighted = 0 if names else None
        self._count()

    @property
    def chosen(self) -> str | None:
        return self.names[self.highlighted] if self.names and self.highlighted is not None else None

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._count()

    def _count(self) -> None:
        """How many there are beyond what is seen."""
        above = round(self.scroll_y)
        below = max(0, len(self.names) - above - SHOWN_SUGGESTIONS)
        parts = [f"↑ {above} more"] * bool(above) + [f"↓ {below} more"] * bool(below)
        self.border_subtitle = "   ".join(parts)


class Composer(TextArea):
    DEFAULT_CSS = """
    Composer {
        height: auto; min-height: 3; max-height: 12; padding: 0 1;
        border: round $border-blurred; background: $background;
        scrollbar-size-vertical: 1; border-title-color: $warning;
    }
    Composer:focus { border: round $primary 70%; }
    Composer.-shell, Composer.-shell:focus { border: round $warning; }
    Composer .text-area--cursor-line { background: transparent; }
    """
    # Ctrl+Z suspends, as in every program of a terminal; undo is where the shell has it.
    BINDINGS = [
        Binding("ctrl+underscore,alt+z", "undo", "undo", show=False),
        Binding("ctrl+y,alt+shift+z", "redo", "redo", show=False),
    ]

    class Sent(Message):
        """`text` is the whole prompt; `typed` has labels where long texts were pasted."""

        def __init__(self, text: str, *, typed: str, queued: bool) -> None:
            super().__init__()
            self.text = text
            self.typed = typed
            self.queued = queued

    class Escaped(Message):
        pass

    class HelpWanted(Message):
        """A question mark and nothing else."""

    class EditorWanted(Message):
        """The prompt is to be written in the user's own editor."""

    def __init__(self, suggestions: Suggestions, remembered: PromptHistory) -> None:
        self._pastes = Pastes()  # asked for while the text area is being made
        super().__init__(
            id="composer",
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            placeholder="Type a message. / for commands, @ for files, ! for a shell command",
        )
        self.commands: dict[str, str] = {}
        self.files: list[str] = []
        self.typed_at = 0.0
        """When a letter was last typed, by the monotonic clock."""
        self.running = False
        self._suggestions = suggestions
        self._remembered = remembered
        self._suggested_for: tuple[str, CompletionQuery | None] = ("", None)
        self._prefixed = False
        """Whether the last key was the first of the two that open the editor."""

    def put(self, text: str) -> None:
        """Replaces the text and puts the cursor at its end."""
        self.text = self._pastes.fold(text)
        self.move_cursor(self.document.end)

    @property
    def expanded(self) -> str:
        """What would be sent."""
        return self._pastes.expand(self.text)

    # -- keys

    async def _on_key(self, event: events.Key) -> None:
        if self._takes(event.key) or self._takes_joiner(event):
            event.stop()
            event.prevent_default()
            return
        if bound := self._bindings.key_to_bindings.get(event.key):
            # Here and now: Textual would hand it to the application, and a letter typed after it could overtake it.
            event.stop()
            event.prevent_default()
            await self.run_action(bound[0].action)
            return
        if event.is_printable:
            self.typed_at = time.monotonic()
        await super()._on_key(event)

    def _takes(self, key: str) -> bool:
        self._suggest()
        choosing = self._suggestions.display
        prefixed, self._prefixed = self._prefixed, False
        match key:
            case _ if key == EDITOR_KEY and prefixed:
                self.post_message(self.EditorWanted())
            case _ if key == EDITOR_PREFIX and self.selection.is_empty:
                self._prefixed = True
            case _ if key in NEWLINES:
                self.insert("\n")
            case "enter":
                self._entered()
            case "question_mark" if not self.text:
                self.post_message(self.HelpWanted())
            case "tab" if choosing:
                self._complete()
            case "tab":
                if self.running and self.text.strip():
                    self._send(queued=True)
            case "escape" if choosing:
                self._close_suggestions()
            case "escape":
                self.post_message(self.Escaped())
            case "up" if choosing:
                self._suggestions.action_cursor_up()
            case "down" if choosing:
                self._suggestions.action_cursor_down()
            case "up" if self.cursor_at_first_line:
                return self._recall(self._remembered.older(self.expanded))
            case "down" if self.cursor_at_last_line:
                return self._recall(self._remembered.newer())
            case _:
                return False
        return True

    def _takes_joiner(self, event: events.Key) -> bool:
        """The invisible characters that join an emoji are no letters to Textual, which would drop them."""
        if event.character is None or not _is_joiner(event.character):
            return False
        start, end = self.selection
        self._replace_via_keyboard(event.character, start, end)
        return True

    def _recall(self, prompt: str | None) -> bool:
        if prompt is None:
            return False
        self.put(prompt)
        self._close_suggestions()
        return True

    def _entered(self) -> None:
        found = self._wanted()
        if self._suggestions.display and found is not None:
            chosen = self._suggestions.chosen
            self._complete()
            if found.kind == "file" or chosen is None:
                return
        elif self.text.endswith("\\"):
            self.put(self.text[:-1] + "\n")
            return
        self._send(queued=False)

    def _send(self, *, queued: bool) -> None:
        typed, text = self.text, self.expanded.strip()
        if text:
            self._remembered.add(text)
            self.text = ""
            self._close_suggestions()
            self.post_message(self.Sent(text, typed=typed, queued=queued))

    # -- completion

    def _wanted(self) -> CompletionQuery | None:
        return word_to_complete(self.text, self._offset())

    def _offset(self) -> int:
        row, column = self.cursor_location
        return sum(len(line) + 1 for line in self.text.split("\n")[:row]) + column

    def _complete(self) -> None:
        found, chosen = self._wanted(), self._suggestions.chosen
        if found is None or chosen is None:
            return
        text, cursor = replace_word(self.text, self._offset(), found, chosen)
        self.text = text
        before = text[:cursor].split("\n")
        self.move_cursor((len(before) - 1, len(before[-1])))
        self._close_suggestions()

    def complete_with(self, choice: str) -> None:
        """Takes the suggestion that was clicked."""
        if choice in self._suggestions.names:
            self._suggestions.highlighted = self._suggestions.names.index(choice)
            self._complete()

    def on_text_area_changed(self) -> None:
        self._suggest()
        shell = self.text.startswith("!")
        self.set_class(shell, "-shell")
        self.border_title = SHELL_TITLE if shell else ""

    def _suggest(self) -> None:
        """For the text as it is now: a key may come before the list has followed the letters before it."""
        found = self._wanted()
        if (self.text, found) == self._suggested_for:
            return
        self._suggested_for = self.text, found
        if found is None:
            names: list[str] = []
        elif found.kind == "command":
            names = rank_matches(found.query, self.commands, most=len(self.commands))
        else:
            names = rank_matches(found.query, self.files, most=MOST_FILES_OFFERED)
        if found is not None and names == [found.query]:
            names = []
        mark = "/" if found is not None and found.kind == "command" else "@"
        self._suggestions.offer(names, lambda name: self.commands.get(name, ""), mark=mark)

    def _close_suggestions(self) -> None:
        """Until something else is typed."""
        self._suggested_for = self.text, self._wanted()
        self._suggestions.offer((), visible)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        picture = pasted_picture(event.text)
        if picture is None:
            self.paste_text(printable(event.text))
        else:
            self.insert(f"{file_mention(printable(picture))} ")

    def action_paste(self) -> None:
        self.paste_text(self.app.clipboard)

    def paste_text(self, text: str) -> None:
        self.typed_at = time.monotonic()
        start, end = self.selection
        self.replace(self._pastes.add(text, in_use=self.text), start, end, maintain_selection_offset=False)

    # -- labels and joined characters are units

    def _units(self, row: int) -> list[tuple[int, int]]:
        """What may not be cut apart in a line: from, to."""
        line = self.document[row] if row < self.document.line_count else ""
        units = self._pastes.spans(line)
        if not line.isascii():
            graphemes, _ = split_graphemes(line)
            units += [(start, end) for start, end, _ in graphemes if end - start > 1]
        return units

    def _unit_at(self, location: Location) -> tuple[int, int] | None:
        """The unit that a location is inside of."""
        row, column = location
        return next((unit for unit in self._units(row) if unit[0] < column < unit[1]), None)

    def _at_edge(self, location: Location, *, forward: bool | None = None) -> Location:
        """The same place, or the edge of the unit it is inside of: the nearer one, or the one ahead."""
        unit = self._unit_at(location)
        if unit is None:
            return location
        start, end = unit
        ahead = forward if forward is not None else location[1] - start > end - location[1]
        return location[0], end if ahead else start

    def _validate_selection(self, selection: Selection) -> Selection:
        start, end = super()._validate_selection(selection)
        return Selection(self._at_edge(start), self._at_edge(end))

    def get_cursor_left_location(self) -> Location:
        return self._at_edge(super().get_cursor_left_location(), forward=False)

    def get_cursor_right_location(self) -> Location:
        return self._at_edge(super().get_cursor_right_location(), forward=True)

    def get_cursor_word_left_location(self) -> Location:
        return self._at_edge(super().get_cursor_word_left_location(), forward=False)

    def get_cursor_word_right_location(self) -> Location:
        return self._at_edge(super().get_cursor_word_right_location(), forward=True)

    def edit(self, edit: Edit) -> EditResult:
        top, bottom = sorted((edit.from_location, edit.to_location))
        inserting = top == bottom
        top, bottom = self._at_edge(top, forward=inserting), self._at_edge(bottom, forward=True)
        if (top, bottom) != (edit.top, edit.bottom):
            edit = Edit(edit.text, top, bottom, edit.maintain_selection_offset)
        return super().edit(edit)


def _is_joiner(character: str) -> bool:
    """Zero-width joiner and non-joiner, and the tags that spell the flag of a region."""
    return character in "\u200c\u200d" or (
        "\U000e0020" <= character <= "\U000e007f" and unicodedata.category(character) == "Cf"
    )
