"""Named tokens against the real server: what each role can do over every protocol, and what the log says about it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.approvals import RunCommand
from hames.domain.commands import ListThreads, ThreadPage
from hames.domain.events import ApprovalResolved, ItemStarted, SettingsChanged, ThreadRenamed, TurnEnded, TurnStarted
from hames.domain.ids import ThreadId
from hames.domain.items import UserMessage
from hames.domain.roles import NAMED_ROLES
from hames.ports import Tool
from hames.protocols.bootstrap.messages import REQUESTS
from hames.protocols.flint.session import METHODS
from hames.server.app import Server
from hames.server.guard.named_tokens import TokenFile
from hames.server.unix import NAME
from hames.stdio.principals import account
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from server_support import following, http, running
from support import PlainTool, created, echo, engine, question, started, turn_end

OWNER = "the-owner-token-0123456789"
DANGER = PlainTool("danger", echo, intent=RunCommand(command="rm x", cwd="/w"))


class House:
    """A server with one token for each role."""

    def __init__(self, server: Server, engine: Engine, directory: Path, tokens: dict[str, str]) -> None:
        self.server = server
        self.engine = engine
        self.directory = directory
        self.tokens = {**tokens, "owner": OWNER}

    def headers(self, role: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens[role]}"}

    @asynccontextmanager
    async def socket(self, role: str, path: str) -> AsyncGenerator[ClientConnection]:
        url = self.server.url.replace("http", "ws", 1) + path
        headers = self.headers(role) if role else {}
        async with connect(url, additional_headers=headers, proxy=None, compression=None) as found:
            yield found

    async def everything(self) -> Any:
        """All that is in any log."""
        page = await self.engine.execute(ListThreads(archived=None))
        assert isinstance(page, ThreadPage)
        return {one.id: [change.record for change in await self.engine.history(one.id)] for one in page.threads}


@asynccontextmanager
async def house(
    directory: Path, model: ScriptedModel, *tools: Tool, token: str | None = OWNER
) -> AsyncGenerator[House]:
    state = directory / "state"
    tokens = {role: TokenFile(state).add(f"{role}-1", role, now_ms=0) for role in NAMED_ROLES}
    async with (
        engine(model, *tools, clock=SystemClock(), cwd=directory, patience_s=0.2) as built,
        running(built, directory / "data", token=token, tokens_dir=state) as server,
    ):
        yield House(server, built, directory, tokens)


async def ask(socket: ClientConnection, method: str, params: Any, number: int = 1, *, rpc: bool = False) -> Any:
    message = {"id": number, "method": method, "params": params, **({"jsonrpc": "2.0"} if rpc else {})}
    await socket.send(json.dumps(message))
    with anyio.fail_after(60):
        while True:
            heard = json.loads(await socket.recv())
            if heard.get("id") == number and "method" not in heard:
                return heard


async def test_an_observer_changes_nothing_over_http(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedModel([say("Hi")])) as here, http(here.server) as client:
        thread = (await created(here.engine)).id
        before = await here.everything()
        table = (await client.get("/openapi.json", headers=here.headers("observer"))).json()["paths"]
        tried = 0
        for path, methods in table.items():
            for method in methods:
                url = path.format(id=thread, tool="x", number=0, message="x", seq=1, thread="x")
                if method == "get" or path in ("/sign-in", "/acp"):  # an observer may speak ACP: see below
                    continue
                tried += 1
                body = (
                    {"content": b"\x89PNG", "headers": {"content-type": "image/png"}}
                    if path == "/uploads"
                    else {"json": {}}
                )
                headers = {**here.headers("observer"), **body.pop("headers", {})}
                answer = await client.request(method.upper(), url, headers=headers, **body)
                assert answer.status_code == 403, (method, path, answer.text)
                assert "observer" in answer.json()["error"]["message"]
        assert tried >= 8
        assert await here.everything() == before
        assert (await client.get(f"/threads/{thread}", headers=here.headers("observer"))).status_code == 200
        status = (await client.get("/status", headers=here.headers("observer"))).json()
        assert (status["role"], status["user"], status["canAddDevices"]) == ("observer", "observer-1", False)


CHANGES: dict[str, dict[str, Any]] = {
    "session/new": {"cwd": "/"},
    "session/fork": {"cwd": "/"},
    "session/delete": {},
    "session/prompt": {"prompt": [{"type": "text", "text": "go"}]},
    "session/set_mode": {"modeId": "plan"},
    "session/set_config_option": {"configId": "mode", "type": "id", "value": "plan"},
}


@pytest.mark.parametrize("version", [1, 2])
async def test_an_observer_watches_over_acp_and_changes_nothing(tmp_path: Path, version: int) -> None:
    model = ScriptedModel([call("danger", text="x")], [say("Done.")])
    async with house(tmp_path, model, DANGER) as here, here.socket("observer", "/acp") as acp:
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
            asked = await _hear(owner, "session/request_permission")
            outcome = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
            await owner.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": outcome}))
        heard = await _heard_until(acp, "Done.")
        assert "session/request_permission" not in heard  # nobody is asked who may not answer
        assert "danger" in heard
        closed = await ask(acp, "session/close", {"sessionId": thread}, rpc=True)
        assert "result" in closed


async def _hear(socket: ClientConnection, method: str) -> Any:
    with anyio.fail_after(60):
        while (heard := json.loads(await socket.recv())).get("method") != method:
            pass
    return heard


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
    async with house(tmp_path, ScriptedModel()) as here, http(here.server) as client:
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
    async with house(tmp_path, ScriptedModel()) as here, http(here.server) as client:
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


async def test_an_observer_changes_nothing_over_sync(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedModel()) as here:
        thread = (await created(here.engine)).id
        before = await here.everything()
        async with following(here.server, thread, additional_headers=here.headers("observer")) as client:
            await client.hear()
            for command in COMMANDS:
                await client.send(command)
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
    "items": [],
    "command": ["true"],
    "path": "/tmp/x",
    "sourcePath": "/tmp/x",
    "destinationPath": "/tmp/y",
    "dataBase64": "",
    "target": {"type": "uncommittedChanges"},
}


@pytest.mark.parametrize("way", ["websocket", "unix"])
async def test_an_observer_changes_nothing_over_flint_and_bootstrap(tmp_path: Path, way: str) -> None:
    async with house(tmp_path, ScriptedModel()) as here:
        thread = (await created(here.engine)).id
        before = await here.everything()
        refused: set[str] = set()
        for protocol, methods in (("flint", METHODS), ("bootstrap", REQUESTS)):
            async with _lines(here, "observer", way, protocol) as client:
                await client("initialize", {"clientInfo": {"name": "watcher", "version": "1"}})
                for method in sorted(methods):
                    if method != "initialize":
                        more = {"process": 1} if method == "thread/processes/end" else {}
                        answer = await client(method, {**PARAMS, **more, "threadId": thread})
                        if "the role observer" in answer.get("error", {}).get("message", ""):
                            # Codex's own requests have Codex's numbers.
                            assert answer["error"]["code"] in (-32010, -32600)
                            refused.add(method)
        assert await here.everything() == before
        assert refused >= {"turn/start", "thread/start", "thread/archive", "thread/queue/add", "thread/name/set"}
        assert refused >= {"turn.start", "thread.create", "turn.cancel", "approval.respond", "command/exec"}


@asynccontextmanager
async def _lines(here: House, role: str, way: str, protocol: str) -> AsyncGenerator[Any]:
    number = 100
    rpc = protocol == "bootstrap"
    if way == "websocket":
        async with here.socket(role, f"/{protocol}") as socket:

            async def over_socket(method: str, params: Any) -> Any:
                nonlocal number
                number += 1
                return await ask(socket, method, params, number, rpc=rpc)

            yield over_socket
        return
    async with await anyio.connect_unix(here.directory / "data" / NAME) as stream:
        await stream.send(f"{protocol} {here.tokens[role]}\n".encode())
        received = b""

        async def over_unix(method: str, params: Any) -> Any:
            nonlocal number, received
            number += 1
            message = {"id": number, "method": method, "params": params, **({"jsonrpc": "2.0"} if rpc else {})}
            await stream.send(json.dumps(message).encode() + b"\n")
            with anyio.fail_after(60):
                while True:
                    while b"\n" not in received:
                        received += await stream.receive()
                    line, _, received = received.partition(b"\n")
                    heard = json.loads(line)
                    if heard.get("id") == number and "method" not in heard:
                        return heard

        yield over_unix


async def test_an_observer_may_follow_and_is_asked_nothing(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Done.")])
    async with house(tmp_path, model) as here, here.socket("observer", "/flint") as socket:
        thread = (await created(here.engine)).id
        await ask(socket, "initialize", {"clientInfo": {"name": "watcher", "version": "1"}})
        assert "result" in await ask(socket, "thread/resume", {"threadId": thread}, 2)
        await started(here.engine, thread)
        heard: list[Any] = []
        with anyio.fail_after(60):  # nobody who could answer is there: the question is declined after its patience
            while not heard or heard[-1].get("method") != "turn/completed":
                heard.append(json.loads(await socket.recv()))
        assert not [one for one in heard if "id" in one], "an observer was asked"
        answers = [
            change.record.event
            for change in await here.engine.history(thread)
            if isinstance(change.record.event, ApprovalResolved)
        ]
        assert [(one.decision, one.by.kind if one.by else "") for one in answers] == [("reject", "hames")]


async def test_a_driver_prompts_but_neither_answers_nor_loosens(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Done.")])
    async with house(tmp_path, model) as here, http(here.server, **here.headers("driver")) as client:
        thread = (await created(here.engine)).id
        watcher = await here.engine.watch(thread)
        assert (await client.post(f"/prompt?thread={thread}", json={"content": "go"})).status_code == 200
        asked = await question(watcher)
        refused = await client.post(f"/approvals/{asked.approval.id}", json={"decision": "once"})
        assert (refused.status_code, "approver" in refused.text) == (403, True)
        allowed = await client.post(
            f"/approvals/{asked.approval.id}", json={"decision": "once"}, headers=here.headers("approver")
        )
        assert allowed.status_code == 200
        await turn_end(watcher)
        for wish in ({"approvalPolicy": "never"}, {"sandbox": {"type": "dangerFullAccess"}}, {"cwd": "/"}):
            answer = await client.post("/threads", json=wish)
            assert (answer.status_code, "approver" in answer.text) == (403, True), wish
        assert (await client.post("/threads", json={"approvalPolicy": "always"})).status_code == 201
        async with following(here.server, thread, additional_headers=here.headers("driver")) as page:
            await page.send({"type": "configure", "approvalPolicy": "never"})
            while not page.errors:
                await page.hear()
            await page.send({"type": "configure", "approvalPolicy": "always"})
            await page.until(
                lambda state: state["settings"]["approvalPolicy"] == "always" if "settings" in state else True
            )
        link = tmp_path / "work"
        link.symlink_to("/")
        answer = await client.post("/threads", json={"cwd": str(link)})
        assert answer.status_code == 403, "a link led out of the directory"


async def test_the_log_says_who_did_what_and_from_where(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Done.")], [hang()])
    async with house(tmp_path, model) as here, http(here.server) as client:
        thread = ThreadId(
            (await client.post("/threads", json={}, headers=here.headers("owner"))).json()["thread"]["id"]
        )
        watcher = await here.engine.watch(thread)
        origin = {"origin": here.server.url}
        async with here.socket("driver", "/flint") as socket:
            await ask(socket, "initialize", {"clientInfo": {"name": "Zed", "version": "1"}})
            await ask(socket, "thread/resume", {"threadId": thread}, 2)
            await ask(socket, "turn/start", {"threadId": thread, "input": [{"type": "text", "text": "go"}]}, 3)
            asked = await question(watcher)
            await client.post(
                f"/approvals/{asked.approval.id}",
                json={"decision": "once"},
                headers={**here.headers("approver"), **origin},
            )
            await turn_end(watcher)
            await ask(socket, "turn/start", {"threadId": thread, "input": [{"type": "text", "text": "again"}]}, 4)
            await client.post(f"/cancel?thread={thread}", headers={**here.headers("owner")})
            await turn_end(watcher)
            await ask(socket, "thread/name/set", {"threadId": thread, "name": "x"}, 5)
        async with following(here.server, thread, additional_headers=here.headers("approver")) as sync:
            await sync.send({"type": "configure", "approvalPolicy": "never"})
            await sync.until(lambda state: True)
            with anyio.fail_after(60):
                while watcher.state.settings.approval_policy != "never":
                    watcher.state = (await watcher.next())[-1].after
        found = [change.record.event for change in await here.engine.history(thread)]
    who = {}
    for event in found:
        match event:
            case TurnStarted(by=by):
                who.setdefault("prompt", by)
            case ItemStarted(item=UserMessage(by=by)):
                who.setdefault("message", by)
            case ApprovalResolved(by=by):
                who["answer"] = by
            case TurnEnded(status="interrupted", by=by):
                who["interrupt"] = by
            case ThreadRenamed(by=by):
                who["name"] = by
            case SettingsChanged(by=by):
                who["settings"] = by
            case _:
                pass
    told = {what: (by.kind, by.name, by.via, by.client) for what, by in who.items()}
    assert told == {
        "prompt": ("token", "driver-1", "flint", "Zed"),
        "message": ("token", "driver-1", "flint", "Zed"),
        "answer": ("token", "approver-1", "page", ""),
        "interrupt": ("token", "owner", "http", ""),
        "name": ("token", "driver-1", "flint", "Zed"),
        "settings": ("token", "approver-1", "sync", ""),
    }


async def test_without_a_token_it_is_the_account_and_a_named_token_still_counts(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedModel(), token=None) as here, http(here.server) as client:
        made = (await client.post("/threads", json={})).json()["thread"]["id"]
        first = next(iter(await here.engine.history(ThreadId(made)))).record.event
        assert (first.by.kind, first.by.name) == ("user", account())
        assert (await client.post("/threads", json={}, headers=here.headers("observer"))).status_code == 403
        TokenFile(tmp_path / "state").revoke("observer-1")
        assert (await client.get("/threads", headers=here.headers("observer"))).status_code == 401


@pytest.mark.parametrize("path", ["/ws?thread={}", "/flint", "/bootstrap"])
async def test_a_revoked_token_loses_its_open_sockets(tmp_path: Path, path: str) -> None:
    async with house(tmp_path, ScriptedModel()) as here:
        thread = (await created(here.engine)).id
        async with (
            here.socket("driver", path.format(thread)) as socket,
            here.socket("approver", path.format(thread)) as other,
        ):
            TokenFile(tmp_path / "state").revoke("driver-1")
            with pytest.raises(ConnectionClosed) as closed, anyio.fail_after(60):
                while True:
                    await socket.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401
            pong = await other.ping()
            with anyio.fail_after(60):
                await pong


async def test_a_revoked_token_loses_its_open_stream(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedModel()) as here, http(here.server, **here.headers("observer")) as client:
        thread = (await created(here.engine)).id
        async with client.stream("GET", f"/events?thread={thread}") as stream:
            assert stream.status_code == 200
            TokenFile(tmp_path / "state").revoke("observer-1")
            with anyio.fail_after(60):
                try:
                    async for _ in stream.aiter_raw():
                        pass
                except Exception as ended:
                    assert "close" in str(ended).lower() or "read" in str(ended).lower() or not str(ended)
        assert (await client.get("/threads")).status_code == 401


async def test_a_browser_that_is_invited_has_the_role_of_whoever_invited_it(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedModel()) as here, http(here.server) as browser:
        made = (await browser.post("/links", json={}, headers=here.headers("driver"))).json()
        assert (await browser.post("/sign-in", json={"code": made["code"]})).status_code == 200
        status = (await browser.get("/status")).json()
        assert (status["role"], status["user"]) == ("driver", "driver-1")
        cookie = dict(browser.cookies)
        for name, value in cookie.items():  # nobody can make another name of it
            forged = {name: value.replace("driver-1", "approver-1")}
            browser.cookies.clear()
            assert (await browser.get("/status", cookies=forged)).status_code == 401
        browser.cookies.update(cookie)
        TokenFile(tmp_path / "state").revoke("driver-1")
        assert (await browser.get("/status")).status_code == 401


async def test_a_browser_signs_in_with_a_token_typed_in_place_of_a_code(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedModel()) as here, http(here.server) as browser:
        token = here.headers("observer")["authorization"].split()[1]
        assert (await browser.post("/sign-in", json={"code": token[:-1]})).status_code == 401
        assert (await browser.post("/sign-in", json={"code": f" {token}\n"})).status_code == 200
        status = (await browser.get("/status")).json()
        assert (status["role"], status["user"]) == ("observer", "observer-1")
        TokenFile(tmp_path / "state").revoke("observer-1")
        assert (await browser.get("/status")).status_code == 401


@pytest.mark.parametrize("path", ["/mcp", "/agui", "/v1/responses", "/v1/chat/completions"])
async def test_an_observer_runs_nothing_through_the_apis_of_others(tmp_path: Path, path: str) -> None:
    async with house(tmp_path, ScriptedModel([say("Hi")])) as here, http(here.server) as client:
        before = await here.everything()
        answer = await client.post(path, json={}, headers=here.headers("observer"))
        assert (answer.status_code, "observer" in answer.text) == (403, True)
        assert (await client.post(path, json={}, headers=here.headers("driver"))).status_code != 403
        assert await here.everything() == before
