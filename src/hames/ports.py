"""Ports: what the engine needs, on one screen. Each docstring is the contract.

Rooms implement these and import no other room; `app.py` joins them.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hames.domain.approvals import Answer, Elicit, Intent
from hames.domain.commands import ThreadPage, ThreadSummary
from hames.domain.events import Record
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import Call, Item, Stream, ToolItem, UserMessage
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.notes import Note
from hames.domain.options import Selector, Settings
from hames.domain.policy import Decision, SandboxPolicy
from hames.domain.request import ModelEvent, ModelRequest
from hames.domain.servers import ServerStatus
from hames.domain.state import Turn
from hames.domain.usage import Usage
from hames.domain.value import Value


class Clock(Protocol):
    """The only one who tells the time."""

    def now_ms(self) -> int:
        """Wall clock, for people. It may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds, for durations."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """The only one who rolls the dice."""

    def new(self, prefix: str) -> str:
        """A name nobody has: the prefix, an underscore, then letters and digits that sort by time."""
        ...


class Provider(Protocol):
    """A model service.

    `stream` yields what the model produces, in order, ends with `ReplyEnded`, and
    raises `ProviderError` and nothing else. A `ToolCallEnded` is a whole call: one
    that was cut off is never reported. It retries only before its first event.
    It may be cancelled or closed at any await.
    """

    name: str

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]: ...


class Models(Protocol):
    """Which models there are, and who serves them."""

    @property
    def default(self) -> str: ...

    def find(self, name: str) -> ModelCard:
        """By `provider/model` or a bare model name. Raises `UnknownModel`."""
        ...

    def cards(self) -> Sequence[ModelCard]: ...

    def selectors(self) -> Sequence[Selector]: ...

    def provider(self, card: ModelCard) -> Provider:
        """Raises `Misconfigured` when a key or an endpoint is missing."""
        ...


class AgentTurn(Protocol):
    """A turn in an agent's hands: what was asked, and how it tells what it does.

    Every item is started once and completed once; `complete` fills its streams from what was told. What is still open
    when the agent returns is closed for it.
    """

    @property
    def thread_id(self) -> ThreadId: ...

    @property
    def turn_id(self) -> TurnId: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def prompt(self) -> UserMessage: ...

    @property
    def earlier(self) -> Sequence[Turn]:
        """The thread's turns before this one, oldest first, whoever ran them."""
        ...

    @property
    def forked_from(self) -> ThreadId | None:
        """The thread whose history this one began with. Its turns have the same names there."""
        ...

    def new_item_id(self) -> ItemId: ...

    async def start(self, item: Item) -> None: ...

    async def tell(self, item_id: ItemId, text: str, stream: Stream) -> None: ...

    async def complete(self, item: Item) -> None: ...

    async def ask(self, item_id: ItemId, intent: Intent, reason: str = "") -> tuple[Decision, str]:
        """A person's decision about a started item, and a note. Waits for it."""
        ...

    async def elicit(self, item_id: ItemId, intent: Elicit) -> Answer:
        """A person's answer to what an MCP server of the agent's asks. Waits for it."""
        ...

    async def report(self, usage: Usage) -> None: ...

    async def notice(self, name: str, message: str, data: Json = None) -> None: ...


class Agent(Protocol):
    """Somebody with a loop of its own: the same items, approvals and endings as ours.

    `run` returns its own word for why it stopped, and raises `ProviderError` and nothing else. It may be
    cancelled at any await, and nothing it started outlives that.
    """

    name: str

    async def run(self, turn: AgentTurn) -> str: ...


class ToolSpec(Value):
    """A tool as the model is told of it. `schema` is JSON Schema of an object."""

    name: str
    description: str
    schema: Json
    writes: bool = False
    """May change something: not offered to the `plan` and `review` agents."""


class Place(Value):
    """Where a tool runs. `workspace` bounds its files; `cwd` is where relative paths start."""

    thread_id: ThreadId
    turn_id: TurnId
    workspace: str
    cwd: str
    sandbox: SandboxPolicy


class Ask(Protocol):
    """Puts a question of a running tool to a person, and waits. The answer is in the log before it is returned.

    Where nobody may be asked it is a rejection, whose note says why. Cancel it when the answer is of no use any more.
    """

    def __call__(self, question: Elicit) -> Awaitable[Answer]: ...


class Job(Value):
    """One call to carry out, and the name and step its item will have."""

    call: Call
    arguments: Json
    """`call.arguments` decoded, and valid for the tool's schema."""
    item_id: ItemId
    step: int
    place: Place
    ask: Ask | None = None
    """For questions that come up while it runs. None: there is nobody to ask."""


class Tell(Protocol):
    """Tells watchers what a running tool says."""

    def __call__(self, text: str, stream: Stream = "output") -> Awaitable[None]: ...


class Work(Protocol):
    """A call understood and not yet carried out.

    `item` is what people see from the start; `intent` is what is judged.
    `run` carries it out and returns the item as it ended, `result` set; the core fills
    its streams from what was told. It may be cancelled at any await, and nothing it started outlives that.
    `policy` is the sandbox this run gets, which may be tighter than the thread's.
    """

    @property
    def item(self) -> ToolItem: ...

    @property
    def intent(self) -> Intent: ...

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem: ...


class Tool(Protocol):
    """Something the model can do.

    `prepare` looks and never touches. It raises `ToolFailed` for what the model should read and correct.
    """

    @property
    def spec(self) -> ToolSpec: ...

    async def prepare(self, job: Job) -> Work: ...


class ToolFailed(Exception):
    """A sentence for the model: the call was not carried out."""


class Report(Protocol):
    """Hears how an MCP server is doing, whenever that changes. It raises nothing."""

    def __call__(self, status: ServerStatus) -> Awaitable[None]: ...


class Tools(Protocol):
    """The tools of a thread, opened with its first turn and closed with the thread.

    Whatever is missing is said to `report`; what is there is offered all the same.
    """

    def open(self, place: Place, report: Report) -> AbstractAsyncContextManager[Sequence[Tool]]: ...


class Notes(Protocol):
    """Project notes, the most general first and the nearest last. It reads files, and raises nothing."""

    def read(self, cwd: str) -> tuple[Note, ...]: ...


class Limits(Value):
    """Per command. 0: no limit."""

    seconds: float = 120.0
    processes: int = 4096
    memory_bytes: int | None = None
    """Of the command with everything it starts. None: three quarters of the machine's memory."""
    file_bytes: int = 16 << 30
    """Of one file."""


class Launch(Value):
    """A program to start. `workspace` is what `workspaceWrite` makes writable, beside its roots."""

    argv: tuple[str, ...]
    cwd: str
    workspace: str
    policy: SandboxPolicy
    limits: Limits = Limits()


class Process(Protocol):
    """A running program and everything it started."""

    @property
    def pid(self) -> int: ...

    def output(self) -> AsyncIterator[bytes]:
        """stdout and stderr as they come; ends when the program has ended and its pipes are empty,
        or two seconds after it ended, whoever still holds them."""
        ...

    async def wait(self) -> int:
        """The exit code; negative for a signal."""
        ...

    async def kill(self) -> None:
        """Ends the program and every descendant within two seconds. Safe to call again."""
        ...


class Sandbox(Protocol):
    """Starts programs behind walls, and fails closed: `SandboxUnavailable` says what is missing."""

    async def spawn(self, launch: Launch) -> Process: ...


class Verdict(Value):
    """`reason` says why not, in words for people."""

    trusted: bool
    reason: str = ""
    sandbox_only: bool = False
    """Trusted only behind walls: it starts programs that look at more than their words."""


class Trust(Protocol):
    """Which commands need no question. Any doubt is an untrusted verdict; it raises nothing.

    It is called in a thread, several at a time, and given up on after a while.
    """

    def judge(self, command: str, *, cwd: str, workspace: str) -> Verdict: ...


class Log(Protocol):
    """One thread's log, held by its only writer.

    `append` returns when the records are kept (a killed process does not lose them) and, with
    `sync`, when they are safe (a power cut does not either). `jot` keeps a live delta until the bundle
    that contains it is appended. Both raise `StorageFailed`; after a failed sync the log is read-only for good.
    """

    thread_id: ThreadId
    repaired: str
    """What opening it had to mend, or nothing."""

    @property
    def foreign(self) -> bool:
        """Not written by this user on this machine, all of it: its settings and approvals are data, not consent."""
        ...

    async def read(self) -> list[Record]:
        """All of it, with jotted deltas that never made it into a bundle as last records."""
        ...

    async def append(self, records: Sequence[Record], *, sync: bool = False) -> None: ...

    def jot(self, record: Record) -> None: ...

    async def summarize(self, summary: ThreadSummary) -> None:
        """What lists show of this thread from now on."""
        ...

    def rest(self) -> None:
        """The turn is over: give back what only a running one needs."""
        ...

    async def close(self) -> None: ...


class Examined(Value):
    """What a log says, and whether it is foreign (see `Log.foreign`)."""

    records: list[Record]
    foreign: bool


class Store(Protocol):
    """Where threads are kept. Append-only; one writer at a time; a torn tail is a shorter log."""

    async def create(self, thread_id: ThreadId, *, foreign: bool = False) -> Log:
        """`foreign`: what will be written comes from a foreign thread, so this one is foreign, too."""
        ...

    async def open(self, thread_id: ThreadId) -> Log:
        """For writing. Raises `ThreadNotFound`, `ThreadInUse`, `ThreadReadOnly`."""
        ...

    async def read(self, thread_id: ThreadId, *, after: int = 0) -> list[Record]:
        """For looking. Raises `ThreadNotFound`."""
        ...

    async def examine(self, thread_id: ThreadId) -> Examined:
        """For looking, and whose it is: of the very bytes that were read. Raises `ThreadNotFound`."""
        ...

    async def page(self, *, limit: int | None, cursor: str | None, archived: bool, search: str) -> ThreadPage:
        """Newest first; opens no log. Raises `InvalidCommand` for a cursor it never gave."""
        ...

    async def delete(self, thread_id: ThreadId) -> None: ...

    async def close(self) -> None: ...
