"""Reviews by another agent than the one that wrote: who carries out one turn of a thread."""

from collections.abc import Collection

from hames.core.threads import Threads
from hames.domain.errors import InvalidCommand
from hames.domain.state import ThreadState


def find_reviewer(name: str, agents: Collection[str], threads: Threads) -> str:
    """The model of a review: an agent's default, or a model. Empty: the thread's own.

    Raises `UnknownModel`, and `InvalidCommand` where one agent runs every turn.
    """
    if not name:
        return ""
    if threads.rules.only_agent:
        raise InvalidCommand("one agent runs every turn on this server, so no other one can review")
    return threads.models.find(f"{name}/default" if name in agents else name).id


def turn_model(state: ThreadState) -> str:
    """The model of the running turn alone, which another process began."""
    return state.running.model if state.running is not None else ""
