"""What an ACP agent (version 1) asks its client to do: read and write files, run commands in terminals.

All of it goes through our own tools, so rules, approvals, the sandbox and undo hold. A command is an item of the turn;
its terminal reads the item's output.
"""

import shlex

import anyio

from hames.agents.acp.permissions import Permissions
from hames.agents.acp.tool_calls import ToolCalls
from hames.agents.process import AgentProcess
from hames.codecs.jsonrpc_peer import INTERNAL_ERROR, INVALID_PARAMS, ServerRequest
from hames.domain.errors import HarnessError
from hames.domain.ids import ItemId
from hames.domain.items import CommandExecution, Item, ToolItem, reason_of
from hames.domain.json import Json
from hames.ports import OwnTools, ToolFailed, TurnHandle

NOT_FOUND = -32002
NOT_RUN = 126
"""The exit code of a command that was not allowed to run, as a shell has it."""
MOST_SECONDS = 600
METHODS = frozenset(
    {
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "terminal/output",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/release",
    }
)


class _Failed(Exception):
    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class Terminal:
    """A command that the agent asked us to run."""

    def __init__(self, terminal_id: ItemId, item_id: ItemId, limit: int | None) -> None:
        self.id = terminal_id
        self.item_id = item_id
        """The item that shows the command: a call that the agent announced, or one that has the terminal's id."""
        self.limit = limit
        """How many bytes of the output the agent wants at most."""
        self.item: Item | None = None
        """As it ended."""
        self.ended = anyio.Event()
        self.scope = anyio.CancelScope()


class ClientMethods:
    def __init__(self, process: AgentProcess, turn: TurnHandle, permissions: Permissions, calls: ToolCalls) -> None:
        self._process = process
        self._turn = turn
        self._permissions = permissions
        self._calls = calls
        self._tools = turn.own_tools
        self._terminals: dict[str, Terminal] = {}

    @property
    def is_offered(self) -> bool:
        return self._tools is not None

    async def close(self) -> None:
        for terminal in self._terminals.values():
            terminal.scope.cancel()

    async def answer(self, request: ServerRequest) -> None:
        params = request.params if isinstance(request.params, dict) else {}
        try:
            if request.method == "terminal/create":
                await self._create(request, params)
                return
            result = await self._result(request.method, params)
        except _Failed as failed:
            await self._process.refuse(request.id, str(failed), code=failed.code)
        except (ToolFailed, HarnessError) as failed:
            await self._process.refuse(request.id, str(failed), code=INTERNAL_ERROR)
        else:
            await self._process.answer(request.id, result)

    async def _result(self, method: str, params: dict[str, Json]) -> Json:
        match method:
            case "fs/read_text_file":
                return {"content": await self._read(params)}
            case "fs/write_text_file":
                await self._write(params)
                return {}
            case "terminal/output":
                return self._output(self._terminal(params))
            case "terminal/wait_for_exit":
                terminal = self._terminal(params)
                await terminal.ended.wait()
                return _exit_status(terminal)
            case "terminal/kill":
                await self._stop(self._terminal(params))
                return {}
            case _:  # terminal/release
                terminal = self._terminal(params)
                await self._stop(terminal)
                del self._terminals[terminal.id]
                return {}

    # -- files

    async def _read(self, params: dict[str, Json]) -> str:
        text = await self._own_tools.read_text(_path(params))
        line, limit = params.get("line"), params.get("limit")
        if not isinstance(line, int) and not isinstance(limit, int):
            return text
        first = max(0, line - 1) if isinstance(line, int) else 0
        lines = text.splitlines(keepends=True)[first:]
        return "".join(lines[:limit] if isinstance(limit, int) else lines)

    async def _write(self, params: dict[str, Json]) -> None:
        path, content = _path(params), params.get("content")
        if not isinstance(content, str):
            raise _Failed(INVALID_PARAMS, "`content` must be a text")
        new_id = self._turn.new_item_id()
        shown = self._calls.hand_change(new_id, path)
        item = await self._own_tools.use(
            "write",
            {"path": path, "content": content},
            item_id=shown or new_id,
            is_started=shown is not None,
            is_approved=self._permissions.is_allowed_path(path),
        )
        if item.status != "completed":
            raise _Failed(INTERNAL_ERROR, _why(item) or f"{path!r} was not written")

    # -- terminals

    async def _create(self, request: ServerRequest, params: dict[str, Json]) -> None:
        """Answers at once, and then runs the command to its end."""
        command = _command_line(params)
        limit = params.get("outputByteLimit")
        arguments: dict[str, Json] = {"command": command, "timeout_seconds": MOST_SECONDS}
        if isinstance(cwd := params.get("cwd"), str) and cwd:
            arguments["cwd"] = cwd
        tools, new_id = self._own_tools, self._turn.new_item_id()
        spellings = _spellings(params)
        shown = self._calls.hand_command(new_id, spellings)
        terminal = Terminal(new_id, shown or new_id, limit if isinstance(limit, int) else None)
        self._terminals[terminal.id] = terminal
        await self._process.answer(request.id, {"terminalId": terminal.id})
        approved = any(map(self._permissions.is_allowed_command, (command, *spellings)))
        try:
            with terminal.scope:
                terminal.item = await tools.use(
                    "shell",
                    arguments,
                    item_id=terminal.item_id,
                    is_started=shown is not None,
                    is_approved=approved,
                )
        finally:
            terminal.ended.set()

    def _terminal(self, params: dict[str, Json]) -> Terminal:
        found = self._terminals.get(str(params.get("terminalId")))
        if found is None:
            raise _Failed(NOT_FOUND, f"no terminal {params.get('terminalId')!r}")
        return found

    async def _stop(self, terminal: Terminal) -> None:
        terminal.scope.cancel()
        await terminal.ended.wait()

    def _output(self, terminal: Terminal) -> Json:
        item = terminal.item or self._item(terminal.item_id)
        text = item.output if isinstance(item, CommandExecution) else ""
        if terminal.item is not None and not text and terminal.item.status != "completed":
            text = _why(terminal.item)
        data = text.encode()
        truncated = terminal.limit is not None and len(data) > terminal.limit
        if truncated and terminal.limit is not None:
            text = data[len(data) - terminal.limit :].decode(errors="ignore")
        status = _exit_status(terminal) if terminal.ended.is_set() else None
        return {"output": text, "truncated": truncated, **({"exitStatus": status} if status is not None else {})}

    def _item(self, item_id: ItemId) -> Item | None:
        turn = self._turn.state.turn(self._turn.turn_id)
        return next((item for item in turn.items if item.id == item_id), None) if turn is not None else None

    @property
    def _own_tools(self) -> OwnTools:
        assert self._tools is not None
        return self._tools


def _path(params: dict[str, Json]) -> str:
    path = params.get("path")
    if not isinstance(path, str) or not path.startswith("/"):
        raise _Failed(INVALID_PARAMS, "`path` must be an absolute path")
    return path


def _spellings(params: dict[str, Json]) -> tuple[str, ...]:
    """The command as the agent may have named it in its call: the whole line, or what a shell is given to run."""
    command, args = str(params.get("command")), params.get("args")
    words = [str(one) for one in args] if isinstance(args, list) else []
    line = shlex.join([command, *words]) if words else command
    given = (words[-1],) if len(words) > 1 and words[0].startswith("-") and words[0].endswith("c") else ()
    return (line, " ".join([command, *words]), *given)


def _command_line(params: dict[str, Json]) -> str:
    """For bash. A command without arguments is a command line already; its variables are set in front of it."""
    command, args = params.get("command"), params.get("args")
    if not isinstance(command, str) or not command:
        raise _Failed(INVALID_PARAMS, "`command` must be a text")
    words = [str(one) for one in args] if isinstance(args, list) else []
    line = shlex.join([command, *words]) if words else command
    exported: list[str] = []
    env = params.get("env")
    for one in env if isinstance(env, list) else []:
        match one:
            case {"name": str(name), "value": str(value)} if name.isidentifier() and name.isascii():
                exported.append(f"export {name}={shlex.quote(value)}; ")
            case _:
                raise _Failed(INVALID_PARAMS, "`env` must be a list of names and values")
    return "".join(exported) + line


def _exit_status(terminal: Terminal) -> Json:
    item = terminal.item
    if item is None:
        return {"exitCode": None, "signal": "SIGKILL"}
    code = item.exit_code if isinstance(item, CommandExecution) else None
    if code is None:
        return {"exitCode": 0 if item.status == "completed" else NOT_RUN, "signal": None}
    return {"exitCode": code, "signal": None} if code >= 0 else {"exitCode": None, "signal": f"signal {-code}"}


def _why(item: Item) -> str:
    if reason := reason_of(item):
        return reason
    return item.result.text if isinstance(item, ToolItem) and item.result is not None else ""
