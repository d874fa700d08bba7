"""What an MCP client is told first: versions, abilities, and how to use the tools."""

from hames import __version__
from hames.codecs.jsonrpc_peer import INVALID_PARAMS, JsonRpcRules
from hames.domain.json import Json

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Of the era of `initialize`, oldest first."""
MODERN = "2026-07-28"
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002
METHODS = frozenset(
    {
        "initialize",
        "server/discover",
        "ping",
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
    }
)
RULES = JsonRpcRules(version=True, batches=False, loose_ids=False, scalar_params=INVALID_PARAMS)
CAPABILITIES: Json = {"tools": {}, "resources": {"subscribe": True}}
INSTRUCTIONS = (
    "Hames is a coding agent. `hames` gives it a task and returns its answer with a threadId; `hames-reply` goes on."
    " Where a result says approval_needed, ask the user and call `hames-answer`."
)
CACHING: dict[str, Json] = {"ttlMs": 0, "cacheScope": "private"}


def server_info() -> Json:
    return {"name": "hames", "title": "Hames", "version": __version__}


def initialize_result(asked: Json) -> dict[str, Json]:
    """`asked` is the version that the client wants."""
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
        "capabilities": CAPABILITIES,
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    }


def discover_result() -> dict[str, Json]:
    versions = {"supportedVersions": [MODERN], "capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}
    return {**versions, **CACHING, "_meta": {"io.modelcontextprotocol/serverInfo": server_info()}}
