"""The keys of the whole screen and the actions they start. `help` has them in words."""

from textual.binding import Binding, BindingType

BINDINGS: list[BindingType] = [
    Binding("shift+tab", "policy", "policy", priority=True, show=False),
    Binding("ctrl+p", "command('plan')", "plan mode", priority=True, show=False),
    Binding("ctrl+z", "suspend_process", "suspend", priority=True, show=False),
    Binding("ctrl+o", "fold", "fold", priority=True, show=False),
    Binding("ctrl+t", "command('threads')", "threads", priority=True, show=False),
    Binding("ctrl+l", "command('model')", "model", priority=True, show=False),
    Binding("ctrl+g", "command('options')", "options", priority=True, show=False),
    Binding("ctrl+n", "command('new')", "new", priority=True, show=False),
    Binding("ctrl+r", "command('history')", "history", priority=True, show=False),
    Binding("f1", "help", "help", priority=True, show=False),
    Binding("pageup", "scroll(-1)", "up", priority=True, show=False),
    Binding("pagedown", "scroll(1)", "down", priority=True, show=False),
    Binding("ctrl+home", "scroll(-1000000)", "top", priority=True, show=False),
    Binding("ctrl+end", "scroll(1000000)", "end", priority=True, show=False),
    Binding("alt+up", "take_back", "take back", priority=True, show=False),
    Binding("ctrl+c", "stop", "stop", priority=True, show=False),
    Binding("ctrl+d", "leave", "quit", priority=True, show=False),
    Binding("ctrl+q", "quit", "quit", priority=True, show=False),
    Binding("escape", "interrupt", "stop the turn", show=False),
]
