"""A look at an MCP server: does it start, and which tools does it have?"""

import anyio

from hames.domain.servers import ServerStatus
from hames.ports import Place
from hames.tools.mcp.servers import CALL_SECONDS, McpConnection
from hames.tools.mcp.settings import McpServerSettings


async def probe(server: McpServerSettings, place: Place) -> ServerStatus:
    """Starts a server, lists its tools and stops it."""
    found = ServerStatus(name=server.name, state="notStarted")

    async def report(status: ServerStatus) -> None:
        nonlocal found
        found = status

    async with anyio.create_task_group() as tasks:
        await McpConnection(server, place, report, CALL_SECONDS).start(tasks)
        tasks.cancel_scope.cancel()
    return found
