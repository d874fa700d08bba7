"""Hames: a coding-agent harness. One engine, every protocol, any model.

Importing this package imports nothing else: names are found when they are used.
"""

from importlib import import_module

TYPE_CHECKING = False  # not typing's: that takes as long to import as the interpreter takes to start

if TYPE_CHECKING:
    from hames.domain.errors import HarnessError, ProviderError, TurnBusy
    from hames.function_tool import tool
    from hames.library import Config, EventHandler, Harness, PromptCancelled, Tool

__version__ = "0.1.0"

_HOMES = {
    "Config": "hames.library",
    "EventHandler": "hames.library",
    "Harness": "hames.library",
    "HarnessError": "hames.domain.errors",
    "PromptCancelled": "hames.library",
    "ProviderError": "hames.domain.errors",
    "Tool": "hames.library",
    "TurnBusy": "hames.domain.errors",
    "tool": "hames.function_tool",
}

__all__ = [
    "Config",
    "EventHandler",
    "Harness",
    "HarnessError",
    "PromptCancelled",
    "ProviderError",
    "Tool",
    "TurnBusy",
    "tool",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hames' has no attribute {name!r}")
