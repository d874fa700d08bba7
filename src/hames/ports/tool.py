"""Tools: what the model can do, from a call that was understood to its result."""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from hames.domain.approvals import Answer, Elicit, Intent
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import Call, Stream, ToolItem, ToolResult
from hames.domain.json import Json
from hames.domain.network import HostPort
from hames.domain.options import ThreadServer
from hames.domain.policy import SandboxPolicy
from hames.domain.processes import ProcessStatus
from hames.domain.rules import Rule
from hames.domain.servers import ServerStatus
from hames.domain.value import Value
from hames.ports.sandbox import Process
from hames.ports.workspace import Workspace


class Translate(Protocol):
    """From the arguments of a form to the name of a tool and its own arguments. Raises `ToolFailed`."""

    def __call__(self, arguments: dict[str, Json]) -> tuple[str, Json]: ...


class ToolForm(Value):
    """A tool under a name and in a shape that models were trained on. A call by this name is always understood."""

    name: str
    translate: Translate
    dialect: str = ""
    """The models (`ModelCard.dialect`) that are offered it instead of the plain tool; empty: none."""
    description: str = ""
    schema: Json = None
    """Checked before it is translated. None: any object is translated."""
    grammar: str = ""
    """Where the service can, the model writes plain text by this grammar (Lark) instead of JSON: it becomes the one
    member that `schema` requires."""


class ToolSpec(Value):
    """A tool as the model is told of it. `schema` is JSON Schema of an object."""

    name: str
    description: str
    schema: Json
    writes: bool = False
    """May change something: not offered to the `plan` and `review` agents."""
    changes_files: bool = False
    """Changes files of the workspace and nothing else: not offered where the sandbox is read-only."""
    sandboxed: str = ""
    """Added to the description where commands run in a sandbox."""
    asking: tuple[str, ...] = ()
    """Properties of the schema that ask a person to let a command out of the sandbox: offered only where one can."""
    offered: bool = True
    """False: the model is not told of it, and may call it all the same."""
    forms: tuple[ToolForm, ...] = ()
    not_for: tuple[str, ...] = ()
    """Dialects that have something better, and are not told of it."""
    asks: bool = False
    """It only puts questions to a person: not offered where nobody is asked."""
    parallel: bool = False
    """It only looks: calls beside each other in a reply may run at the same time."""


class PastResults(Protocol):
    """The results of earlier tool calls of a thread, by the paths that the model is told."""

    def find(self, path: str) -> str | None: ...


class Place(Value):
    """Where a tool runs. `workspace` bounds its files; `cwd` is where relative paths start."""

    files: Workspace
    thread_id: ThreadId
    turn_id: TurnId
    workspace: str
    cwd: str
    sandbox: SandboxPolicy
    servers: tuple[ThreadServer, ...] = ()
    """The MCP servers that a client named for this thread, with the values that are known."""
    can_leave: bool = True
    """Whether a person may let a command out of the sandbox. Where nobody can, no error suggests it."""
    readable: tuple[str, ...] = ()
    """Directories outside the workspace whose files may be read."""
    results: PastResults | None = None
    terminals: "CommandTerminals | None" = None
    """For commands that run without a sandbox."""
    runs_unasked: bool = False
    """Whether any command runs in the sandbox without a question."""
    has_host_rules: bool = False
    """Rules name hosts, so a page that leads to another host is not followed: that is judged on its own."""
    denied: tuple[Rule, ...] = ()
    """Rules that deny reading or changing files: they hold for whatever a tool starts, too."""


class Ask(Protocol):
    """Puts a question of a running tool to a person, and waits. The answer is in the log before it is returned.

    Where nobody may be asked it is a rejection, whose note says why. Cancel it when the answer is of no use any more.
    """

    def __call__(self, question: Elicit) -> Awaitable[Answer]: ...


class AskHost(Protocol):
    """Asks whether the command, which runs, may connect to a host. Returns why not, or an empty text."""

    def __call__(self, command: str, cwd: str, to: HostPort) -> Awaitable[str]: ...


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
    ask_host: AskHost | None = None
    """For connections of its command to hosts that the sandbox does not name. None: there is nobody to ask."""


class Tell(Protocol):
    """Tells watchers what a running tool says."""

    def __call__(self, text: str, stream: Stream = "output") -> Awaitable[None]: ...


class Work(Protocol):
    """A call understood and not yet carried out.

    `item` is what people see from the start; `intent` is what is judged.
    `run` carries it out and returns the item as it ended, `result` set; the core fills
    its streams from what was told. It may be cancelled at any await, and nothing it started outlives that, except what
    was asked to run in the background: that ends with the tools.
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


class HostTool(Protocol):
    """Something the agent can do. An exception from `execute` is an error the agent reads.

    A tool may also have `read_only = True`: it changes nothing, so nobody is asked about it, and the agents that only
    read are offered it as well.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def input_schema(self) -> Mapping[str, Json]: ...

    def execute(self, input: dict[str, Json]) -> str | Awaitable[str]: ...  # noqa: A002 - the specification's word


class ClientToolCall(Value):
    """A call of a tool that a client carries out."""

    thread_id: ThreadId
    turn_id: TurnId
    item_id: ItemId
    tool: str
    """As the client declared it."""
    namespace: str
    arguments: Json


class ToolClient(Protocol):
    """A connected client that may carry out tools."""

    def tool_rank(self, thread_id: ThreadId) -> int:
        """0: it carries out none of this thread's. The client with the highest number is asked."""
        ...

    async def call_tool(self, call: ClientToolCall) -> ToolResult:
        """Never raises: an error of the client, or that it has gone, is a failed result."""
        ...


@runtime_checkable
class EditorClient(Protocol):
    """A connected client that may be an editor. Nothing here raises: None and False say that it was not done."""

    def editor_rank(self, thread_id: ThreadId) -> int:
        """0: it is none, or shows no files of this thread. The client with the highest number is asked."""
        ...

    async def read_file(self, thread_id: ThreadId, path: str) -> str | None:
        """The text that it shows of a file, unsaved changes included. It has a short deadline."""
        ...

    async def write_file(self, thread_id: ThreadId, path: str, text: str) -> bool:
        """Tells it the new text of a file."""
        ...

    def terminal_rank(self, thread_id: ThreadId) -> int:
        """The same for its terminals."""
        ...

    async def use_terminal(self, thread_id: ThreadId, item_id: ItemId, action: str, about: dict[str, Json]) -> Json:
        """`action` is create, output, kill or release. None: it did not do it."""
        ...


class CommandTerminals(Protocol):
    """Terminals outside of any sandbox in which people watch a command."""

    async def start(self, item_id: ItemId, argv: tuple[str, ...], cwd: str) -> Process | None:
        """None: there is none, and the command was not started."""
        ...


class Report(Protocol):
    """Hears how an MCP server is doing, whenever that changes. It raises nothing."""

    def __call__(self, status: ServerStatus) -> Awaitable[None]: ...


@runtime_checkable
class ProcessTable(Protocol):
    """The processes that a thread's tools started in the background. A tool that has one offers it as `processes`."""

    def statuses(self) -> tuple[ProcessStatus, ...]:
        """Those that run and the last that ended, oldest first."""
        ...

    def is_any_running(self) -> bool: ...

    def take_ended(self) -> tuple[ProcessStatus, ...]:
        """Those that ended and of whose end the model has not been told. Each is returned once."""
        ...

    async def end(self, number: int) -> bool:
        """False: there is none of that number that runs."""
        ...

    async def end_all(self) -> None: ...


class Tools(Protocol):
    """The tools of a thread, opened with its first turn and closed with the thread.

    Whatever is missing is said to `report`; what is there is offered all the same.
    """

    def open(self, place: Place, report: Report) -> AbstractAsyncContextManager[Sequence[Tool]]: ...
