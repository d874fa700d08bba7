"""How bytes travel to and from an MCP server, with a bound on what one message may hold; and why a connection failed.

The SDK's own pipes keep a line for as long as it grows, and copy all of it with every chunk: an answer of 100 MiB
takes minutes and as much memory. A server that sends a longer message than is allowed here is ended.
"""

import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from hames.domain.display import shortened
from hames.executables import absolute_path, find_program, with_interpreter

if TYPE_CHECKING:
    import httpx2

MESSAGE_BYTES = 20 << 20
"""More than the pictures that an answer may have."""
EXIT_SECONDS = 2.0
TERMINATE_SECONDS = 2.0
POLL_SECONDS = 0.01
SENTENCE_CHARS = 300
INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


def server_environment(own: Mapping[str, str]) -> dict[str, str]:
    """A few names of ours, and what the user configured for this server."""
    inherited = {name: value for name in INHERITED if (value := os.environ.get(name)) is not None}
    environment = {**inherited, **own}
    return {**environment, "PATH": absolute_path(environment.get("PATH", os.defpath))}


def server_command(command: str, args: tuple[str, ...], *, environment: Mapping[str, str], workspace: str) -> list[str]:
    """The words to start, or none where there is no such program.

    One outside the workspace comes first: an agent can write what lies inside, and this runs outside the sandbox.
    """
    if "/" in command:
        return [command, *args]
    path = environment.get("PATH")
    program = find_program(command, path=path, workspace=workspace) or find_program(command, path=path)
    return [*with_interpreter(program, path=path, workspace=workspace), *args] if program else []


async def bound_response(response: "httpx2.Response") -> None:
    """A hook for an HTTP client: reading a body that is too long fails. Streams of events have a bound of their own."""
    import httpx2

    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.ReadError("the answer is compressed, which was not asked for")
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _bounded_stream(response.stream)


def _bounded_stream(stream: "httpx2.AsyncByteStream") -> "httpx2.AsyncByteStream":
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MESSAGE_BYTES:
                    raise httpx2.ReadError(f"the answer has more than {MESSAGE_BYTES >> 20} MiB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


def is_disconnected(problem: BaseException) -> bool:
    """Not an answer of the server's, which says itself what is wrong."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    return not isinstance(problem, MCPError) or problem.error.code == CONNECTION_CLOSED


def sentence(problem: BaseException) -> str:
    """The reason at the bottom of what the SDK wraps."""
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    return shortened(str(problem), SENTENCE_CHARS) or type(problem).__name__
