"""A workspace with the built-in tools in it, called as the engine calls them."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint

from hames.domain.ids import CallId, ItemId, ThreadId, TurnId
from hames.domain.items import Call, Picture, Stream, ToolItem
from hames.domain.json import Json
from hames.domain.policy import SandboxPolicy, WorkspaceWrite
from hames.domain.schema import check
from hames.domain.servers import ServerStatus
from hames.domain.value import Value
from hames.ports import AskSandboxHost, Job, Launch, Place, Sandbox, Tool, ToolFailed, Work
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.registry import STANDARD, BuiltinTools, ToolLimits

HOLD_SECONDS = 0.3


NOBODY = 65534


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextmanager
def as_somebody_else() -> Generator[tuple[Path, Callable[[Callable[[], str]], str]], None, None]:
    """A directory, and a way to act there without root's privileges, whoever runs the tests."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)

        def act(what: Callable[[], str]) -> str:
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    if os.geteuid() == 0:
                        os.setgroups([])
                        os.setgid(NOBODY)
                        os.setuid(NOBODY)
                    answer = what()
                except BaseException as error:
                    answer = repr(error)
                os.write(write, answer.encode())
                os._exit(0)
            os.close(write)
            os.waitpid(child, 0)
            with os.fdopen(read, encoding="utf-8") as pipe:
                return pipe.read()

        yield Path(name), act


class WallClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class OpenProcess:
    def __init__(self, child: subprocess.Popen[bytes], notes: tuple[str, ...]) -> None:
        assert child.stdout is not None
        self.notes = notes
        self._child = child
        self._pipe = child.stdout
        os.set_blocking(self._pipe.fileno(), False)

    @property
    def pid(self) -> int:
        return self._child.pid

    async def output(self) -> AsyncIterator[bytes]:
        ended: float | None = None
        while not self._pipe.closed:
            chunk = self._pipe.raw.read(65536)  # type: ignore[attr-defined]
            if chunk:
                yield chunk
                await checkpoint()
                continue
            if chunk is not None or (ended and anyio.current_time() > ended + HOLD_SECONDS):
                return
            if ended is None and self._child.poll() is not None:
                ended = anyio.current_time()
                continue
            with anyio.move_on_after(0.02):
                await anyio.wait_readable(self._pipe)

    async def wait(self) -> int:
        while (code := self._child.poll()) is None:
            await anyio.sleep(0.01)
        return code

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
            await self.wait()
            for _ in range(20):  # until nobody of the group is left, or only what init has yet to bury
                os.killpg(self.pid, 0)
                await anyio.sleep(0.01)
        self._pipe.close()


class OpenSandbox:
    """Keeps the port's contract, and has no walls. `failing` is what a start answers; `notes` are said at the end."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.failing: Exception | None = None
        self.notes: tuple[str, ...] = ()

    async def spawn(self, launch: Launch, *, ask_host: AskSandboxHost | None = None) -> OpenProcess:
        self.launches.append(launch)
        if self.failing:
            raise self.failing
        child = subprocess.Popen(
            launch.argv,
            cwd=launch.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        )
        return OpenProcess(child, self.notes)


class Done(Value):
    """How a call ended. `told` is what watchers heard."""

    text: str
    failed: bool
    told: str = ""
    item: ToolItem | None = None
    pictures: tuple[Picture, ...] = ()


class Workshop:
    """`sandbox` has seen every program that was started, unless walls of somebody else's were given."""

    def __init__(self, root: Path, tools: dict[str, Tool], sandbox: OpenSandbox, place: Place) -> None:
        self.root = root
        self.tools = tools
        self.sandbox = sandbox
        self.place = place

    async def prepare(self, name: str, **arguments: Json) -> Work:
        tool = self.tools[name]
        if complaint := check(arguments, tool.spec.schema):
            raise ToolFailed(complaint)
        call = Call(id=CallId("c1"), name=name, arguments=json.dumps(arguments))
        return await tool.prepare(Job(call=call, arguments=arguments, item_id=ItemId("i1"), step=1, place=self.place))

    async def do(self, name: str, **arguments: Json) -> Done:
        try:
            work = await self.prepare(name, **arguments)
        except ToolFailed as failure:
            return Done(text=str(failure), failed=True)
        return await self.run(work)

    async def run(self, work: Work, policy: SandboxPolicy | None = None) -> Done:
        told: list[str] = []

        async def tell(text: str, stream: Stream = "output") -> None:
            await checkpoint()
            told.append(text)

        item = await work.run(tell, policy or self.place.sandbox)
        assert item.result is not None
        return Done(
            text=item.result.text,
            failed=item.result.failed,
            told="".join(told),
            item=item,
            pictures=item.result.pictures,
        )


async def unheard(status: ServerStatus) -> None:
    """Nobody is told how an MCP server does."""


@asynccontextmanager
async def workshop(
    root: Path,
    *,
    sandbox: OpenSandbox | None = None,
    walls: Sandbox | None = None,
    policy: SandboxPolicy | None = None,
    limits: ToolLimits = STANDARD,
    ripgrep: str | None = None,
) -> AsyncGenerator[Workshop, None]:
    root.mkdir(exist_ok=True)
    sandbox = sandbox or OpenSandbox()
    place = Place(
        files=LocalWorkspace(),
        thread_id=ThreadId("ses_1"),
        turn_id=TurnId("turn_1"),
        workspace=str(root),
        cwd=str(root),
        sandbox=policy or WorkspaceWrite(),
    )
    async with BuiltinTools(walls or sandbox, WallClock(), limits=limits, ripgrep=ripgrep).open(
        place, unheard
    ) as tools:
        yield Workshop(root, {tool.spec.name: tool for tool in tools}, sandbox, place)
