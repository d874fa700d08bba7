"""Hames: a coding-agent harness. One engine, every protocol, any model.

Importing this package imports nothing else: names are found when they are used.
"""

from importlib import import_module

TYPE_CHECKING = False  # not typing's: that takes as long to import as the interpreter takes to start

if TYPE_CHECKING:
    from hames.domain.errors import HarnessError, ProviderError, TurnBusy
    from hames.tools.function import tool
    from hames.api.harness import Config, EventHandler, Harness, PromptCancelled, Tool

__version__ = "0.1.0"

_HOMES = {
    "Config": "hames.api.harness",
    "EventHandler": "hames.api.harness",
    "Harness": "hames.api.harness",
    "HarnessError": "hames.domain.errors",
    "PromptCancelled": "hames.api.harness",
    "ProviderError": "hames.domain.errors",
    "Tool": "hames.api.harness",
    "TurnBusy": "hames.domain.errors",
    "tool": "hames.tools.function",
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
