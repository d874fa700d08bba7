"""An observer sees everything, and changes nothing through any protocol.

What is tried comes from the code: every endpoint, every method, every command. One that is new is refused here, or has
to be named among those that only look.
"""

import json
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from hames.protocols.acp.updates.v1 import OutboundV1
from hames.protocols.acp.updates.v2 import OutboundV2
from hames.protocols.bootstrap.messages import REQUESTS
from hames.protocols.flint.session import METHODS
from hames.protocols.sync.messages import SyncCommand
from hames.testing.fakes.model import ScriptedModel, call, say
from role_server import DANGER, ask, hear_method, open_lines, role_server
from server_support import following, http
from support import created

OPEN = ("/sign-in", "/acp")
"""Paths whose other methods are for observers, too: what they may do there is tried below."""
STREAMS = ("/events", "/acp", "/mcp")
"""GETs that go on for as long as somebody listens."""


async def test_an_observer_changes_nothing_over_http(tmp_path: Path) -> None:
    async with role_server(tmp_path, ScriptedModel([say("Hi")])) as here, http(here.server) as client:
        thread = (await created(here.engine)).id
        before, files = await here.everything(), files_of(tmp_path)
        table = (await client.get("/openapi.json", headers=here.headers("observer"))).json()["paths"]
        tried = 0
        for path, methods in table.items():
            url = path.format(id=thread, tool="x", number=0, message="x", seq=1, thread="x", path="x", item="x")
            if "get" in methods and path not in STREAMS:
                answer = await client.get(url, headers=here.headers("observer"))
                assert answer.status_code < 500, (path, answer.text)
            for method in methods.keys() - {"get"} if path not in OPEN else ():
                tried += 1
                body: dict[str, Any] = {"json": {}}
                if path == "/uploads":
                    body = {"content": b"\x89PNG", "headers": {"content-type": "image/png"}}
                headers = {**here.headers("observer"), **body.pop("headers", {})}
                answer = await client.request(method.upper(), url, headers=headers, **body)
                assert answer.status_code == 403, (method, path, answer.text)
                assert "observer" in answer.text
        assert tried >= 15
        assert await here.everything() == before
        assert files_of(tmp_path) == files
        assert (await client.get(f"/threads/{thread}", headers=here.headers("observer"))).status_code == 200
        status = (await client.get("/status", headers=here.headers("observer"))).json()
        assert (status["role"], status["user"], status["canAddDevices"]) == ("observer", "observer-1", False)


def files_of(directory: Path) -> dict[str, int]:
    """The files of a directory and their sizes, but for what may always change: caches that are made anew."""
    files = (one for one in directory.rglob("*") if one.is_file() and not one.is_symlink())
    return {str(one): one.stat().st_size for one in files if ".db" not in one.name}


CHANGES: dict[str, dict[str, Any]] = {
    "session/new": {"cwd": "/"},
    "session/fork": {"cwd": "/"},
    "session/delete": {},
    "session/prompt": {"prompt": [{"type": "text", "text": "go"}]},
    "session/set_mode": {"modeId": "plan"},
    "session/set_config_option": {"configId": "mode", "type": "id", "value": "plan"},
}


LOOKS = {"initialize", "session/load", "session/resume", "session/list", "session/close"}
"""What an observer may ask for over ACP. Signing in or out changes nothing but its own connection."""
LOOKS |= {"authenticate", "logout", "auth/login", "auth/logout"}
LOOKS |= {"tool_call/cancel", "terminal/cancel"}
"""No call of ours can be cancelled by itself."""


@pytest.mark.parametrize("version", [1, 2])
def test_every_method_of_acp_is_tried_or_only_looks(version: int) -> None:
    methods = (OutboundV1 if version == 1 else OutboundV2).methods
    assert methods <= CHANGES.keys() | LOOKS


@pytest.mark.parametrize("version", [1, 2])
async def test_an_observer_watches_over_acp_and_changes_nothing(tmp_path: Path, version: int) -> None:
    model = ScriptedModel([call("danger", text="x")], [say("Done.")])
    async with role_server(tmp_path, model, DANGER) as here, here.socket("observer", "/acp") as acp:
        thread = (await created(here.engine)).id
        about = {"protocolVersion": version, "info": {"name": "x", "version": "1"}}
        await ask(acp, "initialize", about, 0, rpc=True)
        listed = await ask(acp, "session/list", {}, rpc=True)
        assert [one["sessionId"] for one in listed["result"]["sessions"]] == [thread]
        load = {"sessionId": thread, "cwd": str(tmp_path), "mcpServers": []}
        opened = await ask(acp, "session/load" if version == 1 else "session/resume", load, rpc=True)
        assert "result" in opened, opened
        before = await here.everything()
        for method, params in CHANGES.items():
            if (version, method) == (2, "session/set_mode"):
                continue
            refused = await ask(acp, method, {"sessionId": thread, **params}, rpc=True)
            assert refused["error"]["code"] == -32600, (method, refused)
            assert "has the role observer" in refused["error"]["message"]
        await acp.send(json.dumps({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": thread}}))
        servers = [{"type": "stdio", "name": "evil", "command": "/bin/true", "args": [], "env": []}]
        brought = await ask(acp, "session/resume", {**load, "mcpServers": servers}, rpc=True)
        assert "has the role observer" in brought["error"]["message"]
        assert await here.everything() == before
        async with here.socket("owner", "/acp") as owner:
            await ask(owner, "initialize", about, 0, rpc=True)
            await ask(owner, "session/resume", load, rpc=True)
            prompt = {"sessionId": thread, "prompt": [{"type": "text", "text": "go"}]}
            await owner.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt}))
            asked = await hear_method(owner, "session/request_permission")
            outcome = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
            await owner.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}))
        heard = await _heard_until(acp, "Done.")
        assert "session/request_permission" not in heard  # nobody is asked who may not answer
        assert "danger" in heard
        closed = await ask(acp, "session/close", {"sessionId": thread}, rpc=True)
        assert "result" in closed


async def _heard_until(socket: ClientConnection, words: str) -> str:
    """Everything up to these words of the model, which come in pieces."""
    heard = said = ""
    with anyio.fail_after(60):
        while words not in said:
            heard += (line := str(await socket.recv()))
            update = json.loads(line).get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                said += update["content"]["text"]
    return heard


async def test_an_observer_watches_over_acp_with_http(tmp_path: Path) -> None:
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    async with role_server(tmp_path, ScriptedModel()) as here, http(here.server) as client:
        headers = here.headers("observer")
        opened = await client.post("/acp", json=message, headers=headers)
        assert opened.status_code == 200, opened.text
        headers["acp-connection-id"] = opened.headers["acp-connection-id"]
        new = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": str(tmp_path)}}
        assert (await client.post("/acp", json=new, headers=headers)).status_code == 202
        events = {**headers, "accept": "text/event-stream"}
        with anyio.fail_after(60):
            async with client.stream("GET", "/acp", headers=events) as stream:
                line = await anext(line async for line in stream.aiter_lines() if line.startswith("data: "))
        assert "has the role observer" in line
        other = {**here.headers("driver"), "acp-connection-id": headers["acp-connection-id"]}
        assert (await client.post("/acp", json=new, headers=other)).status_code == 404
        assert (await client.delete("/acp", headers=headers)).status_code == 202


async def test_an_observer_makes_no_thread_by_looking(tmp_path: Path) -> None:
    async with role_server(tmp_path, ScriptedModel()) as here, http(here.server) as client:
        assert (await client.get("/events", headers=here.headers("observer"))).status_code == 403
        async with here.socket("observer", "/ws") as socket:
            with pytest.raises(ConnectionClosed) as closed, anyio.fail_after(60):
                await socket.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4403
        assert await here.everything() == {}


COMMANDS: list[dict[str, Any]] = [
    {"type": "submit", "prompt": "x"},
    {"type": "steer", "prompt": "x"},
    {"type": "cancel"},
    {"type": "approve", "id": "apr_1", "decision": "once"},
    {"type": "configure", "approvalPolicy": "always"},
    {"type": "dequeue", "id": "p_1"},
    {"type": "rename", "title": "x"},
    {"type": "compact"},
    {"type": "review", "target": {"kind": "uncommittedChanges"}},
]


def test_every_command_of_sync_is_tried() -> None:
    assert {kind.__struct_config__.tag for kind in get_args(SyncCommand)} == {one["type"] for one in COMMANDS}


async def test_an_observer_changes_nothing_over_sync(tmp_path: Path) -> None:
    async with role_server(tmp_path, ScriptedModel()) as here:
        thread = (await created(here.engine)).id
        before = await here.everything()
        async with following(here.server, thread, additional_headers=here.headers("observer")) as client:
            await client.hear()
            for command in COMMANDS:
                await client.send(command)
                with anyio.fail_after(60):
                    while not client.errors:
                        await client.hear()
                assert "observer" in client.errors.pop()["message"], command
        assert await here.everything() == before


PARAMS: dict[str, Any] = {
    "approvalPolicy": "never",
    "input": [{"type": "text", "text": "x"}],
    "turnId": "turn_1",
    "expectedTurnId": "turn_1",
    "requestId": "apr_1",
    "decision": "once",
    "name": "x",
    "id": "p_1",
    "queuedId": "p_1",
    "promptId": "p_1",
    "items": [],
    "command": ["true"],
    "dataBase64": "",
    "target": {"type": "uncommittedChanges"},
    "optionId": "mode",
    "value": "plan",
    "action": "drop",
    "branch": "x",
}
LOOKING = {"initialize", "account/bedrock/checkGovCloudRequirements", "thread/unsubscribe"}
"""Methods of an observer, beside those that list, read or get something."""


@pytest.mark.parametrize("way", ["websocket", "unix"])
async def test_an_observer_changes_nothing_over_flint_and_bootstrap(tmp_path: Path, way: str) -> None:
    async with role_server(tmp_path, ScriptedModel()) as here:
        thread = (await created(here.engine)).id
        (tmp_path / "kept").write_text("kept")
        before, files = await here.everything(), files_of(tmp_path)
        paths = {"path": tmp_path / "kept", "sourcePath": tmp_path / "kept", "destinationPath": tmp_path / "copy"}
        params = {**PARAMS, **{name: str(path) for name, path in paths.items()}, "threadId": thread}
        for protocol, methods in (("flint", METHODS), ("bootstrap", REQUESTS)):
            async with open_lines(here, "observer", way, protocol) as client:
                await client("initialize", {"clientInfo": {"name": "watcher", "version": "1"}})
                for method in sorted(methods):
                    if method in LOOKING or method.replace(".", "/").endswith(("/list", "/read", "/get")):
                        more = {"number": 1} if method == "thread/processes/list" else {}
                        await client(method, {**params, **more})
                        continue
                    more = {"process": 1} if method == "thread/processes/end" else {}
                    if method == "fs/createDirectory":
                        more = {"path": str(tmp_path / "made")}
                    answer = await client(method, {**params, **more})
                    assert "the role observer" in answer.get("error", {}).get("message", ""), (method, answer)
                    # Codex's own requests have Codex's numbers.
                    assert answer["error"]["code"] in (-32010, -32600)
        assert await here.everything() == before
        assert files_of(tmp_path) == files


@pytest.mark.parametrize("path", ["/mcp", "/agui", "/v1/responses", "/v1/chat/completions"])
async def test_an_observer_runs_nothing_through_the_apis_of_others(tmp_path: Path, path: str) -> None:
    async with role_server(tmp_path, ScriptedModel([say("Hi")])) as here, http(here.server) as client:
        before = await here.everything()
        answer = await client.post(path, json={}, headers=here.headers("observer"))
        assert (answer.status_code, "observer" in answer.text) == (403, True)
        assert (await client.post(path, json={}, headers=here.headers("driver"))).status_code != 403
        assert await here.everything() == before
