"""MCP servers as tools, on the official SDK. A server that hangs, dies or floods fails its call and nothing else.

The SDK takes most of a second to import, so it is imported when a thread with
servers runs its first turn. Servers are the user's own programs: they are started with
a small environment and outside the sandbox, and end with their thread.
"""

import base64
import json
import logging
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import TaskStatus
from msgspec.structs import replace

from hames.domain.approvals import CallMcp
from hames.domain.items import McpToolCall, Picture, ToolResult
from hames.domain.json import Json
from hames.domain.pictures import shape
from hames.domain.policy import SandboxPolicy
from hames.domain.value import Value
from hames.ports import Ask, Job, Place, Tell, Tool, ToolFailed, Tools, ToolSpec
from hames.tools.elicitation import Elicitations, declined
from hames.tools.mcp_transport import Pipes, bound_response, server_command, server_environment

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import ElicitationFnT
    from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult
    from mcp.types import Tool as McpTool

log = logging.getLogger(__name__)

START_SECONDS = 15.0
CALL_SECONDS = 120.0
RESULT_CHARS = 60_000
PROGRESS_CHARS = 20_000
"""Of what a call tells on its way: all of it is kept in the log."""
STRUCTURED_BYTES = 1 << 20
PICTURE_CHARS = 14 << 20
"""Of the pictures of an answer together, in base64."""
NAME_CHARS = 64
TOOLS_PER_SERVER = 200
DESCRIPTION_CHARS = 2000

_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class Server(Value):
    """A program to start, or an address to reach."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}


class McpTools:
    """Implements `ports.Tools`: what `beside` offers, and behind it the tools of these servers."""

    def __init__(self, beside: Tools, servers: Sequence[Server], *, call_seconds: float = CALL_SECONDS) -> None:
        self._beside = beside
        self._servers = servers
        self._call_seconds = call_seconds

    @asynccontextmanager
    async def open(self, place: Place) -> AsyncGenerator[Sequence[Tool]]:
        async with AsyncExitStack() as stack:
            own = await stack.enter_async_context(self._beside.open(place))
            tasks = await stack.enter_async_context(anyio.create_task_group())
            connections = [Connection(server, place, self._call_seconds) for server in self._servers]
            async with anyio.create_task_group() as starting:
                for connection in connections:
                    starting.start_soon(_start, tasks, connection)
            try:
                yield [*own, *(tool for connection in connections for tool in connection.tools)]
            finally:
                tasks.cancel_scope.cancel()


async def _start(tasks: anyio.abc.TaskGroup, connection: "Connection") -> None:
    with anyio.move_on_after(START_SECONDS) as patience:
        await tasks.start(connection.run)
    if patience.cancelled_caught:
        log.warning("mcp.start_timeout", extra={"server": connection.server.name, "seconds": START_SECONDS})


class Connection:
    """One server, for as long as its thread is open. When it is lost, the next call tries once to have it back."""

    def __init__(self, server: Server, place: Place, call_seconds: float) -> None:
        self.server = server
        self.tools: list[Tool] = []
        self.problem = ""
        self._place = place
        self._call_seconds = call_seconds
        self._client: Client | None = None
        self._pipes: Pipes | None = None
        self._asking: Elicitations | None = None
        self._again = anyio.Event()
        self._ready = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled. Never raises: a server's trouble is not its thread's."""
        starting = True

        def announce() -> None:
            nonlocal starting
            self._ready.set()
            if starting:
                starting = False
                task_status.started()

        while True:
            try:
                self._pipes = None if self.server.url else _pipes(self.server, self._place)
                async with _client(self.server, self._place, self._pipes, self._elicit) as client:
                    if starting:
                        self.tools = [McpServerTool(self, tool) for tool in await _listed(client)]
                    self._client, self.problem = client, ""
                    announce()
                    await self._again.wait()
            except Exception as problem:
                self.problem = _sentence(problem)
                log.warning("mcp.lost", extra={"server": self.server.name, "why": self.problem})
            self._client = None
            if not self._again.is_set():
                announce()
                await self._again.wait()
            self._again = anyio.Event()

    async def call(self, tool: str, arguments: dict[str, Json], tell: Tell, ask: Ask | None) -> "CallToolResult":
        """Raises `ToolFailed`. What the server asks meanwhile is over when the call is."""
        client = self._client or await self._restarted()
        room = PROGRESS_CHARS

        async def told(progress: float, total: float | None, message: str | None) -> None:
            nonlocal room
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            line = f"{share}{f': {message[:room]}' if message else ''}\n"
            if room > 0:
                room -= len(line)
                await tell(line if room > 0 else f"{line}[… more progress is not shown …]\n")

        outcome: CallToolResult | ToolFailed = ToolFailed("interrupted")
        async with anyio.create_task_group() as questions:
            try:
                with anyio.fail_after(self._call_seconds) as patience:
                    self._asking = Elicitations(self.server.name, ask, tell, tasks=questions, patience=patience)
                    outcome = await client.call_tool(tool, arguments, progress_callback=told)
            except TimeoutError:
                outcome = ToolFailed(f"{self.server.name} did not answer within {self._call_seconds:g} s")
            except Exception as problem:
                self._client = None
                why = (self._pipes.problem if self._pipes is not None else "") or _sentence(problem)
                outcome = ToolFailed(f"the call to {self.server.name} failed: {why}")
            finally:
                self._asking = None
                questions.cancel_scope.cancel()
        if isinstance(outcome, ToolFailed):
            raise outcome
        return outcome

    async def _elicit(self, context: Any, params: "ElicitRequestParams") -> "ElicitResult":  # noqa: ARG002 - the SDK's
        if self._asking is None:
            return declined(self.server.name, "no call of its tools is running")
        return await self._asking.answer(params)

    async def _restarted(self) -> "Client":
        self._ready = anyio.Event()
        self._again.set()
        with anyio.move_on_after(START_SECONDS):
            await self._ready.wait()
        if self._client is None:
            raise ToolFailed(f"the MCP server {self.server.name!r} is gone: {self.problem or 'it does not start'}")
        return self._client


class McpServerTool:
    def __init__(self, connection: Connection, tool: "McpTool") -> None:
        self.connection = connection
        self.tool = tool.name
        full = f"mcp__{connection.server.name}__{tool.name}"
        self.spec = ToolSpec(
            name=_NOT_IN_NAME.sub("_", full)[:NAME_CHARS],
            description=(tool.description or tool.title or "")[:DESCRIPTION_CHARS],
            schema=_object_schema(tool.input_schema),
            writes=not (tool.annotations is not None and tool.annotations.read_only_hint),
        )

    async def prepare(self, job: Job) -> "McpWork":
        return McpWork(self, job)


class McpWork:
    def __init__(self, tool: McpServerTool, job: Job) -> None:
        server = tool.connection.server.name
        self.item = McpToolCall(
            id=job.item_id,
            step=job.step,
            call_id=job.call.id,
            server=server,
            tool=tool.tool,
            arguments=job.arguments,
        )
        self.intent = CallMcp(server=server, tool=tool.tool, arguments=job.arguments)
        self._tool = tool
        self._arguments: dict[str, Json] = job.arguments
        self._ask = job.ask

    async def run(self, tell: Tell, policy: SandboxPolicy) -> McpToolCall:  # noqa: ARG002 - the server is outside
        answer = await self._tool.connection.call(self._tool.tool, self._arguments, tell, self._ask)
        text, pictures = _read(answer)
        return replace(
            self.item,
            status="failed" if answer.is_error else "completed",
            structured=_structured(answer),
            result=ToolResult(text=text, failed=answer.is_error, pictures=pictures),
        )


@asynccontextmanager
async def _client(
    server: Server, place: Place, pipes: Pipes | None, elicit: "ElicitationFnT"
) -> "AsyncGenerator[Client]":
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.types import Implementation, ListRootsResult, Root

    async def roots(context: Any) -> ListRootsResult:  # noqa: ARG001 - named by the SDK
        return ListRootsResult(
            roots=[Root.model_validate({"uri": Path(place.workspace).as_uri(), "name": "workspace"})]
        )

    async with AsyncExitStack() as stack:
        if pipes is None:
            headers = {"accept-encoding": "identity", **server.headers}
            http = await stack.enter_async_context(
                httpx2.AsyncClient(headers=headers, timeout=30.0, event_hooks={"response": [bound_response]})
            )
            transport = streamable_http_client(server.url, http_client=http)
        else:
            transport = pipes.transport()
        client = Client(
            transport,
            list_roots_callback=roots,
            elicitation_callback=elicit,
            client_info=Implementation(name="hames", version="1"),
        )
        yield await stack.enter_async_context(client)


def _pipes(server: Server, place: Place) -> Pipes:
    """Raises `ToolFailed` when its program is not there."""
    environment = server_environment(server.env)
    command = server_command(server.command, server.args, environment=environment, workspace=place.workspace)
    if not command:
        raise ToolFailed(f"no program {server.command!r} is installed here")
    return Pipes(server.name, command, environment=environment, cwd=place.cwd)


async def _listed(client: "Client") -> "list[McpTool]":
    tools: list[McpTool] = []
    cursor: str | None = None
    while len(tools) < TOOLS_PER_SERVER:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        if not (cursor := page.next_cursor):
            break
    return tools[:TOOLS_PER_SERVER]


def _object_schema(schema: Mapping[str, Json] | None) -> Json:
    return {**(schema or {}), "type": "object"}


def _read(answer: "CallToolResult") -> tuple[str, tuple[Picture, ...]]:
    """What the model reads. Content it cannot be shown is named, so that nothing disappears silently."""
    texts: list[str] = []
    pictures: list[Picture] = []
    for block in answer.content:
        match block.type:
            case "text":
                texts.append(block.text)
            case "image":
                held = sum(len(one.base64) for one in pictures)
                picture, complaint = _picture(block.data, held)
                if picture is not None:
                    pictures.append(picture)
                else:
                    texts.append(f"[a picture that cannot be shown: {complaint}]")
            case "resource":
                texts.append(getattr(block.resource, "text", "") or f"[resource {block.resource.uri}]")
            case "resource_link":
                texts.append(f"[link {block.uri}]")
            case kind:
                texts.append(f"[{kind}]")
    if not texts and answer.structured_content is not None:
        texts.append(json.dumps(answer.structured_content, ensure_ascii=False))
    text = "\n".join(texts)
    if len(text) > RESULT_CHARS:
        cut = len(text) - RESULT_CHARS
        text = f"{text[: RESULT_CHARS // 2]}\n[… {cut} characters omitted …]\n{text[-RESULT_CHARS // 2 :]}"
    return text or "(no output)", tuple(pictures)


def _structured(answer: "CallToolResult") -> Json:
    """What it is worth keeping: the log has to be read again as a whole."""
    try:
        size = len(msgspec.json.encode(answer.structured_content))
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None
    return answer.structured_content if size <= STRUCTURED_BYTES else None


def _picture(data: str, held: int) -> tuple[Picture | None, str]:
    """A picture by what its bytes say: one that no service takes would be refused again with every later request.

    `held`: how much of the same answer is kept already.
    """
    if held + len(data) > PICTURE_CHARS:
        return None, "there is too much of it"
    try:
        found = shape(base64.b64decode(data, validate=True))
    except ValueError:
        found = None
    if found is None or found.complaint:
        return None, found.complaint if found else "it cannot be read"
    return Picture(media_type=found.media_type, base64=data), ""


def _sentence(problem: BaseException) -> str:
    """The reason at the bottom of what the SDK wraps."""
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    return " ".join(str(problem).split())[:300] or type(problem).__name__
