"""`hames serve` as a process on the loopback interface, and the programs that ask it."""

import json
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.abc
from anyio.abc import ByteReceiveStream, SocketStream
from client_support import HAMES, MODEL, Place

DOCS = Path(__file__).resolve().parents[2] / "docs"
SECONDS = 600


@asynccontextmanager
async def served(here: Place, *flags: str) -> AsyncGenerator[str]:
    """The address of a server."""
    command = [HAMES, "serve", "--port", "0", "--cwd", str(here.workspace), "--model", MODEL, *flags]
    environment = {**os.environ, **here.environment}
    process = await anyio.open_process(command, env=environment, cwd=here.workspace, stderr=None)
    try:
        assert process.stdout is not None
        said = b""
        with anyio.fail_after(60):
            while b"Ctrl+C" not in said:
                said += await process.stdout.receive()
        yield said.split()[3].decode()
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()


class Traffic:
    """What clients sent to a server, and what it answered, as bytes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sent, self.answered = bytearray(), bytearray()

    @property
    def apis(self) -> set[str]:
        """Which of OpenAI's APIs were asked."""
        return {name.decode() for name in re.findall(rb"POST /v1/(chat/completions|responses) ", self.sent)}

    @property
    def is_streamed(self) -> bool:
        """Whether streams were asked for, and sent."""
        return re.search(rb'"stream": ?true', self.sent) is not None and b"text/event-stream" in self.answered


@asynccontextmanager
async def overheard(here: Place) -> AsyncGenerator[Traffic]:
    """A server, by another address, which it knows as its own: everything goes through to it as it is."""

    async def copied(source: ByteReceiveStream, target: SocketStream, into: bytearray) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for part in source:
                into += part
                await target.send(part)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            await target.send_eof()

    async def passed_on(client: SocketStream) -> None:
        async with client, await anyio.connect_tcp("127.0.0.1", port) as server, anyio.create_task_group() as both:
            both.start_soon(copied, client, server, traffic.sent)
            both.start_soon(copied, server, client, traffic.answered)

    async with (
        AsyncExitStack() as servers,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        name = f"127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        traffic = Traffic(f"http://{name}")
        port = int((await servers.enter_async_context(served(here, "--allow-host", name))).rpartition(":")[2])
        tasks.start_soon(listener.serve, passed_on)
        yield traffic
        tasks.cancel_scope.cancel()


class Finished(NamedTuple):
    """A program that has ended. `text` is all that it printed."""

    code: int
    out: str
    text: str


async def run_client(here: Place, *command: str, **environment: str) -> Finished:
    """Runs a program of somebody else in the workspace, with a home of its own."""
    home = here.folder / "home"
    home.mkdir(exist_ok=True)
    # Some go by `PWD` and not by the directory that they are in.
    given = {**os.environ, **here.environment, "HOME": str(home), "PWD": str(here.workspace), **environment}
    with anyio.fail_after(SECONDS):
        done = await anyio.run_process(command, check=False, env=given, cwd=here.workspace)
    return Finished(done.returncode, done.stdout.decode(), f"{done.stdout.decode()}\n{done.stderr.decode()[-8000:]}")


async def driven(here: Place, *command: str, **environment: str) -> dict[str, Any]:
    """Runs a driver and returns the JSON that it prints as its last line."""
    done = await run_client(here, *command, **environment)
    lines = done.out.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (ValueError, IndexError):
        raise AssertionError(f"{command[0]} ended with {done.code}\n{done.text}") from None


def documented(page: str, containing: str, places: Mapping[str, str]) -> str:
    """The block of code of a documentation page that has these words in it, with the places of this test instead of
    those of the page: what people copy is what is tested."""
    blocks = re.findall(r"```[a-z]*\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    found = [block for block in blocks if containing in block]
    assert len(found) == 1, f"{len(found)} blocks of {page} have {containing!r} in them"
    text = found[0]
    for shown, here in places.items():
        assert shown in text, f"{shown!r} is not in the block of {page}"
        text = text.replace(shown, here)
    return text
