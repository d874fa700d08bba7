"""MCP servers as tools, on the official SDK. A server that hangs, dies or floods fails its call and nothing else.

The SDK takes most of a second to import, so it is imported when a thread with
servers runs its first turn. Servers are the user's own programs: they are started with
a small environment and outside the sandbox, and end with their thread.
"""

import logging
import os
import zlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from hames.deferred import pattern
from hames.domain.approvals import CallMcp
from hames.domain.display import shortened
from hames.domain.items import McpToolCall, ToolResult
from hames.domain.json import Json
from hames.domain.policy import SandboxPolicy
from hames.domain.servers import ServerState, ServerStatus, ServerTool
from hames.ports import Ask, Job, Place, Report, Tell, Tool, ToolFailed, Tools, ToolSpec
from hames.ports.sandbox import ProcessGuard
from hames.tools.mcp.elicitation import CallElicitations, declined
from hames.tools.mcp.process import ServerProcess
from hames.tools.mcp.results import read_result, structured_content
from hames.tools.mcp.settings import McpServerSettings, thread_server
from hames.tools.mcp.transport import bound_response, server_command, server_environment

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult
    from mcp.types import Tool as McpTool

log = logging.getLogger(__name__)

SLOW_SECONDS = 2.0
"""A server that takes longer than that to start is mentioned."""
ENDING_SECONDS = 4.0
"""How long a call whose connection was lost waits to hear how its server ended."""
CALL_SECONDS = 120.0
PROGRESS_CHARS = 20_000
"""Of what a call tells on its way: all of it is kept in the log."""
NAME_CHARS = 64
HTTP_ERRORS = 400
WHY_CHARS = 120
"""Of an answer that is no MCP."""
SENTENCE_CHARS = 300
TOOLS_PER_SERVER = 200
DESCRIPTION_CHARS = 2000

_NOT_IN_NAME = pattern(r"[^a-zA-Z0-9_-]")


class McpTools:
    """Implements `ports.Tools`: what `beside` offers, and behind it the tools of these servers."""

    def __init__(
        self,
        beside: Tools,
        servers: Sequence[McpServerSettings],
        *,
        call_seconds: float = CALL_SECONDS,
        guard: ProcessGuard | None = None,
    ) -> None:
        self._beside = beside
        self._guard = guard
        self._servers = servers
        self._call_seconds = call_seconds

    @asynccontextmanager
    async def open(self, place: Place, report: Report) -> AsyncGenerator[Sequence[Tool]]:
        async with AsyncExitStack() as stack:
            own = await stack.enter_async_context(self._beside.open(place, report))
            servers = {server.name: server for server in self._servers}
            servers |= {server.name: thread_server(server, os.environ) for server in place.servers}
            if not servers:
                yield own
                return
            tasks = await stack.enter_async_context(anyio.create_task_group())
            connections = [
                McpConnection(server, place, report, self._call_seconds, self._guard) for server in servers.values()
            ]
            async with anyio.create_task_group() as starting:
                for connection in connections:
                    starting.start_soon(connection.start, tasks)
            try:
                yield [*own, *(tool for connection in connections for tool in connection.tools)]
            finally:
                tasks.cancel_scope.cancel()


class McpConnection:
    """One server, for as long as its thread is open. When it is lost, the next call tries once to have it back."""

    def __init__(
        self,
        server: McpServerSettings,
        place: Place,
        report: Report,
        call_seconds: float,
        guard: ProcessGuard | None = None,
    ) -> None:
        self.server = server
        self._guard = guard
        self.tools: list[Tool] = []
        self._report = report
        self._place = place
        self._call_seconds = server.call_seconds or call_seconds
        self._client: Client | None = None
        self._process: ServerProcess | None = None
        self._http_status: int | None = None
        """Of the last answer from an address."""
        self._problem = ""
        self._asking: CallElicitations | None = None
        self._again = anyio.Event()
        self._ready = anyio.Event()

    async def start(self, tasks: TaskGroup) -> None:
        """Returns when the server is there, has failed, or has taken too long. `tasks` runs it from then on."""
        await self._report(self._status("starting"))
        try:
            self._words()
        except OSError as problem:
            await self._fail(self._why(problem))
            return
        with suppress(ModuleNotFoundError):  # said when it is used
            await anyio.to_thread.run_sync(import_module, "mcp")  # takes most of a second, which is not the server's
        in_time = False
        async with anyio.create_task_group() as beside:
            with anyio.CancelScope() as starting:
                beside.start_soon(self._lose_patience, starting)
                await tasks.start(self._run)
                in_time = True
            beside.cancel_scope.cancel()
        if not in_time:
            await self._fail(f"it did not answer within {self.server.start_seconds:g} s{self._last_words()}")

    async def _lose_patience(self, starting: anyio.CancelScope) -> None:
        with anyio.move_on_after(self.server.start_seconds):
            await anyio.sleep(SLOW_SECONDS)
            if not self._ready.is_set():
                await self._report(self._status("starting", waited=True))
            await anyio.sleep_forever()
        starting.cancel()

    async def _run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
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
                async with self._connected() as client:
                    if starting:
                        listed = [tool for tool in await _listed(client) if self._offers(tool)]
                        names = model_names(self.server.name, [tool.name for tool in listed])
                        self.tools = [McpServerTool(self, *named) for named in zip(listed, names, strict=True)]
                    self._client = client
                    self._ready.set()
                    await self._report(self._status("ready", tools=self._offered()))
                    announce()
                    await self._until_lost()
            except Exception as problem:
                await self._fail(self._why(problem))
            self._client = None
            if not self._again.is_set():
                announce()
                await self._again.wait()
            self._again = anyio.Event()

    def _status(
        self, state: ServerState, *, reason: str = "", tools: tuple[ServerTool, ...] = (), waited: bool = False
    ) -> ServerStatus:
        server = self.server
        return ServerStatus(
            name=server.name, state=state, reason=reason, tools=tools, waited=waited, configured=server.configured
        )

    def _offers(self, tool: "McpTool") -> bool:
        wanted = self.server.enabled_tools
        return (wanted is None or tool.name in wanted) and tool.name not in self.server.disabled_tools

    def _offered(self) -> tuple[ServerTool, ...]:
        return tuple(
            ServerTool(name=tool.spec.name, description=tool.spec.description, schema=tool.spec.schema)
            for tool in self.tools
        )

    async def _until_lost(self) -> None:
        """Until a call has failed, or the program has ended. Raises `ConnectionError` for the latter."""
        process = self._process
        if process is None:
            await self._again.wait()
            return
        async with anyio.create_task_group() as waiting:

            async def until_again() -> None:
                await self._again.wait()
                waiting.cancel_scope.cancel()

            waiting.start_soon(until_again)
            await process.ended.wait()
            waiting.cancel_scope.cancel()
        if process.ending:
            raise ConnectionError(process.ending)

    async def _fail(self, reason: str) -> None:
        self._problem = reason
        self._client = None
        if not self._again.is_set():  # whoever asked for another try waits for its outcome, not for this one
            self._ready.set()
        log.warning("mcp.lost", extra={"server": self.server.name, "why": reason})
        await self._report(self._status("failed", reason=reason, tools=self._offered()))

    def _why(self, problem: BaseException) -> str:
        """Why it does not work, for people."""
        while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
            problem = problem.exceptions[0]
        if self._process is not None and self._process.ending:
            return f"it {self._process.ending}{self._last_words()}"
        match problem:
            case _ if self.server.problem:
                return self.server.problem
            case ModuleNotFoundError():
                return f"the Python package {problem.name!r} is missing: pip install mcp"
            case FileNotFoundError() if not Path(self._cwd).is_dir():
                return f"no directory {self._cwd!r}"
            case FileNotFoundError():
                return f"program not found: {self.server.command!r}"
            case OSError(strerror=str(why)) if not self.server.url:
                return f"{self.server.command!r} cannot be run: {why}"
            case _ if self.server.url:
                return self._why_not_reached(_sentence(problem))
            case _:
                return _sentence(problem) + self._last_words()

    def _why_not_reached(self, why: str) -> str:
        """Of an address. What stands behind its host may be a key."""
        host = urlsplit(self.server.url).netloc.rpartition("@")[2]
        if self._http_status is None:
            return f"{host} cannot be reached: {why}"
        if self._http_status >= HTTP_ERRORS:
            key = "; check the key in `headers`" if self._http_status in (401, 403) else ""
            return f"{host} answered with HTTP {self._http_status}{key}"
        return f"{host} does not speak MCP: {shortened(why, WHY_CHARS)}"

    def _words(self) -> list[str]:
        """The program and its arguments, none for an address. Raises `OSError` where nothing can be started, which is
        known without the SDK."""
        server = self.server
        if server.problem:
            raise ConnectionError(server.problem)
        if server.url:
            return []
        environment = server_environment(server.env)
        words = server_command(server.command, server.args, environment=environment, workspace=self._place.workspace)
        if not words:
            raise FileNotFoundError(server.command)
        Path(self._cwd, words[0]).stat()
        return words

    @property
    def _cwd(self) -> str:
        return str(Path(self._place.cwd, self.server.cwd))

    def _last_words(self) -> str:
        said = self._process.last_words() if self._process is not None else ""
        return f": {said}" if said else ""

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
                    self._asking = CallElicitations(self.server.name, ask, tell, tasks=questions, patience=patience)
                    outcome = await client.call_tool(tool, arguments, progress_callback=told)
            except TimeoutError:
                outcome = ToolFailed(f"{self.server.name} did not answer within {self._call_seconds:g} s")
            except Exception as problem:
                outcome = ToolFailed(f"the call to {self.server.name} failed: {await self._lost(client, problem)}")
            finally:
                self._asking = None
                questions.cancel_scope.cancel()
        if isinstance(outcome, ToolFailed):
            raise outcome
        return outcome

    async def _lost(self, client: "Client", problem: Exception) -> str:
        """Why a call failed: perhaps because its server has ended, which is about to be known."""
        if not _is_disconnected(problem):
            return _sentence(problem)
        if self._client is client:
            self._client = None
        if self._process is not None and not self._process.ending:
            with anyio.move_on_after(ENDING_SECONDS):
                await self._process.ended.wait()
        return self._why(problem)

    async def _note_status(self, response: "httpx2.Response") -> None:
        self._http_status = response.status_code

    async def _elicit(self, context: Any, params: "ElicitRequestParams") -> "ElicitResult":  # noqa: ARG002 - the SDK's
        if self._asking is None:
            return declined(self.server.name, "no call of its tools is running")
        return await self._asking.answer(params)

    async def _restarted(self) -> "Client":
        self._ready = anyio.Event()
        self._again.set()
        with anyio.move_on_after(self.server.start_seconds):
            await self._ready.wait()
        if self._client is None:
            raise ToolFailed(f"the MCP server {self.server.name!r} is gone: {self._problem or 'it does not start'}")
        return self._client

    @asynccontextmanager
    async def _connected(self) -> "AsyncGenerator[Client]":
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client
        from mcp.types import Implementation, ListRootsResult, Root

        async def roots(context: Any) -> ListRootsResult:  # noqa: ARG001 - named by the SDK
            workspace = Path(self._place.workspace).as_uri()
            return ListRootsResult(roots=[Root.model_validate({"uri": workspace, "name": "workspace"})])

        server = self.server
        words = self._words()
        async with AsyncExitStack() as stack:
            if server.url:
                self._http_status = None
                headers = {"accept-encoding": "identity", **server.headers}
                hooks = {"response": [bound_response, self._note_status]}
                client = httpx2.AsyncClient(headers=headers, timeout=30.0, event_hooks=hooks)
                http = await stack.enter_async_context(client)
                transport = streamable_http_client(server.url, http_client=http)
            else:
                environment = server_environment(server.env)
                self._process = ServerProcess(words, cwd=self._cwd, environment=environment, guard=self._guard)
                transport = self._process.connect()
            client = Client(
                transport,
                list_roots_callback=roots,
                elicitation_callback=self._elicit,
                client_info=Implementation(name="hames", version="1"),
            )
            yield await stack.enter_async_context(client)


def model_names(server: str, tools: Sequence[str]) -> list[str]:
    """What the model calls the tools of a server: legal everywhere, and no two alike.

    >>> model_names("files", ["read", "a.b", "a_b"])
    ['mcp__files__read', 'mcp__files__a_b', 'mcp__files__a_b_87e043e6']
    """
    names: list[str] = []
    for tool in tools:
        full = f"mcp__{server}__{tool}"
        name = _NOT_IN_NAME.sub("_", full)
        if len(name) > NAME_CHARS or name in names:
            mark = f"_{zlib.crc32(full.encode()):08x}"
            name = name[: NAME_CHARS - len(mark)] + mark
        names.append(name)
    return names


class McpServerTool:
    def __init__(self, connection: McpConnection, tool: "McpTool", name: str) -> None:
        self.connection = connection
        self.tool = tool.name
        self.spec = ToolSpec(
            name=name,
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
        text, pictures = read_result(answer)
        return replace(
            self.item,
            status="failed" if answer.is_error else "completed",
            structured=structured_content(answer),
            result=ToolResult(text=text, failed=answer.is_error, pictures=pictures),
        )


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


def _is_disconnected(problem: BaseException) -> bool:
    """Not an answer of the server's, which says itself what is wrong."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    return not isinstance(problem, MCPError) or problem.error.code == CONNECTION_CLOSED


def _sentence(problem: BaseException) -> str:
    """The reason at the bottom of what the SDK wraps."""
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    return shortened(str(problem), SENTENCE_CHARS) or type(problem).__name__
