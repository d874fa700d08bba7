"""The approval: a question, why it is asked, what exactly would happen, and what each key does.

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
from textual.widget import Widget
from textual.widgets import Input, Static

from hames.client.appserver.events import ApprovalAsked
from hames.client.appserver.link import Filled
from hames.domain.display import age_words, described, visible
from hames.protocols.flint import messages as m
from hames.tui.blocks.actions import change_lines
from hames.tui.form import Form
from hames.tui.lines import indented, line, paragraphs
from hames.tui.palette import Palette
from hames.tui.text import json_on_one_line

ARM_SECONDS = 0.3
BURST_SECONDS = 0.15
"""A letter followed by another one within this time is part of a word, not an answer."""
REJECTION_PLACEHOLDER = "why not, or what to do instead; enter rejects and sends it, esc goes back"


KEYS = {
    "y": "allow once",
    "a": "always allow",
    "p": "allow in this project",
    "n": "reject",
    "r": "reject and tell the agent why",
    "esc": "stop the turn",
}
DECISIONS: dict[str, m.ApprovalWord] = {
    "y": "accept",
    "a": "acceptForSession",
    "p": "acceptForProject",
    "n": "decline",
    "escape": "cancel",
}


class Answered(Message):
    """`word` is a message to the model that goes with a rejection."""

    def __init__(self, asked: ApprovalAsked, decision: m.ApprovalWord | Filled, word: str = "") -> None:
        super().__init__()
        self.asked = asked
        self.decision: m.ApprovalWord | Filled = decision
        self.word = word


class TypedLetters(Message):
    """Letters that were typed at a question and belong to the message."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


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
        self._shown_at = 0.0
        self._elsewhere = ""
        self._complaint = ""
        """What is wrong with the form as it was filled in."""
        self._form: Form | None = None
        self._pending: events.Key | None = None
        """A key that becomes an answer unless another letter follows within BURST_SECONDS."""

    def compose(self) -> ComposeResult:
        yield Static(id="why", markup=False)
        with VerticalScroll(id="what", can_focus=False):
            yield Static(id="exact", markup=False)
        yield Input(id="word", placeholder=REJECTION_PLACEHOLDER, compact=True, select_on_focus=False)
        yield Static(id="keys", markup=False)

    def focus_on_click(self) -> bool:
        """Overrides Textual: a click does not move the focus."""
        return False

    @property
    def keyboard(self) -> Widget:
        """The widget for the keyboard: the open text line, or the panel itself."""
        word = self.query_one("#word", Input)
        return word if word.display else self

    def ask(self, asked: ApprovalAsked, *, more: int, elsewhere: str = "") -> None:
        """Show a question; `more` wait behind it."""
        self.asked = asked
        self._form = Form(asked.params) if isinstance(asked.params, m.ElicitationParams) else None
        self._elsewhere, self._complaint = elsewhere, ""
        self._shown_at = time.monotonic()
        self._pending = None
        self.display = True
        self.border_title = Text(visible(question(asked))).markup
        self.border_subtitle = f"{more} more after this" if more else ""
        self.query_one("#what").scroll_home(animate=False)
        self.query_one("#word", Input).display = False
        self._lay_out()

    def on_resize(self, _: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        if (asked := self.asked) is None:
            return
        palette, width = self.palette, max(20, self.app.size.width - 6)
        reason = asked.params.reason or "You chose to approve every action"
        reason = reason[:1].upper() + reason[1:]
        reason += age_words(asked.params.started_at_ms, round(time.time() * 1000))
        why = f"In {visible(self._elsewhere)}: {visible(reason)}" if self._elsewhere else visible(reason)
        why = visible(self._complaint) or why
        self.query_one("#why", Static).update(Text("\n").join(paragraphs(why, palette.warn, width)))
        self.query_one("#exact", Static).update(Text("\n").join(request_lines(asked, width, palette)))
        self.query_one("#keys", Static).update(self._keys())

    def listen(self) -> None:
        """Takes the keyboard. Keys count after ARM_SECONDS."""
        self._shown_at = time.monotonic()
        self._pending = None
        self.focus()

    def dismiss(self) -> None:
        self.asked = self._pending = None
        self.display = False

    @property
    def settled(self) -> bool:
        """Whether no letter waits to become an answer or a part of a word."""
        return self._pending is None

    @property
    def armed(self) -> bool:
        return time.monotonic() - self._shown_at >= ARM_SECONDS

    def _keys(self) -> Text:
        keys = KEYS
        if self._form is not None:
            accept = {} if self._form.as_it_stands else {"y": "accept"}
            fill = {"f": "fill in"} if self._form.fields else {}
            keys = {**accept, **fill, "n": "decline", "r": "decline and tell the agent why", "esc": "cancel"}
        elif self.asked:
            keys = {key: words for key, words in keys.items() if self._is_offered(key)}
        made, width = Text("\n"), max(20, self.app.size.width - 6)
        used = 0
        for key, words in keys.items():
            size = len(key) + len(words) + 4
            if used and used + size > width:
                made.append("\n")
                used = 0
            made.append(key, self.palette.accent)
            made.append(f" {words}   ", self.palette.quiet)
            used += size
        if "a" in keys and self.asked is not None and self.asked.always_covers:
            covers = f"Always allow covers: {visible(self.asked.always_covers)}"
            made.append("\n").append_text(Text("\n").join(paragraphs(covers, self.palette.quiet, width)))
        if "p" in keys and self.asked is not None:
            rule = f"p keeps this rule: {visible(self.asked.project_covers)}"
            made.append("\n").append_text(Text("\n").join(paragraphs(rule, self.palette.quiet, width)))
        return made

    def _is_offered(self, key: str) -> bool:
        asked = self.asked
        if asked is None or key not in ("a", "p"):
            return True
        return asked.offers_always if key == "a" else bool(asked.project_covers)

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
        letter = event.character if event.is_printable else None
        if letter is not None and (self._pending is not None or not self.armed):
            event.stop()
            event.prevent_default()
            before, self._pending = self._pending, None
            self._shown_at = time.monotonic()  # the letters that follow belong to the same word
            self.post_message(TypedLetters((before.character or "" if before else "") + letter))
        elif not self.armed:
            event.stop()
        elif letter is not None and letter != " ":
            event.stop()
            event.prevent_default()
            self._pending = event
            self.set_timer(BURST_SECONDS, lambda: self._settle(event))
        else:
            self._act(event)

    def _settle(self, event: events.Key) -> None:
        """Runs after the keys that are already queued in the application and in this panel."""

        def settle() -> None:
            if self._pending is event:
                self._pending = None
                self._act(event)

        self.app.call_later(self.call_later, settle)

    def _act(self, event: events.Key) -> None:
        asked = self.asked
        if asked is None:
            return
        what = self.query_one("#what", VerticalScroll)
        event.stop()
        event.prevent_default()
        fillable = self._form is not None and bool(self._form.fields)
        match event.key:
            case "y" if self._form is not None and self._form.as_it_stands:
                self._hint("This form has fields that must be filled in: press f")
            case "f" if self._form is not None and fillable:
                self._form.again()
                self._type(self._form.wanted)
            case key if key in DECISIONS and self._is_offered(key):
                self.post_message(Answered(asked, DECISIONS[key]))
            case "r":
                self._type(REJECTION_PLACEHOLDER)
            case "down" | "pagedown" | "space":
                what.scroll_relative(y=1 if event.key == "down" else 8, animate=False)
            case "up" | "pageup":
                what.scroll_relative(y=-1 if event.key == "up" else -8, animate=False)
            case _ if event.is_printable or event.key == "enter":
                self._hint("Press f to fill it in, n to decline" if fillable else "Press y to allow it, n to reject it")
            case _:
                pass

    def _hint(self, words: str) -> None:
        self.border_subtitle = words

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.asked is None:
            return
        if self._form is None or event.input.placeholder == REJECTION_PLACEHOLDER:
            self.post_message(Answered(self.asked, "decline", event.value.strip()))
        else:
            self._filled_in(self.asked, self._form, event.value.strip())

    def _filled_in(self, asked: ApprovalAsked, form: Form, text: str) -> None:
        complaint = form.take(text)
        if complaint:
            self._complaint = complaint
            self._lay_out()
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


def question(asked: ApprovalAsked) -> str:
    match asked.params:
        case m.CommandApprovalParams(host=str(host)):
            return f"Allow a connection to {host}?"
        case m.CommandApprovalParams():
            return "Allow this command?"
        case m.FileChangeApprovalParams(changes=changes):
            return "Allow this file change?" if len(changes) == 1 else f"Allow these {len(changes)} file changes?"
        case m.McpApprovalParams() | m.ToolApprovalParams():
            return "Allow this tool call?"
        case m.ElicitationParams(server_name=server):
            return f"{server} asks for your input"
        case _ as never:
            assert_never(never)


def request_lines(asked: ApprovalAsked, width: int, palette: Palette) -> list[Text]:
    """What would happen, whole."""
    match asked.params:
        case m.CommandApprovalParams(command=command, cwd=cwd):
            rows = [part for row in command.split("\n") for part in paragraphs(visible(row), palette.strong, width - 2)]
            where = line(("  in ", palette.quiet), (visible(cwd), palette.quiet))
            size = [line((f"  {len(command)} characters", palette.quiet))] if len(command) > 200 else []
            return [*indented(rows, line(("$ ", palette.accent))), where, *size]
        case m.FileChangeApprovalParams(changes=changes):
            return [row for change in changes for row in change_lines(change, width, palette, whole=True)]
        case m.McpApprovalParams() | m.ToolApprovalParams() as params:
            name = f"{params.server}/{params.tool}" if isinstance(params, m.McpApprovalParams) else params.name
            said = described(json_on_one_line(params.arguments))
            head = line(("· ", palette.accent), (visible(name), palette.strong))
            return [head, *indented(paragraphs(said, palette.text, width - 2), Text("  "))]
        case m.ElicitationParams() as params:
            return _form(Form(params), width, palette)
        case _ as never:
            assert_never(never)


def _form(form: Form, width: int, palette: Palette) -> list[Text]:
    """The server, its question, and what each field takes. An address is shown as text and never opened."""
    asked = form.elicit
    head = line(("· ", palette.accent), (visible(asked.server), palette.strong))
    said = [part for row in asked.message.split("\n") for part in paragraphs(visible(row), palette.text, width - 2)]
    rows = [head, *indented(said, Text("  "))]
    if asked.url:
        return [*rows, *indented(paragraphs(visible(asked.url), palette.strong, width - 2), Text("  "))]
    for name, kind in form.fields.items():
        rows += indented(paragraphs(visible(f"{name}: {kind}"), palette.quiet, width - 4), Text("  - "))
    return rows
