"""A real MCP server on the official SDK, for the tests: well-behaved and otherwise."""

import os
import sys
import time
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("test")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("on purpose")


@server.tool()
async def steps(context: Context) -> str:  # type: ignore[type-arg]
    """Reports its progress."""
    for number in range(1, 4):
        await context.report_progress(number, 3, f"step {number}")
    return "done"


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08", format="png")


@server.tool()
def die() -> str:
    """The process ends in the middle of the call."""
    os._exit(3)


@server.tool()
async def hang() -> str:
    """Never answers."""
    await anyio.sleep_forever()
    return ""


class Table(BaseModel):
    guests: int


def _how_many() -> Elicit[Table]:
    return Elicit("For how many?", Table)


@server.tool()
def book(table: Annotated[Table, Resolve(_how_many)]) -> str:
    """Asks the person before it books."""
    return f"a table for {table.guests}"


@server.tool()
def flood() -> str:
    """Megabytes."""
    return "x" * 5_000_000


if __name__ == "__main__":
    if "--slow" in sys.argv:
        time.sleep(60)
    if "--broken" in sys.argv:
        print("this is not JSON", flush=True)
        sys.exit(1)
    server.run()
