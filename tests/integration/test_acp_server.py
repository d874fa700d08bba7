"""`/acp` of a server: HTTP with event streams, WebSocket, the guard; and one live thread beside the other protocols."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from websockets.asyncio.client import connect

from acp_schema import check_message
from hames.clock_and_ids import SystemClock
from hames.domain.approvals import RunCommand
from hames.server.app import Server
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from server_support import HandClock, events, following, http, running
from support import ECHO, PlainTool, echo, engine

JSON = {"content-type": "application/json"}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
TEXT = [{"type": "text", "text": "go"}]


class HttpClient:
    """One connection over HTTP, reading its streams as they are opened."""

    def __init__(self, client: httpx2.AsyncClient, tasks: anyio.abc.TaskGroup) -> None:
        self._client = client
        self._tasks = tasks
        self._number = 0
        self._news = anyio.Event()
        self.name = ""
        self.heard: list[tuple[str, dict[str, Any]]] = []
        """The stream that each message came on, and the message."""

    async def initialize(self, version: int) -> dict[str, Any]:
        message = {**INITIALIZE, "params": {"protocolVersion": version}}
        answer = await self._client.post("/acp", json=message)
        assert answer.status_code == 200
        self.name = answer.headers["acp-connection-id"]
        await self._tasks.start(self._listen, "")
        return answer.json()

    async def listen(self, session: str) -> None:
        await self._tasks.start(self._listen, session)

    async def _listen(self, session: str, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        headers = {"accept": "text/event-stream", "acp-connection-id": self.name}
        headers |= {"acp-session-id": session} if session else {}
        async with self._client.stream("GET", "/acp", headers=headers, timeout=None) as stream:
            assert stream.status_code == 200, await stream.aread()
            task_status.started()
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    self.heard.append((session, json.loads(line.removeprefix("data: "))))
                    self._news.set()
                    self._news = anyio.Event()

    async def post(self, message: dict[str, Any], session: str = "") -> int:
        headers = {"acp-connection-id": self.name, **({"acp-session-id": session} if session else {})}
        return (await self._client.post("/acp", json={"jsonrpc": "2.0", **message}, headers=headers)).status_code

    async def request(self, method: str, params: dict[str, Any], session: str = "") -> int:
        self._number += 1
        assert await self.post({"id": self._number, "method": method, "params": params}, session) == 202
        return self._number

    async def answer(self, number: int) -> tuple[str, dict[str, Any]]:
        return await self.until(lambda one: one.get("id") == number and "method" not in one)

    async def until(self, wanted: Any) -> tuple[str, dict[str, Any]]:
        with anyio.fail_after(60):
            while True:
                for stream, message in self.heard:
                    if wanted(message):
                        return stream, message
                await self._news.wait()


@asynccontextmanager
async def connected(server: Server, version: int) -> AsyncGenerator[HttpClient]:
    async with http(server) as client, anyio.create_task_group() as tasks:
        opened = HttpClient(client, tasks)
        await opened.initialize(version)
        yield opened
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("version", [1, 2])
async def test_a_turn_over_http(tmp_path: Path, version: int) -> None:
    harness = engine(ScriptedModel([call("echo", text="x")], [say("Done.")]), ECHO, clock=SystemClock())
    async with harness, running(harness, tmp_path) as server, connected(server, version) as client:
        stream, answer = await client.answer(await client.request("session/new", {"cwd": str(tmp_path)}))
        assert stream == ""
        session = answer["result"]["sessionId"]
        await client.listen(session)
        number = await client.request("session/prompt", {"sessionId": session, "prompt": TEXT}, session)
        stream, answer = await client.answer(number)
        assert stream == session, "an answer comes where its request belongs"
        if version == 2:
            await client.until(lambda one: one.get("params", {}).get("update", {}).get("state") == "idle")
        else:
            assert answer["result"]["stopReason"] == "end_turn"
        for stream, message in client.heard:
            check_message(version, message)
            assert stream == (session if message.get("method") == "session/update" else stream)
        said = [one["params"]["update"] for _, one in client.heard if one.get("method") == "session/update"]
        assert any(one["sessionUpdate"] == "agent_message_chunk" for one in said)


async def test_what_nobody_reads_yet_is_kept(tmp_path: Path) -> None:
    harness = engine(ScriptedModel([say("Hello.")]), clock=SystemClock())
    async with harness, running(harness, tmp_path) as server, connected(server, 1) as client:
        _, answer = await client.answer(await client.request("session/new", {"cwd": str(tmp_path)}))
        session = answer["result"]["sessionId"]
        number = await client.request("session/prompt", {"sessionId": session, "prompt": TEXT}, session)
        await client.listen(session)  # only now
        await client.answer(number)
        assert "available_commands_update" in str(client.heard[1])


async def test_http_refuses_what_does_not_belong_to_a_connection(tmp_path: Path) -> None:
    harness = engine(ScriptedModel([hang()]), clock=SystemClock())
    async with harness, running(harness, tmp_path) as server, http(server) as client, connected(server, 1) as mine:
        own = {"acp-connection-id": mine.name}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "session/list"}
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}

        async def status(method: str, **request: Any) -> int:
            return (await client.request(method, "/acp", **request)).status_code

        assert await status("POST", json=ping) == 400
        assert await status("POST", json=ping, headers={"acp-connection-id": "no"}) == 404
        assert await status("POST", json=INITIALIZE, headers=own) == 400
        assert await status("POST", json=[ping], headers=own) == 400
        assert await status("POST", json=3, headers=own) == 400
        assert await status("POST", content=b"{", headers={**own, **JSON}) == 400
        assert await status("POST", content=b"x", headers={**own, "content-type": "text/plain"}) == 415
        assert await status("POST", json=cancel, headers=own) == 400, "the session's header is missing"
        assert await status("POST", json=cancel, headers={**own, "acp-session-id": "other"}) == 400
        assert await status("POST", json=cancel, headers={**own, "acp-session-id": "s"}) == 202
        assert await status("GET", headers=own) == 406
        assert await status("GET", headers={"accept": "text/event-stream"}) == 400
        assert await status("GET", headers={"accept": "text/event-stream", **own}) == 409, "somebody reads it"
        assert await status("PUT", json=ping, headers=own) == 405
        assert await status("DELETE") == 400
        assert await status("DELETE", headers=own) == 202
        assert await status("DELETE", headers=own) == 404
        assert await status("POST", json=ping, headers=own) == 404


async def test_malformed_messages_of_a_connection_are_answered_on_its_stream(tmp_path: Path) -> None:
    harness = engine(ScriptedModel(), clock=SystemClock())
    async with harness, running(harness, tmp_path) as server, connected(server, 2) as client:
        assert await client.post({"id": 5, "method": "no/such"}) == 202
        _, answer = await client.until(lambda one: one.get("id") == 5)
        assert answer["error"]["code"] == -32601
        assert await client.post({"id": "x"}) == 202
        _, answer = await client.until(lambda one: one.get("id") == "x")
        assert answer["error"]["code"] == -32600


async def test_a_connection_whose_client_has_gone_is_closed_and_its_turn_goes_on(tmp_path: Path) -> None:
    clock = HandClock()
    harness = engine(ScriptedModel([hang()]), clock=clock)
    async with harness, running(harness, tmp_path) as server:
        async with connected(server, 1) as client:
            _, answer = await client.answer(await client.request("session/new", {"cwd": str(tmp_path)}))
            session = answer["result"]["sessionId"]
            await client.request("session/prompt", {"sessionId": session, "prompt": TEXT}, session)
            await clock.advance(200)
            assert await client.post({"method": "session/cancel", "params": {"sessionId": "s"}}, "s") == 202, "it reads"
        async with http(server) as stranger:
            headers = {"acp-connection-id": client.name}
            with anyio.fail_after(60):  # as soon as the server has seen that nobody reads
                ping = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}
                while (
                    await stranger.post("/acp", json=ping, headers=headers | {"acp-session-id": "s"})
                ).status_code == 202:
                    await clock.advance(200)
            async with connected(server, 1) as back:
                params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
                await back.listen(session)
                await back.answer(await back.request("session/load", params, session))
                assert "user_message_chunk" in str(back.heard)


async def test_the_guard_stands_before_acp(tmp_path: Path) -> None:
    harness = engine(ScriptedModel(), clock=SystemClock())
    token = "0123456789abcdef0123456789abcdef"
    async with harness, running(harness, tmp_path, token=token) as server, http(server) as client:
        assert (await client.post("/acp", json=INITIALIZE)).status_code == 401
        assert (await client.get("/acp", headers={"accept": "text/event-stream"})).status_code == 401
        assert (await client.delete("/acp")).status_code == 401
        bearer = {"authorization": f"Bearer {token}"}
        assert (await client.post("/acp", json=INITIALIZE, headers=bearer)).status_code == 200
        evil = {**bearer, "origin": "http://evil.example"}
        assert (await client.post("/acp", json=INITIALIZE, headers=evil)).status_code == 403


async def test_one_live_thread_in_five_protocols_and_an_approval_answered_from_acp(tmp_path: Path) -> None:
    danger = PlainTool("danger", echo, intent=RunCommand(command="rm x", cwd="/w"))
    harness = engine(ScriptedModel([call("danger", text="x")], [say("Done.")]), danger, clock=SystemClock())
    async with harness, running(harness, tmp_path) as server, http(server) as client:
        base = server.url.replace("http", "ws", 1)

        async def hear(socket: Any, wanted: Any) -> Any:
            with anyio.fail_after(60):
                while True:
                    message = json.loads(await socket.recv())
                    if wanted(message):
                        return message

        options: dict[str, Any] = {"max_size": None, "compression": None, "proxy": None}
        async with (
            connect(f"{base}/acp", **options) as acp,
            connect(f"{base}/flint", **options) as flint,
            connect(f"{base}/bootstrap", **options) as bootstrap,
        ):
            await acp.send(json.dumps(INITIALIZE))
            await hear(acp, lambda one: one.get("id") == 0)
            new = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": str(tmp_path)}}
            await acp.send(json.dumps(new))
            thread = (await hear(acp, lambda one: one.get("id") == 1))["result"]["sessionId"]
            about = {"clientInfo": {"name": "me", "version": "1"}}
            await flint.send(json.dumps({"id": 1, "method": "initialize", "params": about}))
            await flint.send(json.dumps({"id": 2, "method": "thread/resume", "params": {"threadId": thread}}))
            await hear(flint, lambda one: one.get("id") == 2)
            get = {"jsonrpc": "2.0", "id": 1, "method": "thread.get", "params": {"threadId": thread}}
            await bootstrap.send(json.dumps(get))
            await hear(bootstrap, lambda one: one.get("id") == 1)
            async with following(server, thread) as sync, events(client, f"/events?thread={thread}") as sse:
                params = {"sessionId": thread, "prompt": TEXT}
                await acp.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params}))
                question = await hear(acp, lambda one: one.get("method") == "session/request_permission")
                await hear(flint, lambda one: "requestApproval" in one.get("method", ""))
                await hear(bootstrap, lambda one: one.get("method") == "approval.requested")
                outcome = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
                await acp.send(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": outcome}))
                assert (await hear(acp, lambda one: one.get("id") == 2))["result"]["stopReason"] == "end_turn"
                await hear(flint, lambda one: one.get("method") == "turn/completed")
                await hear(bootstrap, lambda one: one.get("method") == "turn.completed")
                await sync.until(lambda state: "Done." in json.dumps(state))
                await sse.until("status", state="idle")
