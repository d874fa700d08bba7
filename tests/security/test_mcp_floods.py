"""A hostile MCP server: what it pours into a call neither fills the log nor spoils the thread."""

import base64
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hames.domain.ids import CallId, ItemId, ThreadId, TurnId
from hames.domain.items import Call, McpToolCall
from hames.domain.policy import WorkspaceWrite
from hames.domain.servers import ServerStatus
from hames.ports import Job, Place, Report, Tool
from hames.tools import mcp

SERVER = """
import json, sys
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def answer(asked, result): say({"id": asked["id"], "result": result})
for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            version = asked["params"]["protocolVersion"]
            about = {"name": "hostile", "version": "1"}
            answer(asked, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
        case "tools/list":
            answer(asked, {"tools": [{"name": "pour", "inputSchema": {"type": "object"}}]})
        case "tools/call":
            token = asked["params"]["_meta"]["progressToken"]
            def progress(n, text):
                told = {"progressToken": token, "progress": n, "message": text}
                say({"method": "notifications/progress", "params": told})
            answer(asked, POUR)
        case _ if "id" in asked:
            say({"id": asked["id"], "error": {"code": -32601, "message": "no"}})
"""

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (64).to_bytes(4) + (64).to_bytes(4)


class Nothing:
    @asynccontextmanager
    async def open(self, place: Place, report: Report) -> AsyncGenerator[Sequence[Tool]]:
        yield []


async def poured(directory: Path, pour: str) -> tuple[McpToolCall, int]:
    """What came of a call that answers with `pour`, and how much was told on the way."""
    here = str(directory)
    place = Place(thread_id=ThreadId("t"), turn_id=TurnId("u"), cwd=here, workspace=here, sandbox=WorkspaceWrite())
    server = mcp.Server(name="hostile", command=sys.executable, args=("-c", SERVER.replace("POUR", pour)))
    told = 0

    async def tell(text: str, stream: str = "output") -> None:
        nonlocal told
        told += len(text)

    async def report(status: ServerStatus) -> None:
        assert status.state != "failed", status.reason

    with anyio.fail_after(20):
        async with mcp.McpTools(Nothing(), [server]).open(place, report) as tools:
            call = Call(id=CallId("c"), name=tools[0].spec.name, arguments="{}")
            work = await tools[0].prepare(Job(call=call, arguments={}, item_id=ItemId("i"), step=1, place=place))
            item = await work.run(tell, WorkspaceWrite())
    assert isinstance(item, McpToolCall)
    return item, told


@pytest.mark.parametrize("each", ["y" * 100_000, ""], ids=["long", "many"])
async def test_RES_1_progress_without_end_is_told_up_to_a_point(tmp_path: Path, each: str) -> None:
    flood = f"[progress(n, 'y' * {len(each)}) for n in range({50 if each else 9000})]"
    item, told = await poured(tmp_path, f'{{"content": [{{"type": "text", "text": str(len({flood}))}}]}}')
    assert item.status == "completed"
    assert 0 < told < mcp.PROGRESS_CHARS + 100


async def test_RES_1_a_structured_answer_too_large_for_the_log_is_not_kept_in_it(tmp_path: Path) -> None:
    item, _ = await poured(tmp_path, '{"content": [], "structuredContent": {"a": "x" * (2 << 20)}}')
    assert item.structured is None
    assert item.result is not None
    assert len(item.result.text) < 2 * mcp.RESULT_CHARS


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("image/png", b"AAA"),
        ("text/html", b"<script>"),
        ("image/png", PNG.replace((64).to_bytes(4), (1 << 20).to_bytes(4))),
        ("image/png", PNG + bytes(11 << 20)),
    ],
    ids=["no picture", "another kind", "a bomb", "too much"],
)
async def test_RES_5_a_picture_no_model_takes_becomes_a_word(tmp_path: Path, kind: str, data: bytes) -> None:
    made = f'__import__("base64").b64encode({data[:64]!r} + bytes({max(len(data) - 64, 0)})).decode()'
    item, _ = await poured(tmp_path, f'{{"content": [{{"type": "image", "mimeType": {kind!r}, "data": {made}}}]}}')
    assert item.result is not None
    assert item.result.pictures == ()
    assert "a picture that cannot be shown" in item.result.text


async def test_RES_5_a_picture_is_what_its_bytes_say(tmp_path: Path) -> None:
    data = base64.b64encode(PNG).decode()
    item, _ = await poured(tmp_path, f'{{"content": [{{"type": "image", "mimeType": "text/html", "data": {data!r}}}]}}')
    assert item.result is not None
    assert [(one.media_type, one.base64) for one in item.result.pictures] == [("image/png", data)]
