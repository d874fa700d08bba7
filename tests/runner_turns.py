"""Turns that run on a sandbox runner."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from hames.agents.runner.agent import RunnerAgent
from hames.clock_and_ids import SystemClock
from hames.domain.json import Json
from hames.providers.agent_models import AgentModels
from hames.providers.catalogue import Catalogue
from server_support import SyncFollower, following, running
from support import engine

RUNNER_MODELS = AgentModels("runner", display_name="Sandbox runner", description="An agent")


Serve = Callable[[anyio.abc.SocketStream], Awaitable[None]]


@asynccontextmanager
async def front(url: str, directory: Path, *, stall_s: float = 5.0, token: str = "") -> AsyncGenerator[SyncFollower]:
    """A server whose turns run at `url`, and a client that follows it."""
    agent = RunnerAgent(url, stall_s=stall_s, token=token)
    models = Catalogue({}, clock=SystemClock(), default="runner/default", sources=[RUNNER_MODELS])
    async with (
        engine(models, clock=SystemClock(), cwd=directory, agents={agent.name: agent}) as house,
        running(house, directory / "data") as server,
        following(server) as client,
    ):
        await client.hear()
        yield client
    await agent.aclose()


@asynccontextmanager
async def stranger(serve: Serve) -> AsyncGenerator[str]:
    """Somebody else's runner: whatever it does on the wire is in the test's own hands."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def telling(*said: bytes, then: Callable[[], Awaitable[None]] | None = None) -> Serve:
    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            received = b""
            while b'"thread"' not in received:
                received += await stream.receive()
                if received.startswith(b"GET ") and received.endswith(b"\r\n\r\n"):
                    await stream.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    return
            for chunk in said:
                await stream.send(chunk)
            if then is not None:
                await then()

    return serve


def event(name: str, /, **members: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(members))


def settled(state: Json) -> bool:
    return state["status"] != "running" and bool(state["messages"])
