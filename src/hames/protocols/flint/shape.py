"""`Shape`: what the engine's words look like on the wire.

There are two, because Codex's own clients speak a dialect that collides with flint in places:
`seed` is flint's, `codex` is theirs. Everything else in this package is written once, against this.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from hames.domain.approvals import Approval
from hames.domain.commands import ThreadSummary
from hames.domain.events import ItemDelta, Noticed, TurnEnded, UsageReported
from hames.domain.ids import ThreadId
from hames.domain.items import Item, Plan, UserInput
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.notes import NoteFile
from hames.domain.options import Selector, Settings
from hames.domain.state import ThreadState, Turn
from hames.domain.value import Value
from hames.protocols.rpc import Notify


class About(Value):
    """What the agent says of itself."""

    version: str
    provider: str
    """Who serves the default model."""
    home: str
    """Where threads are kept."""


Window = Callable[[str], int | None]
"""How many tokens a model's context holds, by the model's name."""


class Shape(Protocol):
    """Pure. Where it returns None, this audience is not told."""

    def spelled(self, thread_id: ThreadId) -> str:
        """A thread's id as this audience writes it."""
        ...

    def thread(self, state: ThreadState, *, turns: bool) -> Json: ...

    def listed(self, summary: ThreadSummary) -> Json: ...

    def opened(self, state: ThreadState, *, turns: bool) -> Json:
        """The answer to `thread/start`, `thread/resume` and `thread/fork`."""
        ...

    def page(self, threads: Sequence[Json], next_cursor: str | None) -> Json: ...

    def turn(self, turn: Turn) -> Json: ...

    def item(self, item: Item) -> Json | None: ...

    def inputs(self, content: Sequence[UserInput]) -> list[Json]: ...

    def plan(self, plan: Plan) -> list[Json]: ...

    def settings(self, settings: Settings) -> Json: ...

    def usage(self, state: ThreadState, event: UsageReported) -> Json: ...

    def ask(self, state: ThreadState, approval: Approval, at_ms: int) -> tuple[str, Json]:
        """Method and parameters of the question."""
        ...

    def delta(self, thread_id: ThreadId, event: ItemDelta, item: Item) -> Notify | None: ...

    def models(self, cards: Sequence[ModelCard], selectors: Sequence[Selector], default: str) -> Json: ...

    def queue(self, state: ThreadState) -> Json: ...

    def notices(self, thread_id: ThreadId, event: Noticed) -> list[Notify]: ...

    def notes(self, thread_id: ThreadId, files: Sequence[NoteFile]) -> list[Notify]: ...

    def failure(self, thread_id: ThreadId, event: TurnEnded) -> list[Notify]:
        """What is said of a failed turn before it is told as completed."""
        ...
