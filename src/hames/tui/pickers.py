"""Lists to choose from: models, options, threads, themes, earlier prompts. Type to search, Enter selects, Esc closes.

The keys stay with the search line, whatever is clicked.
"""

from collections.abc import Awaitable, Callable, Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from hames.domain.display import visible
from hames.domain.value import Value
from hames.tui.completing import rank_matches
from hames.tui.lines import cut, paragraphs

STYLE = """
    align: center middle;
    background: $background 60%;
    & > Vertical {
        width: 90%; max-width: 100; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    & Input { border: none; height: 1; padding: 0; background: $surface; margin-bottom: 1; }
    & OptionList {
        border: none; height: auto; padding: 0; background: $surface; scrollbar-size-vertical: 1;
    }
    & OptionList > .option-list--option-highlighted { background: $primary 35%; color: $foreground; text-style: bold; }
    & .hint { height: auto; color: $text-muted; margin-top: 1; }
    & > Vertical { scrollbar-size-vertical: 1; }
"""


DIM = Style(dim=True)


class PickerChoice(Value):
    """`group` is a heading that choices stand under; choices of one group follow each other."""

    id: str
    label: str
    detail: str = ""
    current: bool = False
    group: str = ""


class Choices(OptionList, can_focus=False):
    """The list of a picker."""


class Picked(Value):
    """What was chosen and with which key: `enter`, or one of the picker's own."""

    id: str
    key: str = "enter"


Search = Callable[[str], Awaitable[list[PickerChoice]]]


class Picker(ModalScreen[Picked | None]):
    DEFAULT_CSS = f"Picker {{ {STYLE} }}"

    def __init__(
        self,
        title: str,
        choices: Sequence[PickerChoice],
        *,
        search: Search | None = None,
        keys: dict[str, str] | None = None,
    ) -> None:
        """`search` asks elsewhere as one types; `keys` are further keys, with what they do."""
        super().__init__()
        self._title = title
        self._choices = list(choices)
        self._shown: list[PickerChoice | None] = []
        """By row; a heading is no choice."""
        self._search = search
        self._keys = keys or {}

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Text(visible(self._title)).markup
            yield Input(placeholder="type to search", compact=True, select_on_focus=False)
            yield Choices(markup=False)
            hint = "enter select · esc close" + "".join(f" · {key} {words}" for key, words in self._keys.items())
            yield Static(hint, classes="hint", markup=False)

    def on_mount(self) -> None:
        self._show(self._choices)
        current = next((number for number, choice in enumerate(self._shown) if choice and choice.current), None)
        if current is not None:
            self.query_one(Choices).highlighted = current

    def on_resize(self, _: events.Resize) -> None:
        options = self.query_one(Choices)
        at = options.highlighted
        self._show([choice for choice in self._shown if choice is not None])
        options.highlighted = at

    @property
    def _room(self) -> int:
        return max(20, min(100, self.app.size.width * 9 // 10) - 8)

    def _show(self, choices: list[PickerChoice]) -> None:
        self._shown = list[PickerChoice | None]()
        room = self._room
        wide = max((cell_len(visible(choice.label)) for choice in choices), default=0) + 2
        longest = max((cell_len(visible(choice.detail)) for choice in choices), default=0)
        below = bool(longest) and wide + longest > room
        rows: list[Option] = []
        for number, choice in enumerate(choices):
            if choice.group and (number == 0 or choices[number - 1].group != choice.group):
                rows.append(Option(Text(visible(choice.group), Style(bold=True, dim=True)), disabled=True))
                self._shown.append(None)
            rows.append(Option(_row(choice, room, wide=0 if below else wide)))
            self._shown.append(choice)
        options = self.query_one(Choices)
        options.clear_options()
        options.add_options(rows)
        # By hand: the box around a list that scrolls would be as high as if it did not.
        lines = sum(str(row.prompt).count("\n") + 1 for row in rows)
        options.styles.height = max(1, min(lines, self.app.size.height * 6 // 10))
        options.highlighted = next((number for number, choice in enumerate(self._shown) if choice), None)

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._search is not None:
            self._ask(event.value)
            return
        names = {f"{choice.label} {choice.detail}": choice for choice in self._choices}
        found = [names[name] for name in rank_matches(event.value, names, most=500)] if event.value else self._choices
        groups = list(dict.fromkeys(choice.group for choice in self._choices))
        self._show(sorted(found, key=lambda choice: groups.index(choice.group)))

    @work(exclusive=True)
    async def _ask(self, words: str) -> None:
        if self._search is not None:
            self._show(await self._search(words))

    def on_input_submitted(self) -> None:
        self._take("enter")

    def on_option_list_option_selected(self) -> None:
        self._take("enter")

    def on_key(self, event: events.Key) -> None:
        options = self.query_one(Choices)
        match event.key:
            case "escape":
                self.dismiss(None)
            case "down":
                options.action_cursor_down()
            case "up":
                options.action_cursor_up()
            case key if key in self._keys:
                self._take(key)
            case _:
                return
        event.stop()
        event.prevent_default()

    def page(self, pages: int) -> None:
        options = self.query_one(Choices)
        if pages > 0:
            options.action_page_down()
        else:
            options.action_page_up()

    def _take(self, key: str) -> None:
        at = self.query_one(Choices).highlighted
        choice = self._shown[at] if at is not None and at < len(self._shown) else None
        if choice is not None:
            self.dismiss(Picked(id=choice.id, key=key))


def _row(choice: PickerChoice, room: int, *, wide: int) -> Text:
    """One line, with the details in a column of their own at `wide`; or, where they do not fit, below the name."""
    row = Text("● " if choice.current else "  ", no_wrap=True)
    label, detail = visible(choice.label), visible(choice.detail)
    if wide:
        shown = cut(label, min(wide, room))
        row.append(shown + " " * max(0, wide - cell_len(shown)))
        return row.append(detail, DIM)
    row.append(cut(label, room))
    for part in paragraphs(detail, DIM, room - 2) if detail else ():
        row.append("\n    ").append_text(part)
    return row


class Line(ModalScreen[str | None]):
    """One line of text."""

    DEFAULT_CSS = f"Line {{ {STYLE} }}"

    def __init__(self, title: str, value: str = "") -> None:
        super().__init__()
        self._title = title
        self._value = value

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Text(visible(self._title)).markup
            yield Input(value=visible(self._value), compact=True, select_on_focus=False)
            yield Static("enter save · esc close", classes="hint", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            self.dismiss(None)


class Help(ModalScreen[None]):
    """Keys and commands."""

    DEFAULT_CSS = f"Help {{ {STYLE} }} Help Static {{ height: auto; }}"

    def __init__(self, text: Callable[[int], Text]) -> None:
        """`text` lays the help out for a width."""
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Help"
            box.border_subtitle = "↑ ↓ scroll · esc close"
            box.styles.overflow_y = "auto"
            yield Static()

    def on_mount(self) -> None:
        self._lay_out()

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        self.query_one(Static).update(self._text(max(30, min(100, self.app.size.width * 9 // 10) - 8)))

    def on_key(self, event: events.Key) -> None:
        match event.key:
            case "escape" | "enter" | "q" | "f1":
                self.dismiss(None)
            case "down" | "up":
                self.query_one(Vertical).scroll_relative(y=1 if event.key == "down" else -1, animate=False)
            case _:
                return
        event.stop()

    def page(self, pages: int) -> None:
        box = self.query_one(Vertical)
        box.scroll_relative(y=pages * max(1, box.size.height - 2), animate=False)
