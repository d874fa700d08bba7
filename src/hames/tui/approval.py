"""The question that stops everything: what exactly would happen, why it is asked, and four keys.

The text shown is the text that runs, with nothing hidden in it. Keys count only after a moment on the screen, so
that somebody who is typing does not answer what they have not read.
"""

import time
from typing import assert_never

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static

from hames.client.appserver_events import ApprovalAsked
from hames.client.appserver_link import Filled
from hames.domain.display import described, visible
from hames.protocols.flint import messages as m
from hames.tui.blocks_done import change_lines
from hames.tui.form import Form
from hames.tui.lines import indented, line, paragraphs
from hames.tui.palette import Palette
from hames.tui.text import said

ARM_SECONDS = 0.3
A_WORD = "a word to the model; Enter sends it, Esc goes back"


class Answered(Message):
    """`word` is for the model, when it was rejected with one."""

    def __init__(self, asked: ApprovalAsked, decision: m.ApprovalWord | Filled, word: str = "") -> None:
        super().__init__()
        self.asked = asked
        self.decision: m.ApprovalWord | Filled = decision
        self.word = word


class ApprovalPanel(Vertical, can_focus=True):
    DEFAULT_CSS = """
    ApprovalPanel { display: none; height: auto; max-height: 70%; border: round $warning; padding: 0 1; }
    ApprovalPanel > #what { height: auto; max-height: 20; scrollbar-size-vertical: 1; }
    ApprovalPanel > #word { display: none; height: 1; border: none; padding: 0; margin-top: 1; background: $surface; }
    ApprovalPanel > #why, ApprovalPanel > #keys { height: auto; }
    """

    def __init__(self, palette: Palette) -> None:
        super().__init__(id="approval")
        self.palette = palette
        self.asked: ApprovalAsked | None = None
        self.border_title = "May I?"
        self._shown_at = 0.0
        self._form: Form | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="why", markup=False)
        with VerticalScroll(id="what", can_focus=False):
            yield Static(id="exact", markup=False)
        yield Input(id="word", placeholder=A_WORD, compact=True)
        yield Static(id="keys", markup=False)

    def ask(self, asked: ApprovalAsked, *, more: int, elsewhere: str = "") -> None:
        """Show a question; `more` wait behind it."""
        self.asked = asked
        self._form = Form(asked.params) if isinstance(asked.params, m.ElicitationParams) else None
        self._shown_at = time.monotonic()
        self.display = True
        self.border_subtitle = f"{more} more after this" if more else ""
        palette, width = self.palette, max(20, self.app.size.width - 6)
        reason = asked.params.reason or "the approval policy asks for everything"
        why = f"in {visible(elsewhere)}: {visible(reason)}" if elsewhere else visible(reason)
        self.query_one("#why", Static).update(Text("\n").join(paragraphs(why, palette.warn, width)))
        self.query_one("#exact", Static).update(Text("\n").join(exact(asked, width, palette)))
        self.query_one("#what").scroll_home(animate=False)
        self.query_one("#word", Input).display = False
        self.query_one("#keys", Static).update(self._keys())

    def dismiss(self) -> None:
        self.asked = None
        self.display = False

    @property
    def armed(self) -> bool:
        return time.monotonic() - self._shown_at >= ARM_SECONDS

    def _keys(self) -> Text:
        keys = [("y", "once"), ("a", "always"), ("n", "reject"), ("r", "reject with a word"), ("esc", "stop the turn")]
        if self._form is not None:
            accept = [] if self._form.as_it_stands else [("y", "accept")]
            fill = [("f", "fill in")] if self._form.fields else []
            keys = [*accept, *fill, ("n", "decline"), ("r", "decline with a word"), ("esc", "put aside")]
        elif self.asked and not self.asked.offers_always:
            keys = [pair for pair in keys if pair[0] != "a"]
        row = Text("\n")
        if self.asked and self.asked.always_covers:
            row.append(f"always: {visible(self.asked.always_covers)}\n", self.palette.quiet)
        for key, words in keys:
            row.append(key, self.palette.accent)
            row.append(f" {words}   ", self.palette.quiet)
        return row

    def on_key(self, event: events.Key) -> None:
        asked = self.asked
        word = self.query_one("#word", Input)
        if asked is None:
            return
        if word.has_focus:
            if event.key == "escape":
                event.stop()
                word.display = False
                self.focus()
            return
        if not self.armed:
            event.stop()
            return
        decisions: dict[str, m.ApprovalWord] = {
            "y": "accept",
            "a": "acceptForSession",
            "n": "decline",
            "escape": "cancel",
        }
        what = self.query_one("#what", VerticalScroll)
        match event.key:
            case "a" if not asked.offers_always:
                return
            case "y" if self._form is not None and self._form.as_it_stands:
                return
            case "f" if self._form is not None and self._form.fields:
                event.stop()
                event.prevent_default()
                self._form.again()
                self._type(self._form.wanted)
            case "y" | "a" | "n" | "escape":
                event.stop()
                self.post_message(Answered(asked, decisions[event.key]))
            case "r":
                event.stop()
                event.prevent_default()
                self._type(A_WORD)
            case "down" | "pagedown" | "space":
                event.stop()
                what.scroll_relative(y=1 if event.key == "down" else 8, animate=False)
            case "up" | "pageup":
                event.stop()
                what.scroll_relative(y=-1 if event.key == "up" else -8, animate=False)
            case _:
                return

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.asked is None:
            return
        if self._form is None or event.input.placeholder == A_WORD:
            self.post_message(Answered(self.asked, "decline", event.value.strip()))
        else:
            self._filled_in(self.asked, self._form, event.value.strip())

    def _filled_in(self, asked: ApprovalAsked, form: Form, text: str) -> None:
        complaint = form.take(text)
        if complaint:
            self.query_one("#why", Static).update(Text(visible(complaint), self.palette.warn))
            form.again()
        if form.wanted:
            self._type(form.wanted)
        else:
            self.post_message(Answered(asked, Filled(content=form.content)))

    def _type(self, placeholder: str) -> None:
        word = self.query_one("#word", Input)
        word.placeholder = placeholder
        word.value = ""
        word.display = True
        word.focus()


def exact(asked: ApprovalAsked, width: int, palette: Palette) -> list[Text]:
    """What would happen, whole."""
    match asked.params:
        case m.CommandApprovalParams(command=command, cwd=cwd):
            rows = [part for row in command.split("\n") for part in paragraphs(visible(row), palette.strong, width - 2)]
            where = line(("  in ", palette.quiet), (visible(cwd), palette.quiet))
            size = [line((f"  {len(command)} characters", palette.quiet))] if len(command) > 200 else []
            return [*indented(rows, line(("$ ", palette.accent))), where, *size]
        case m.FileChangeApprovalParams(changes=changes):
            return [row for change in changes for row in change_lines(change, width, palette, whole=True)]
        case m.McpApprovalParams(server=server, tool=tool, arguments=arguments):
            head = line(("· ", palette.accent), (visible(f"{server}/{tool}"), palette.strong))
            return [head, *indented(paragraphs(described(said(arguments)), palette.text, width - 2), Text("  "))]
        case m.ToolApprovalParams(name=name, arguments=arguments):
            head = line(("· ", palette.accent), (visible(name), palette.strong))
            return [head, *indented(paragraphs(described(said(arguments)), palette.text, width - 2), Text("  "))]
        case m.ElicitationParams() as params:
            return _form(Form(params), width, palette)
        case _ as never:
            assert_never(never)


def _form(form: Form, width: int, palette: Palette) -> list[Text]:
    """Who asks, what, and what each field takes. An address is text: nobody opens it."""
    asked = form.elicit
    head = line(("· ", palette.accent), (visible(asked.server), palette.strong))
    said = [part for row in asked.message.split("\n") for part in paragraphs(visible(row), palette.text, width - 2)]
    rows = [head, *indented(said, Text("  "))]
    if asked.url:
        return [*rows, *indented(paragraphs(visible(asked.url), palette.strong, width - 2), Text("  "))]
    for name, kind in form.fields.items():
        rows += indented(paragraphs(visible(f"{name}: {kind}"), palette.quiet, width - 4), Text("  - "))
    return rows
