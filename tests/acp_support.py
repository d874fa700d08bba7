"""A client of ACP in the same process, on a real engine with a scripted model. It holds every message that it is sent
against the published schema."""

import json
import subprocess
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from acp_schema import check_message
from hames.clock_and_ids import RandomIds, SystemClock
from hames.core.engine import Engine
from hames.core.engine_rules import EngineRules
from hames.domain.options import Settings
from hames.domain.policy import ApprovalPolicy, DangerFullAccess, SandboxPolicy
from hames.ports import Models, Provider, Tool
from hames.protocols.acp.session import AcpSession
from hames.protocols.session import Session
from hames.sandbox.local import LocalSandbox
from hames.stdio.connection import Connection, read_lines
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import OneModel
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.host import AddedTools
from hames.tools.registry import BuiltinTools
from support import NoTrust

SECONDS = 60
OFFERED = {
    1: {"session": {"notices": {}, "compaction": {}}, "elicitation": {"form": {}, "url": {}}},
    2: {"elicitation": {"form": {}, "url": {}}},
}


class _Wire:
    """What the server wrote, without end."""

    def __init__(self) -> None:
        self._send, self.lines = anyio.create_memory_object_stream[bytes](100_000)

    def write(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:
            self._send.send_nowait(line)

    async def room(self) -> None:
        await checkpoint()


class AcpClient:
    """`answer` decides permissions: the id of an option, or None to leave them open. Subclasses move the bytes."""

    def __init__(self, tasks: TaskGroup, version: int, answer: str | None) -> None:
        self.version = version
        self.answer = answer
        self.buffers: dict[str, str] | None = None
        """The files that are open in this editor. None: requests for files are left unanswered."""
        self.terminals: dict[str, subprocess.CompletedProcess[str]] | None = None
        """Its terminals, where commands really run. None: requests for terminals are refused."""
        self.messages: list[dict[str, Any]] = []
        self._methods: dict[int, str] = {}
        self._number = 0
        self._news = anyio.Event()
        self.wire = _Wire()
        self.tasks = tasks
        tasks.start_soon(self._read)

    async def _read(self) -> None:
        async for line in self.wire.lines:
            message = json.loads(line)
            answered = self._methods.get(message.get("id"), "") if "method" not in message else ""
            check_message(self.version, message, answered)
            self.messages.append(message)
            if message.get("method") == "session/request_permission" and self.answer is not None:
                await self.select(message, self.answer)
            if message.get("method", "").startswith("fs/") and self.buffers is not None:
                await self._answer_file(message, self.buffers)
            if message.get("method", "").startswith("terminal/"):
                await self._answer_terminal(message)
            self._news.set()
            self._news = anyio.Event()

    async def _answer_file(self, message: dict[str, Any], buffers: dict[str, str]) -> None:
        path = message["params"]["path"]
        if message["method"] == "fs/write_text_file":
            buffers[path] = message["params"]["content"]
            await self.send(id=message["id"], result={})
        elif path in buffers:
            await self.send(id=message["id"], result={"content": buffers[path]})
        else:
            await self.send(id=message["id"], error={"code": -32002, "message": "not open"})

    async def _answer_terminal(self, message: dict[str, Any]) -> None:
        params, action = message["params"], message["method"].removeprefix("terminal/")
        result: dict[str, Any] = {}
        if self.terminals is None:
            await self.send(id=message["id"], error={"code": -32603, "message": "no terminals today"})
            return
        if action == "create":
            words = [params["command"], *params["args"]]
            name = f"term-{len(self.terminals)}"
            self.terminals[name] = subprocess.run(
                words, check=False, capture_output=True, text=True, cwd=params["cwd"], stdin=subprocess.DEVNULL
            )
            result = {"terminalId": name}
        elif action == "output":
            done = self.terminals[params["terminalId"]]
            result = {"output": done.stdout, "truncated": False, "exitStatus": {"exitCode": done.returncode}}
        await self.send(id=message["id"], result=result)

    async def send(self, **message: Any) -> None:
        await self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    @abstractmethod
    async def send_raw(self, line: bytes) -> None: ...

    @abstractmethod
    async def hang_up(self) -> None: ...

    async def notify(self, method: str, **params: Any) -> None:
        await self.send(method=method, params=params)

    async def request(self, method: str, **params: Any) -> int:
        self._number += 1
        self._methods[self._number] = method
        await self.send(id=self._number, method=method, params=params)
        return self._number

    async def reply(self, number: int) -> dict[str, Any]:
        return await self.until(lambda one: one.get("id") == number and "method" not in one)

    async def call(self, method: str, **params: Any) -> Any:
        return await self.result(await self.request(method, **params))

    async def result(self, number: int) -> Any:
        message = await self.reply(number)
        assert "result" in message, message
        return message["result"]

    async def refusal(self, method: str, **params: Any) -> tuple[int, str]:
        message = await self.reply(await self.request(method, **params))
        assert "error" in message, message
        return message["error"]["code"], message["error"]["message"]

    async def until(self, wanted: Any) -> dict[str, Any]:
        with anyio.fail_after(SECONDS):
            while True:
                for message in self.messages:
                    if wanted(message):
                        return message
                await self._news.wait()

    async def asked(self, count: int = 1, method: str = "session/request_permission") -> list[dict[str, Any]]:
        await self.until(lambda _: sum(one.get("method") == method for one in self.messages) >= count)
        return [one for one in self.messages if one.get("method") == method]

    async def select(self, question: dict[str, Any], option: str) -> None:
        await self.send(id=question["id"], result={"outcome": {"outcome": "selected", "optionId": option}})

    async def update(self, kind: str, **members: Any) -> dict[str, Any]:
        """Waits for an update of this kind with these members."""

        def fits(message: dict[str, Any]) -> bool:
            update = message.get("params", {}).get("update", {})
            return update.get("sessionUpdate") == kind and members.items() <= update.items()

        return (await self.until(fits))["params"]["update"]

    def updates(self, *kinds: str, session: str = "") -> list[dict[str, Any]]:
        told = [one["params"] for one in self.messages if one.get("method") == "session/update"]
        of = [one["update"] for one in told if not session or one["sessionId"] == session]
        return [one for one in of if not kinds or one["sessionUpdate"] in kinds]

    def said(self, kind: str = "agent_message") -> str:
        """The text of all messages of a kind, chunks and whole ones."""
        texts: dict[str, str] = {}
        for update in self.updates(kind, f"{kind}_chunk"):
            name, content = update.get("messageId", ""), update["content"]
            if isinstance(content, list):
                texts[name] = "".join(block.get("text", "") for block in content)
            else:
                texts[name] = texts.get(name, "") + content.get("text", "")
        return "".join(texts.values())

    async def initialize(self, offered: dict[str, Any] | None = None) -> Any:
        known = OFFERED[self.version] if offered is None else offered
        about = {"name": "test", "version": "1"}
        members = {1: ("clientInfo", "clientCapabilities"), 2: ("info", "capabilities")}[self.version]
        params = dict(zip(members, (about, known), strict=True))
        return await self.call("initialize", protocolVersion=self.version, **params)

    async def new(self, cwd: Path, **params: Any) -> str:
        return (await self.call("session/new", cwd=str(cwd), **{"mcpServers": [], **params}))["sessionId"]

    async def open(self, session: str, cwd: Path, *, replay: bool = True) -> Any:
        params: dict[str, Any] = {"sessionId": session, "cwd": str(cwd), "mcpServers": []}
        if self.version == 1:
            return await self.call("session/load" if replay else "session/resume", **params)
        return await self.call("session/resume", **params, **({"replayFrom": {"type": "start"}} if replay else {}))

    async def prompt(self, session: str, *blocks: Any) -> int:
        sent = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        return await self.request("session/prompt", sessionId=session, prompt=sent)

    async def ended(self, session: str, number: int) -> str:
        """Why the turn of this prompt ended."""
        result = await self.result(number)
        if self.version == 1:
            return result["stopReason"]
        name = result["messageId"]

        def idle(_: Any) -> str:
            """The first end behind the prompt's own message."""
            seen = False
            for update in self.updates(session=session):
                seen = seen or update.get("messageId") == name
                if seen and update.get("state") == "idle":
                    return update.get("stopReason", "none")
            return ""

        await self.until(idle)
        return idle(None)

    async def turn(self, session: str, *blocks: Any) -> str:
        return await self.ended(session, await self.prompt(session, *blocks))


class LocalClient(AcpClient):
    def __init__(self, engine: Engine, session: Session, tasks: TaskGroup, version: int, answer: str | None) -> None:
        super().__init__(tasks, version, answer)
        self._send, chunks = anyio.create_memory_object_stream[bytes](1000)
        tasks.start_soon(Connection(engine, session, self.wire, tasks).serve, read_lines(chunks))

    async def send_raw(self, line: bytes) -> None:
        await self._send.send(line + b"\n")

    async def hang_up(self) -> None:
        await self._send.aclose()


class Desk:
    """An engine, and clients of it."""

    def __init__(self, engine: Engine, tasks: TaskGroup, work: Path, version: int) -> None:
        self.engine, self.tasks, self.work, self.version = engine, tasks, work, version

    def connect(self, *, version: int = 0, answer: str | None = "allow_once") -> AcpClient:
        session = AcpSession(self.engine.models, self.engine.rules.defaults)
        return LocalClient(self.engine, session, self.tasks, version or self.version, answer)

    async def client(
        self, *, version: int = 0, answer: str | None = "allow_once", offered: dict[str, Any] | None = None
    ) -> AcpClient:
        client = self.connect(version=version, answer=answer)
        await client.initialize(offered)
        return client


@asynccontextmanager
async def acp_desk(
    directory: Path,
    model: Provider,
    version: int,
    *,
    policy: ApprovalPolicy = "unlessTrusted",
    models: Models | None = None,
    tools: tuple[Tool, ...] = (),
    sandbox: SandboxPolicy | None = None,
) -> AsyncGenerator[Desk]:
    work = directory / "work"
    work.mkdir(exist_ok=True)
    models, clock = models or OneModel(model), SystemClock()
    settings = Settings(
        model=models.default, cwd=str(work), approval_policy=policy, sandbox=sandbox or DangerFullAccess(), agent="code"
    )
    engine = Engine(
        store=JsonlStore(work / ".harness", places=Places(directory / "state")),
        models=models,
        workspace=LocalWorkspace(),
        tools=AddedTools(tools, BuiltinTools(sandbox=LocalSandbox(), clock=clock)),
        trust=NoTrust(),
        clock=clock,
        ids=RandomIds(),
        rules=EngineRules(defaults=settings),
    )
    async with anyio.create_task_group() as tasks, engine:
        yield Desk(engine, tasks, work, version)
        tasks.cancel_scope.cancel()


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for line in read_lines(chunks):
        assert isinstance(line, bytes)
        yield json.loads(line)
