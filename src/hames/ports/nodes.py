"""Nodes: the processes that work on the threads of one shared store, on any number of machines.

A node has a lease, which it renews. When the lease of a node has ended, other nodes claim its threads. The lease only
decides when they try: what keeps two nodes from writing one thread is the epoch that the store checks with each append
(`Fenced`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from hames.domain.commands import Standing
from hames.domain.ids import ThreadId
from hames.domain.value import Value


class NodeStatus(Value):
    """A node as `hames nodes` shows it."""

    id: str
    name: str
    labels: tuple[str, ...] = ()
    slots: int = 0
    """How many turns it takes up at once. 0: it runs none (a gateway)."""
    threads: int = 0
    """The threads that it writes."""
    running: int = 0
    """Those of them that run a turn."""
    live: bool = True
    """Its lease has not ended."""
    seen_s: float = 0.0
    """Seconds since it last renewed its lease."""
    lag_ms: int = 0
    """How long its last renewal took."""
    version: str = ""
    lease_s: float = 0.0
    """So long its lease still lasts."""
    inbox: int = 0
    """Commands for its threads that have no answer yet."""
    claimed: int = 0
    """Threads that it took up since it started."""
    fenced: int = 0
    """Threads that other nodes took from it."""
    followers: int = 0
    """Readers on it that follow threads which other nodes write."""
    facts: int = 0
    deltas: int = 0
    batches: int = 0
    """Records, pieces of text and statements that it wrote since it started."""
    waiting: int = 0
    """Threads with something that is not written yet."""
    append_ms: float = 0.0
    append_ms_p99: float = 0.0
    """How long its last few hundred appends took: the median, and all but one in a hundred."""


class Viewing(Value):
    """A node on which somebody watches a thread."""

    node: str
    thread_id: ThreadId
    answers: bool
    """Somebody there can decide approvals."""
    tools: int = 0
    """The highest rank of the clients there that carry out tools of the thread (`ToolClient`)."""


class Nodes(Protocol):
    """This process as a node, and the others. Everything raises `StorageFailed` when the store cannot be reached."""

    id: str
    """Of this process: two processes never have the same."""
    name: str
    """Of the machine, as people know it; a thread's place may name it."""
    slots: int
    lease_s: float
    viewing: dict[ThreadId, Viewing]
    """The threads of other nodes that are watched here."""

    async def register(self) -> None:
        """Before anything else. Raises `Misconfigured` too."""
        ...

    async def renew(self, *, lag_ms: int) -> Sequence[Viewing]:
        """Renews the lease, and says what is watched here. Returns who watches the threads of this node elsewhere."""
        ...

    async def claim(self, limit: int, held: Collection[ThreadId]) -> list[ThreadId]:
        """Makes this node the writer of up to `limit` threads that need one: to go on with a turn, to carry out a
        command, or because their time has come. `held` are those that it has open.

        A thread is given to one node only, and only to a node that its place allows.
        """
        ...

    async def claim_displaced(self) -> list[ThreadId]:
        """Makes this node the writer of threads whose turn waits for a place that no node has, each once."""
        ...

    async def set_standings(self, standings: Mapping[ThreadId, Standing]) -> None:
        """For the lists of other nodes."""
        ...

    async def put_back(self, thread_id: ThreadId, *, seconds: float) -> None:
        """A claimed thread could not be opened: others may try, and this node not for some time."""
        ...

    async def wait_for_work(self, seconds: float) -> None:
        """Returns when there may be something to claim, and at the latest after so many seconds. Raises nothing."""
        ...

    async def leave(self) -> None:
        """Gives back all threads at once and ends the lease. Raises nothing."""
        ...

    async def list(self) -> Sequence[NodeStatus]: ...


class Letter(Value):
    """A command for a thread of this node, as another node sent it, or a call of a tool for a client of this node."""

    key: str
    """Of the command: the same command has the same key, however often it is sent."""
    thread_id: ThreadId
    body: bytes
    repeated: bool = False
    """Another node had taken it before, and may have carried it out."""


class Letters(Protocol):
    """Commands between nodes, through the store: no node talks to another one.

    A letter that nobody has taken for a while is void (`LETTER_SECONDS`): whoever sent it has given it up by then.
    What is for a node and not for a thread is sent to the `mailbox` of the node, in place of a thread.

    Everything raises `StorageFailed` when the store cannot be reached, if it does not say otherwise.
    """

    def watch(self, on_letter: Callable[[], None], on_news: Callable[[], None]) -> None:
        """Calls these when there may be letters for this node, or the list of threads may have changed elsewhere."""
        ...

    async def has_other_writer(self, thread_id: ThreadId) -> bool:
        """Whether commands for the thread are another node's: it writes the thread, or this one may not."""
        ...

    def mailbox(self, node: str) -> ThreadId: ...

    async def send(self, thread_id: ThreadId, key: str, body: bytes) -> None:
        """The same letter may be sent twice, and is there once."""
        ...

    async def wait_for_answer(self, thread_id: ThreadId, key: str, seconds: float) -> bytes | None:
        """None: there is none yet. Empty: the letter is gone."""
        ...

    async def withdraw(self, key: str) -> bool:
        """Takes back a letter. False: somebody has taken it, and may carry it out."""
        ...

    async def discard(self, thread_id: ThreadId, key: str) -> None:
        """Takes back a letter, also from whoever has taken it."""
        ...

    async def receive(self, held: Collection[ThreadId], under_way: Collection[str]) -> Sequence[Letter]:
        """Takes the letters for this node and for these threads, which it has open. `under_way` are the keys of those
        that it has taken and not answered."""
        ...

    async def is_awaited(self, key: str) -> bool:
        """Whether the node that sent the letter still lives and waits for the answer."""
        ...

    async def is_live(self, node: str) -> bool: ...

    async def answer(self, key: str, body: bytes) -> None: ...

    async def put_back(self, key: str) -> None:
        """Leaves a letter to whoever writes its thread now."""
        ...

    async def find_approval(self, approval_id: str) -> ThreadId | None:
        """The thread of which a running turn asked this."""
        ...

    async def standings(self) -> Mapping[ThreadId, Standing]:
        """Of the threads that other nodes write."""
        ...

    def set_viewing(self, thread_id: ThreadId, *, answers: bool | None, tools: int = 0) -> None:
        """Somebody here watches a thread of another node. None: no more. `tools` as in `Viewing`."""
        ...

    async def tell_viewing(self) -> None:
        """Other nodes know from now on what is watched here. Without this it is told with the lease."""
        ...

    async def tool_nodes(self, thread_id: ThreadId) -> Sequence[Viewing]:
        """The other nodes with clients that carry out tools of the thread. Those that came last are last."""
        ...

    def send_news(self) -> None:
        """The list of our threads has changed. Raises nothing."""
        ...
