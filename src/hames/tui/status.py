"""The two lines around the composer: what is going on, and under which terms."""

import time

from rich.spinner import Spinner
from rich.text import Text
from textual.timer import Timer
from textual.widgets import Static

from hames.domain.display import visible
from hames.domain.policy import ApprovalPolicy
from hames.protocols.flint import messages as m
from hames.tui.conversation import Conversation
from hames.tui.lines import cut
from hames.tui.palette import Palette
from hames.tui.text import shown_input

POLICIES: dict[ApprovalPolicy, str] = {
    "unlessTrusted": "asks unless trusted",
    "always": "always asks",
    "never": "never asks",
}
SANDBOXES: dict[str, str] = {
    "readOnly": "read only",
    "workspaceWrite": "workspace write",
    "dangerFullAccess": "NO SANDBOX",
    "externalSandbox": "external sandbox",
}


def sandbox_name(policy: m.SandboxPolicy) -> str:
    match policy:
        case m.ReadOnly():
            return "readOnly"
        case m.WorkspaceWrite():
            return "workspaceWrite"
        case m.DangerFullAccess():
            return "dangerFullAccess"
        case m.ExternalSandbox():
            return "externalSandbox"


def sandbox_of(name: str) -> m.SandboxPolicy:
    match name:
        case "readOnly":
            return m.ReadOnly()
        case "dangerFullAccess":
            return m.DangerFullAccess()
        case "externalSandbox":
            return m.ExternalSandbox()
        case _:
            return m.WorkspaceWrite()


def shown_sandbox(policy: m.SandboxPolicy) -> str:
    network = isinstance(policy, m.WorkspaceWrite) and policy.network_access
    return SANDBOXES[sandbox_name(policy)] + (" + network" if network else "")


def tokens(count: int) -> str:
    """
    >>> tokens(950), tokens(12_345), tokens(2_500_000)
    ('950', '12.3k', '2.5M')
    """
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


class Terms(Static):
    """Model, policy, sandbox; context, tokens, money."""

    DEFAULT_CSS = "Terms { height: 1; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__(id="terms", markup=False)

    def show(self, talk: Conversation, palette: Palette, *, width: int) -> None:
        self.update(terms(talk, palette, width=width))


def terms(talk: Conversation, palette: Palette, *, width: int) -> Text:
    dot = " · "
    left = Text(no_wrap=True)
    policy, sandbox = POLICIES[talk.policy], shown_sandbox(talk.sandbox)
    taken = 4 + len(policy) + len(sandbox) + 2 * len(dot)
    right = _meter(talk, palette)
    if width - taken - right.cell_len < len(talk.model):
        right = _meter(talk, palette, short=True)
    room = width - taken - right.cell_len
    # The end of a model's name tells it apart, its provider is the first to go.
    model = talk.model if len(talk.model) <= room else talk.model.rpartition("/")[2]
    left.append(cut(visible(model or "starting …"), max(8, room)), palette.text)
    left.append(dot, palette.faint)
    left.append(policy, palette.warn if talk.policy == "never" else palette.quiet)
    left.append(dot, palette.faint)
    left.append(sandbox, palette.bad if isinstance(talk.sandbox, m.DangerFullAccess) else palette.quiet)
    left.append(" " * max(1, width - 2 - left.cell_len - right.cell_len))
    return left.append_text(right)


def _meter(talk: Conversation, palette: Palette, *, short: bool = False) -> Text:
    spent, made = talk.spent, Text(no_wrap=True)
    if spent.window:
        share = min(1.0, spent.context / spent.window)
        style = palette.bad if share > 0.9 else palette.warn if share > 0.7 else palette.quiet
        full = round(share * 5)
        made.append(f"{share:.0%}" if short else "▰" * full + "▱" * (5 - full) + f" {share:.0%} full", style)
    if spent.total is not None:
        made.append(f" · {tokens(spent.total.total_tokens)}{'' if short else ' tok'}", palette.quiet)
    if (cost := talk.cost) is not None:
        made.append(f" · ${cost:.2f}" if cost >= 0.01 else " · <$0.01", palette.quiet)
    return made


class Activity(Static):
    """The line that moves while something runs, and names what waits."""

    DEFAULT_CSS = "Activity { height: auto; max-height: 6; padding: 0 1; }"

    def __init__(self, palette: Palette) -> None:
        super().__init__(id="activity", markup=False)
        self.palette = palette
        self._talk = Conversation()
        self.asking = False
        """Whether a question is on the screen."""
        self._since = 0.0
        self._rows = 0
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

    def _draw(self) -> None:
        talk, palette, width = self._talk, self.palette, max(10, self.app.size.width - 4)
        rows: list[Text] = []
        if talk.running:
            frame = self._spinner.render(time.monotonic())
            row = Text(frame.plain if isinstance(frame, Text) else "·", palette.accent, no_wrap=True)
            row.append(f" working {time.monotonic() - self._since:.0f} s", palette.text)
            step = next((entry.step for entry in talk.plan if entry.status == "inProgress"), "")
            if step:
                row.append(f" · {cut(visible(step), max(8, width - 62))}", palette.quiet)
            if self.asking:
                row.append(" · waiting for your answer", palette.warn)
            else:
                row.append("  esc stops · enter steers · tab queues", palette.faint)
            rows.append(row)
        for number, prompt in enumerate(talk.waiting, 1):
            words = cut(visible(shown_input(prompt.input)), width - 14)
            rows.append(Text(f"{number}. waiting: {words}", palette.quiet, no_wrap=True))
        if talk.waiting and talk.held and not talk.running:
            rows.append(Text("the queue is held: send something, or /drop", palette.warn))
        same = len(rows) == self._rows
        self._rows = len(rows)
        self.display = bool(rows)
        # Ten times a second: the rest of the screen is not laid out again for a spinner.
        self.update(Text("\n").join(rows), layout=not same)
