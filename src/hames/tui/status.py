"""The lines around the conversation: the header, what is going on, and the status line.

Each is laid out when it is drawn, for the width it has then.
"""

import time

from rich.cells import cell_len
from rich.spinner import Spinner
from rich.text import Text
from textual import events
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from hames.domain.display import printable, visible
from hames.protocols.flint import messages as m
from hames.tui.conversation import Conversation
from hames.tui.lines import cut
from hames.tui.modes import MODES, effective_sandbox, shown_mode, shown_sandbox
from hames.tui.palette import Palette
from hames.tui.text import dollars, shown_input, tokens

DOT = " · "
GAP = 3
"""Columns between the settings and the meter, so that they do not read as one sentence."""
MOST_QUEUED = 3
"""Of more, the number is shown."""


class Header(Widget):
    """The program, the thread's title, the directory."""

    DEFAULT_CSS = "Header { height: 1; padding: 0 1; background: $surface; }"

    def __init__(self, palette: Palette, directory: str) -> None:
        super().__init__(id="title")
        self.palette = palette
        self._directory = directory
        self._title = ""

    def show(self, title: str) -> None:
        if title != self._title:
            self._title = title
            self.refresh()

    def render(self) -> Text:
        width = self.size.width
        directory = cut(self._directory, max(8, width // 2))
        row = Text("hames", self.palette.accent, no_wrap=True, end="")
        row.append(f"  {cut(printable(self._title), max(8, width - len(directory) - 10))}", self.palette.text)
        row.append(" " * max(1, width - row.cell_len - len(directory)))
        return row.append(directory, self.palette.faint)


class StatusLine(Widget):
    """Model, mode, approvals, sandbox; context, tokens, money."""

    DEFAULT_CSS = "StatusLine { height: 1; padding: 0 1; }"

    def __init__(self, palette: Palette) -> None:
        super().__init__(id="terms")
        self.palette = palette
        self._talk = Conversation()

    def show(self, talk: Conversation) -> None:
        self._talk = talk
        self.refresh()

    def render(self) -> Text:
        return status_line(self._talk, self.palette, width=self.size.width + 2)


def status_line(talk: Conversation, palette: Palette, *, width: int) -> Text:
    """The status line. In a narrow terminal the model's provider goes, then the labels, then the meter shrinks,
    then what the mode means goes."""
    room = width - 2
    model = visible(talk.model or "starting …")
    last = model.rpartition("/")[2]  # the end of a model's name tells it apart
    long, brief = _settings(talk, palette, labels=True), _settings(talk, palette, labels=False)
    bare = _settings(talk, palette, labels=False, meaning=False)
    full, small = _meter(talk, palette), _meter(talk, palette, short=True)
    layouts = [(model, long, full), (last, long, full), (model, brief, full), (last, brief, full), (last, brief, small)]
    shortest = cut(last, max(8, room - bare.cell_len - small.cell_len - 1)), bare, small
    gap = GAP if full else 1
    fitting = (parts for parts in layouts if cell_len(parts[0]) + parts[1].cell_len + parts[2].cell_len + gap <= room)
    name, settings, meter = next(fitting, shortest)
    row = Text(name, palette.text, no_wrap=True, end="").append_text(settings)
    row.append(" " * max(1, room - row.cell_len - meter.cell_len))
    return row.append_text(meter)


def _settings(talk: Conversation, palette: Palette, *, labels: bool, meaning: bool = True) -> Text:
    made = Text(no_wrap=True)
    sandbox = effective_sandbox(talk)
    name, means = shown_mode(talk.mode, talk.policy)
    label = "" if not labels else "Mode: " if name else "Approvals: "
    style = palette.warn if talk.mode in MODES or talk.policy == "never" else palette.quiet
    made.append(DOT, palette.faint)
    made.append(f"{label}{(f'{name} ({means})' if meaning else name) if name else means}", style)
    made.append(DOT, palette.faint)
    danger = isinstance(sandbox, m.DangerFullAccess)
    named = labels and not isinstance(sandbox, m.DangerFullAccess | m.ExternalSandbox)
    made.append(f"{'Sandbox: ' if named else ''}{shown_sandbox(sandbox)}", palette.bad if danger else palette.quiet)
    return made


def _meter(talk: Conversation, palette: Palette, *, short: bool = False) -> Text:
    spent, made = talk.spent, Text(no_wrap=True)
    if spent.window:
        share = min(1.0, spent.context / spent.window)
        style = palette.bad if share > 0.9 else palette.warn if share > 0.7 else palette.quiet
        made.append(f"{share:.0%}" if short else f"context {share:.0%} full", style)
    if spent.total is not None:
        made.append(f" · {tokens(spent.total.total_tokens)}{'' if short else ' tokens'}", palette.quiet)
    if (cost := talk.cost) is not None:
        made.append(f" · {dollars(cost)}", palette.quiet)
    return made


class Activity(Static):
    """The line that moves while something runs, and names what waits."""

    DEFAULT_CSS = "Activity { height: auto; max-height: 6; padding: 0 1; }"

    def __init__(self, palette: Palette) -> None:
        super().__init__(id="activity", markup=False)
        self.palette = palette
        self._talk = Conversation()
        self.asking = False
        """Whether the turn waits for an answer of the user."""
        self._since = 0.0
        self._rows = 0
        self._width = 0
        self._spinner = Spinner("dots")
        self._timer: Timer | None = None

    def follow(self, talk: Conversation) -> None:
        started = talk.running and not (self._talk is talk and self._timer is not None)
        self._talk = talk
        if started:
            self._since = time.monotonic()
        if talk.running and self._timer is None:
            self._timer = self.set_interval(0.1, self._draw)
        elif not talk.running and self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        if event.size.width != self._width:
            self._draw()

    def _working(self, width: int) -> Text:
        frame = self._spinner.render(time.monotonic())
        row = Text(frame.plain if isinstance(frame, Text) else "·", self.palette.accent, no_wrap=True)
        servers = ", ".join(self._talk.starting)
        doing = f"starting MCP server {cut(visible(servers), max(8, width - 74))}" if servers else "working"
        row.append(f" {doing} {time.monotonic() - self._since:.0f} s", self.palette.text)
        row.append_text(self._step(width))
        return row.append("  esc stop · enter send to this turn · tab queue", self.palette.faint)

    def _waiting(self, width: int) -> Text:
        row = Text("? ", self.palette.warn, no_wrap=True)
        return row.append("waiting for your answer", self.palette.warn).append_text(self._step(width))

    def _step(self, width: int) -> Text:
        """The step of the plan that is worked on."""
        step = next((entry.step for entry in self._talk.plan if entry.status == "inProgress"), "")
        return Text(f" · {cut(visible(step), max(8, width - 62))}" if step else "", self.palette.quiet)

    def _draw(self) -> None:
        self._width = self.size.width
        talk, palette, width = self._talk, self.palette, max(10, self.app.size.width - 4)
        rows: list[Text] = []
        if talk.running:
            rows.append(self._waiting(width) if self.asking else self._working(width))
        if talk.waiting and talk.held and not talk.running:
            rows.append(Text("Queue paused after stop. Send a message to continue, or /drop to clear it", palette.warn))
        for number, prompt in enumerate(talk.waiting[:MOST_QUEUED], 1):
            words = cut(printable(shown_input(prompt.input)), width - 14)
            rows.append(Text(f"{number}. queued: {words}", palette.quiet, no_wrap=True))
        if len(talk.waiting) > MOST_QUEUED:
            rows.append(Text(f"… and {len(talk.waiting) - MOST_QUEUED} more queued", palette.quiet))
        same = len(rows) == self._rows
        self._rows = len(rows)
        self.display = bool(rows)
        # Ten times a second: the rest of the screen is not laid out again for a spinner.
        self.update(Text("\n").join(rows), layout=not same)
