"""A hostile MCP server: what it pours into a call neither fills the log nor spoils the thread."""

import base64
import resource
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
from hames.ports import Job, Place, Report, Tool, ToolFailed
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.mcp import results, servers, transport
from toolbench import unheard

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
    place = Place(
        files=LocalWorkspace(),
        thread_id=ThreadId("t"),
        turn_id=TurnId("u"),
        cwd=here,
        workspace=here,
        sandbox=WorkspaceWrite(),
    )
    server = servers.McpServerSettings(
        name="hostile", command=sys.executable, args=("-c", SERVER.replace("POUR", pour))
    )
    told = 0

    async def tell(text: str, stream: str = "output") -> None:
        nonlocal told
        told += len(text)

    async def report(status: ServerStatus) -> None:
        assert status.state != "failed", status.reason

    with anyio.fail_after(60):
        async with servers.McpTools(Nothing(), [server]).open(place, report) as tools:
            call = Call(id=CallId("c"), name=tools[0].spec.name, arguments="{}")
            work = await tools[0].prepare(Job(call=call, arguments={}, item_id=ItemId("i"), step=1, place=place))
            try:
                item = await work.run(tell, WorkspaceWrite())
            except ToolFailed as failure:
                item = failure
    if isinstance(item, ToolFailed):
        raise item
    assert isinstance(item, McpToolCall)
    return item, told


@pytest.mark.parametrize("each", ["y" * 100_000, ""], ids=["long", "many"])
async def test_RES_1_progress_without_end_is_told_up_to_a_point(tmp_path: Path, each: str) -> None:
    flood = f"[progress(n, 'y' * {len(each)}) for n in range({50 if each else 9000})]"
    item, told = await poured(tmp_path, f'{{"content": [{{"type": "text", "text": str(len({flood}))}}]}}')
    assert item.status == "completed"
    assert 0 < told < servers.PROGRESS_CHARS + 100


async def test_RES_1_a_structured_answer_too_large_for_the_log_is_not_kept_in_it(tmp_path: Path) -> None:
    item, _ = await poured(tmp_path, '{"content": [], "structuredContent": {"a": "x" * (2 << 20)}}')
    assert item.structured is None
    assert item.result is not None
    assert len(item.result.text) < 2 * results.RESULT_CHARS


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


FLOODS = {
    "one text": '{"content": [{"type": "text", "text": "x" * (100 << 20)}]}',
    "many texts": '{"content": [{"type": "text", "text": "x" * (1 << 20)}] * 100}',
    "structured": '{"content": [], "structuredContent": {"a": "x" * (100 << 20)}}',
    "no end of a line": '[sys.stdout.write("x" * (1 << 20)) for _ in range(100)] and {"content": []}',
    "never an end": '[sys.stdout.write("x" * (1 << 20)) for _ in iter(int, 1)]',
}


@pytest.mark.parametrize("name", FLOODS)
async def test_RES_1_an_answer_of_100_MiB_ends_the_call_and_not_the_patience(tmp_path: Path, name: str) -> None:
    """`poured` gives up after 20 s. The SDK's own pipes take minutes for a line of this length."""
    await poured(tmp_path, '{"content": []}')  # what has to be imported is imported
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ToolFailed, match="more than 20 MiB"):
        await poured(tmp_path, FLOODS[name])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < (150 << 10), f"{grown} KiB"


async def test_RES_1_a_server_that_flooded_is_gone_and_the_next_call_has_a_new_one(tmp_path: Path) -> None:
    flood = '{"content": [{"type": "text", "text": "x" * ((100 << 20) if asked["params"]["arguments"] else 5)}]}'
    here = str(tmp_path)
    place = Place(
        files=LocalWorkspace(),
        thread_id=ThreadId("t"),
        turn_id=TurnId("u"),
        cwd=here,
        workspace=here,
        sandbox=WorkspaceWrite(),
    )
    code = SERVER.replace("POUR", flood) + f"# {tmp_path}"
    server = servers.McpServerSettings(name="hostile", command=sys.executable, args=("-c", code))

    async def tell(text: str, stream: str = "output") -> None:
        pass

    def running() -> list[str]:
        found = [one / "cmdline" for one in Path("/proc").iterdir() if one.name.isdigit()]
        return [one.parent.name for one in found if one.exists() and f"# {tmp_path}".encode() in one.read_bytes()]

    with anyio.fail_after(60):
        async with servers.McpTools(Nothing(), [server]).open(place, unheard) as tools:
            for arguments in ({"flood": True}, {}):
                call = Call(id=CallId("c"), name=tools[0].spec.name, arguments="{}")
                job = Job(call=call, arguments=arguments, item_id=ItemId("i"), step=1, place=place)
                work = await tools[0].prepare(job)
                if arguments:
                    with pytest.raises(ToolFailed, match="was stopped"):
                        await work.run(tell, WorkspaceWrite())
                else:
                    item = await work.run(tell, WorkspaceWrite())
                    assert item.result is not None
                    assert item.result.text == "xxxxx"
            assert len(running()) == 1
    assert running() == []


async def test_RES_1_a_long_answer_within_the_bound_is_cut_and_kept(tmp_path: Path) -> None:
    item, _ = await poured(tmp_path, '{"content": [{"type": "text", "text": "x" * (19 << 20)}]}')
    assert item.result is not None
    assert results.RESULT_CHARS < len(item.result.text) < results.RESULT_CHARS + 100


HTTP_SERVER = """
import gzip, json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(405); self.send_header("content-length", "0"); self.end_headers()
    do_DELETE = do_GET
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        match asked.get("method"):
            case "initialize":
                result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                          "serverInfo": {"name": "hostile", "version": "1"}}
            case "tools/list":
                result = {"tools": [{"name": "pour", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                return self.flood(asked["id"])
            case _ if "id" in asked:
                return self.say(json.dumps({"jsonrpc": "2.0", "id": asked["id"],
                                            "error": {"code": -32601, "message": "no"}}).encode())
            case _:
                self.send_response(202); self.send_header("content-length", "0"); return self.end_headers()
        self.say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode())
    def say(self, data, kind="application/json", **headers):
        self.send_response(200); self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items(): self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        try: self.wfile.write(data)
        except OSError: pass
    def flood(self, number):
        message = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "x" * (100 << 20)}]}}
        data = json.dumps(message).encode()
        match "KIND":
            case "json": self.say(data)
            case "gzip": self.say(gzip.compress(data, 1), content_encoding="gzip")
            case "events": self.say(b"event: message\\ndata: " + data + b"\\n\\n", "text/event-stream")
    def log_message(self, *_): pass
server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize("kind", ["json", "gzip", "events"])
async def test_RES_1_a_server_behind_http_is_bounded_as_well(tmp_path: Path, kind: str) -> None:
    here = str(tmp_path)
    place = Place(
        files=LocalWorkspace(),
        thread_id=ThreadId("t"),
        turn_id=TurnId("u"),
        cwd=here,
        workspace=here,
        sandbox=WorkspaceWrite(),
    )

    async def tell(text: str, stream: str = "output") -> None:
        pass

    with anyio.fail_after(60):
        command = [sys.executable, "-c", HTTP_SERVER.replace("KIND", kind)]
        async with await anyio.open_process(command) as process:
            assert process.stdout is not None
            port = int(await process.stdout.receive())
            await poured(tmp_path, '{"content": []}')
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            server = servers.McpServerSettings(name="hostile", url=f"http://127.0.0.1:{port}/mcp")
            async with servers.McpTools(Nothing(), [server], call_seconds=20).open(place, unheard) as tools:
                call = Call(id=CallId("c"), name=tools[0].spec.name, arguments="{}")
                work = await tools[0].prepare(Job(call=call, arguments={}, item_id=ItemId("i"), step=1, place=place))
                with pytest.raises(ToolFailed) as failed:
                    await work.run(tell, WorkspaceWrite())
            process.kill()
    assert "did not answer" not in str(failed.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < (150 << 10)


def test_a_server_is_started_from_outside_the_workspace_first(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "work" / "bin"
    for directory in (outside, inside):
        directory.mkdir(parents=True)
        for name in ("npx", "node"):
            (directory / name).write_text("#!/usr/bin/env node\n")
            (directory / name).chmod(0o755)
    (inside / "own").write_text("#!/bin/sh\n")
    (inside / "own").chmod(0o755)
    environment = transport.server_environment({"PATH": f".:{inside}::{outside}"})
    assert environment["PATH"] == f"{inside}:{outside}"

    def started(command: str, *args: str) -> list[str]:
        return transport.server_command(command, args, environment=environment, workspace=str(tmp_path / "work"))

    assert started("npx", "-y", "x") == [f"{outside}/node", f"{outside}/npx", "-y", "x"]
    assert started("own") == [f"{inside}/own"], "a directory that the user put on the PATH, and nowhere else"
    assert started("./own", "a") == ["./own", "a"]
    assert started("nowhere") == []
