"""A server on a stage: a real engine with real tools and a store on disk, a scripted model, and a client's two ends."""

from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from hames.clock_and_ids import RandomIds, SystemClock
from hames.core.engine import Engine
from hames.core.engine_rules import EngineRules
from hames.domain.options import Settings
from hames.domain.policy import ApprovalPolicy, DangerFullAccess
from hames.ports import Provider
from hames.protocols.bootstrap.session import BootstrapSession
from hames.protocols.session import Session
from hames.sandbox.local import LocalSandbox
from hames.server.peers.sockets import PeerSockets
from hames.stdio.connection import Connection, read_lines
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import OneModel
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.registry import BuiltinTools
from node_support import node_parts
from support import NoTrust, create_in


class Stage:
    """`directory/work` is the workspace. Commands run without walls: what is played here is the protocol."""

    def __init__(
        self,
        directory: Path,
        model: Provider,
        *,
        policy: ApprovalPolicy = "unlessTrusted",
        session: type[Session] = BootstrapSession,
        created_elsewhere: bool = False,
        database: str = "",
    ) -> None:
        """`created_elsewhere`: another engine on the same directory makes the threads, and so runs their turns.

        `database`: threads are kept there, and this is a gateway whose threads run on a worker.
        """
        self._directory = directory
        self._work = directory / "work"
        self._work.mkdir(exist_ok=True)
        self._model = model
        self._policy: ApprovalPolicy = policy
        self._session = session
        self._created_elsewhere = created_elsewhere
        self._database = database
        self._tasks: TaskGroup | None = None
        self._ended = anyio.Event()

    def engine(self, works: bool = True) -> Engine:
        models, clock = OneModel(self._model), SystemClock()
        settings = Settings(
            model=models.default, cwd=str(self._work), approval_policy=self._policy, sandbox=DangerFullAccess()
        )
        return Engine(
            **self._store_parts(works),
            models=models,
            workspace=LocalWorkspace(),
            tools=BuiltinTools(sandbox=LocalSandbox(), clock=clock),
            trust=NoTrust(),
            clock=clock,
            ids=RandomIds(),
            rules=EngineRules(defaults=settings, works=works, leaves_turns=bool(self._database)),
        )

    def _store_parts(self, works: bool) -> dict[str, Any]:
        if self._database:
            return node_parts(self._database, "worker" if works else "gateway", works=works)
        store = JsonlStore(self._work / ".harness", places=Places(self._directory / "state"))
        return {"store": store, "peers": PeerSockets(store.private_directory)}

    async def send(self, data: bytes) -> None:
        await self._to_server.send(data)

    async def receive(self) -> bytes:
        """One line."""
        return await self._from_server.receive()

    async def restart(self) -> None:
        await self.stop()
        await self._start()

    async def stop(self) -> None:
        """The client closes its end; the server ends by itself."""
        await self._to_server.aclose()
        await self._ended.wait()

    async def _start(self) -> None:
        assert self._tasks is not None
        self._to_server, chunks = anyio.create_memory_object_stream[bytes](1000)
        lines, self._from_server = anyio.create_memory_object_stream[bytes](100_000)
        self._ended = anyio.Event()
        await self._tasks.start(self._serve, chunks, _Lines(lines))

    async def _serve(
        self, chunks: MemoryObjectReceiveStream[bytes], outbox: "_Lines", *, task_status: TaskStatus[None]
    ) -> None:
        async with AsyncExitStack() as stack:
            followers = await stack.enter_async_context(anyio.create_task_group())
            await stack.enter_async_context(chunks)
            if self._database:
                await stack.enter_async_context(self.engine())
            owner = await stack.enter_async_context(self.engine()) if self._created_elsewhere else None
            engine = await stack.enter_async_context(self.engine(works=not self._database))
            if owner is not None:
                create_in(owner, engine)
            task_status.started()
            await Connection(engine, self._session(), outbox, followers).serve(read_lines(chunks))
        outbox.close()
        self._ended.set()

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        await self._to_server.aclose()
        if error is None:
            with anyio.fail_after(60):
                await self._ended.wait()
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)  # without the test's own error: that one travels alone


class _Lines:
    """An outbox without end."""

    def __init__(self, lines: MemoryObjectSendStream[bytes]) -> None:
        self._lines = lines

    def write(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:
            self._lines.send_nowait(line)

    async def room(self) -> None:
        await checkpoint()

    def close(self) -> None:
        self._lines.close()
