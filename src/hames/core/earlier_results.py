"""Results of tool calls that are no longer shown to the model, or only in part: it can read them again by name."""

from collections.abc import Callable

from hames.domain.items import ToolItem
from hames.domain.state import ThreadState

_PREFIX = "result:"


def result_path(item: ToolItem | None) -> str:
    """The path under which `read` shows the result of a call; empty: it has none."""
    return f"{_PREFIX}{item.id}" if item is not None and item.result is not None else ""


class EarlierResults:
    """Implements `ports.PastResults` for one thread. The log has them all, so nothing is kept for this."""

    def __init__(self, state: Callable[[], ThreadState]) -> None:
        self._state = state

    def find(self, path: str) -> str | None:
        """Models like to give whole paths, so only the last part counts."""
        name = path.rpartition("/")[2]
        if not name.startswith(_PREFIX):
            return None
        for turn in reversed(self._state().turns):
            for item in turn.items:
                if isinstance(item, ToolItem) and item.result is not None and result_path(item) == name:
                    return item.result.text
        return None
