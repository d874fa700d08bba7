"""Where prompts are typed: Enter sends, Shift+Enter or Ctrl+J breaks the line, the arrows walk the history."""

import time
from collections.abc import Callable, Sequence

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from hames.domain.display import printable, visible
from hames.tui.completing import Wanted, best, completed, mentioned, pasted_picture, wanted
from hames.tui.lines import cut
from hames.tui.remembered import Remembered

NEWLINES = ("shift+enter", "ctrl+j", "alt+enter", "newline")


class Suggestions(OptionList, can_focus=False):
    """What the word may become. The keys stay with the composer."""

    DEFAULT_CSS = """
    Suggestions {
        display: none; height: auto; max-height: 8; border: none; padding: 0 2; background: $surface;
        scrollbar-size-vertical: 1;
    }
    Suggestions > .option-list--option-highlighted { background: $primary 30%; color: $foreground; text-style: bold; }
    """

    def __init__(self) -> None:
        super().__init__(id="suggestions")
        self.names: list[str] = []

    def offer(self, names: Sequence[str], describe: Callable[[str], str], *, mark: str = "") -> None:
        self.names = list(names)
        self.display = bool(names)
        self.clear_options()
        width = max((len(name) for name in names), default=0) + len(mark) + 2
        for name in names:
            row = Text(f"{mark}{visible(name)}".ljust(width), no_wrap=True)
            row.append(describe(name), "dim")
            self.add_option(Option(row))
        self.highlighted = 0 if names else None

    @property
    def chosen(self) -> str | None:
        return self.names[self.highlighted] if self.names and self.highlighted is not None else None


class Composer(TextArea):
    DEFAULT_CSS = """
    Composer {
        height: auto; min-height: 3; max-height: 12; padding: 0 1;
        border: round $border-blurred; background: $background;
        scrollbar-size-vertical: 1;
    }
    Composer:focus { border: round $primary 70%; }
    Composer .text-area--cursor-line { background: transparent; }
    """

    class Sent(Message):
        def __init__(self, text: str, *, queued: bool) -> None:
            super().__init__()
            self.text = text
            self.queued = queued

    class Escaped(Message):
        pass

    def __init__(self, suggestions: Suggestions, remembered: Remembered) -> None:
        super().__init__(
            id="composer",
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            placeholder="Type a prompt, / or @",
        )
        self.commands: dict[str, str] = {}
        self.files: list[str] = []
        self.typed_at = 0.0
        """When a letter was last typed, by the monotonic clock."""
        self.running = False
        self._suggestions = suggestions
        self._remembered = remembered

    def put(self, text: str) -> None:
        """Instead of what is there, with the cursor at the end."""
        self.text = text
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        handled = self._takes(event.key)
        if handled:
            event.stop()
            event.prevent_default()
            return
        if event.is_printable:
            self.typed_at = time.monotonic()
        await super()._on_key(event)

    def _takes(self, key: str) -> bool:
        choosing = self._suggestions.display
        match key:
            case _ if key in NEWLINES:
                self.insert("\n")
            case "enter":
                self._entered()
            case "tab" if choosing:
                self._complete()
            case "tab" if self.running and self.text.strip():
                self._send(queued=True)
            case "escape" if choosing:
                self._suggestions.offer((), visible)
            case "escape":
                self.post_message(self.Escaped())
            case "up" if choosing:
                self._suggestions.action_cursor_up()
            case "down" if choosing:
                self._suggestions.action_cursor_down()
            case "up" if self.cursor_at_first_line:
                return self._recall(self._remembered.older(self.text))
            case "down" if self.cursor_at_last_line:
                return self._recall(self._remembered.newer())
            case _:
                return False
        return True

    def _recall(self, prompt: str | None) -> bool:
        if prompt is None:
            return False
        self.put(prompt)
        self._suggestions.offer((), visible)
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
        text = self.text.strip()
        if text:
            self._remembered.add(text)
            self.text = ""
            self._suggestions.offer((), visible)
            self.post_message(self.Sent(text, queued=queued))

    def _wanted(self) -> Wanted | None:
        return wanted(self.text, self._offset())

    def _offset(self) -> int:
        row, column = self.cursor_location
        return sum(len(line) + 1 for line in self.text.split("\n")[:row]) + column

    def _complete(self) -> None:
        found, chosen = self._wanted(), self._suggestions.chosen
        if found is None or chosen is None:
            return
        text, cursor = completed(self.text, self._offset(), found, chosen)
        self.text = text
        before = text[:cursor].split("\n")
        self.move_cursor((len(before) - 1, len(before[-1])))
        self._suggestions.offer((), visible)

    def on_text_area_changed(self) -> None:
        found = self._wanted()
        if found is None:
            names: list[str] = []
        elif found.kind == "command":
            names = best(found.query, self.commands)
        else:
            names = best(found.query, self.files)
        if found is not None and names == [found.query]:
            names = []
        mark = "/" if found is not None and found.kind == "command" else "@"
        self._suggestions.offer(names, lambda name: cut(self.commands.get(name, ""), 60), mark=mark)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        picture = pasted_picture(event.text)
        self.insert(printable(event.text) if picture is None else f"{mentioned(printable(picture))} ")
