"""Lists to choose from: models, selectors, threads, themes, old prompts. Type to search, Enter takes, Esc leaves."""

from collections.abc import Awaitable, Callable, Sequence

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from hames.domain.display import visible
from hames.domain.value import Value
from hames.tui.completing import best
from hames.tui.lines import cut

STYLE = """
    align: center middle;
    background: $background 60%;
    & > Vertical {
        width: 90%; max-width: 100; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    & Input { border: none; height: 1; padding: 0; background: $surface; margin-bottom: 1; }
    & OptionList {
        border: none; height: auto; max-height: 60vh; padding: 0; background: $surface; scrollbar-size-vertical: 1;
    }
    & OptionList > .option-list--option-highlighted { background: $primary 35%; color: $foreground; text-style: bold; }
    & .hint { height: auto; color: $text-muted; margin-top: 1; }
    & > Vertical { scrollbar-size-vertical: 1; }
"""


class Choice(Value):
    id: str
    label: str
    detail: str = ""
    current: bool = False


class Picked(Value):
    """What was chosen and with which key: `enter`, or one of the picker's own."""

    id: str
    key: str = "enter"


Search = Callable[[str], Awaitable[list[Choice]]]


class Picker(ModalScreen[Picked | None]):
    DEFAULT_CSS = f"Picker {{ {STYLE} }}"

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        search: Search | None = None,
        keys: dict[str, str] | None = None,
    ) -> None:
        """`search` asks elsewhere as one types; `keys` are further keys, with what they do."""
        super().__init__()
        self._title = title
        self._choices = list(choices)
        self._shown = list(choices)
        self._search = search
        self._keys = keys or {}

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Text(visible(self._title)).markup
            yield Input(placeholder="type to search", compact=True)
            yield OptionList(markup=False)
            hint = "enter takes · esc leaves" + "".join(f" · {key} {words}" for key, words in self._keys.items())
            yield Static(hint, classes="hint", markup=False)

    def on_mount(self) -> None:
        self._show(self._choices)
        current = next((number for number, choice in enumerate(self._shown) if choice.current), None)
        if current is not None:
            self.query_one(OptionList).highlighted = current

    def _show(self, choices: list[Choice]) -> None:
        self._shown = choices
        options = self.query_one(OptionList)
        options.clear_options()
        room = max(20, min(100, self.app.size.width * 9 // 10) - 8)
        wide = min(room, max((len(visible(choice.label)) for choice in choices), default=0) + 2)
        for choice in choices:
            row = Text("● " if choice.current else "  ", no_wrap=True)
            row.append(cut(visible(choice.label), wide).ljust(wide))
            row.append(cut(visible(choice.detail), max(0, room - wide)) if room - wide > 4 else "", "dim")
            options.add_option(Option(row))
        options.highlighted = 0 if choices else None

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._search is not None:
            self._ask(event.value)
            return
        names = {f"{choice.label} {choice.detail}": choice for choice in self._choices}
        self._show([names[name] for name in best(event.value, names, most=500)] if event.value else self._choices)

    @work(exclusive=True)
    async def _ask(self, words: str) -> None:
        if self._search is not None:
            self._show(await self._search(words))

    def on_input_submitted(self) -> None:
        self._take("enter")

    def on_option_list_option_selected(self) -> None:
        self._take("enter")

    def on_key(self, event: events.Key) -> None:
        options = self.query_one(OptionList)
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
        options = self.query_one(OptionList)
        if pages > 0:
            options.action_page_down()
        else:
            options.action_page_up()

    def _take(self, key: str) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None and at < len(self._shown):
            self.dismiss(Picked(id=self._shown[at].id, key=key))


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
            yield Input(value=visible(self._value), compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            self.dismiss(None)


class Help(ModalScreen[None]):
    """Keys and commands."""

    DEFAULT_CSS = f"Help {{ {STYLE} }} Help Static {{ height: auto; }}"

    def __init__(self, text: Text) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Help"
            box.border_subtitle = "esc leaves · arrows scroll"
            box.styles.overflow_y = "auto"
            yield Static(self._text)

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
