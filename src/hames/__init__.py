"""Hames: a coding-agent harness. One engine, every protocol, any model.

Importing this package imports nothing else: names are found when they are used.
"""

from importlib import import_module

TYPE_CHECKING = False  # not typing's: that takes as long to import as the interpreter takes to start

if TYPE_CHECKING:
    from hames.api.engine import LocalEngine, LocalThread, open_engine
    from hames.api.harness import Config, EventHandler, Harness, PromptCancelled
    from hames.domain.errors import HarnessError, ProviderError, TurnBusy
    from hames.ports.tool import HostTool as Tool
    from hames.tools.function import tool
    from hames.tools.host import CancelToken, cancelled

__version__ = "0.1.0"

_HOMES = {
    "CancelToken": ("hames.tools.host", "CancelToken"),
    "Config": ("hames.api.harness", "Config"),
    "EventHandler": ("hames.api.harness", "EventHandler"),
    "Harness": ("hames.api.harness", "Harness"),
    "HarnessError": ("hames.domain.errors", "HarnessError"),
    "LocalEngine": ("hames.api.engine", "LocalEngine"),
    "LocalThread": ("hames.api.engine", "LocalThread"),
    "PromptCancelled": ("hames.api.harness", "PromptCancelled"),
    "ProviderError": ("hames.domain.errors", "ProviderError"),
    "Tool": ("hames.ports.tool", "HostTool"),
    "TurnBusy": ("hames.domain.errors", "TurnBusy"),
    "cancelled": ("hames.tools.host", "cancelled"),
    "open_engine": ("hames.api.engine", "open_engine"),
    "tool": ("hames.tools.function", "tool"),
}

__all__ = [
    "CancelToken",
    "Config",
    "EventHandler",
    "Harness",
    "HarnessError",
    "LocalEngine",
    "LocalThread",
    "PromptCancelled",
    "ProviderError",
    "Tool",
    "TurnBusy",
    "cancelled",
    "open_engine",
    "tool",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module, found = _HOMES[name]
        return getattr(import_module(module), found)
    raise AttributeError(f"module 'hames' has no attribute {name!r}")
