"""Clients of every protocol that hear what a server tells of one thread, prompt and answer, and outlive the server."""

import contextlib
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.buffered import BufferedByteReceiveStream
from websockets.exceptions import WebSocketException

from server_support import EventReader, SyncFollower

if TYPE_CHECKING:
    from kill_lanes import Lane

POLL_SECONDS = 0.01
BUSY = 409
GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead, OSError)
GONE += (httpx2.HTTPError, StopAsyncIteration, WebSocketException)


async def until(seen: Callable[[], bool]) -> None:
    while not seen():  # what is waited for comes from another process
        await anyio.sleep(POLL_SECONDS)


class Failed(Exception):
    """What must not happen, in words."""


class Client:
    """What one process told one client."""

    def __init__(self, lane: "Lane") -> None:
        self.lane = lane
        self.messages = 0
        self.texts: dict[str, str] = {}
        """Of each item, as far as it was told."""
        self.asked: dict[str, bool] = {}
        """Approvals by id, and whether we answered."""
        self.ended = False
        self.gone = anyio.Event()
        """Everything that was told has been heard, and nothing more comes."""

    async def listen(self) -> None:
        """Takes in one message."""
        raise NotImplementedError

    async def hear_all(self) -> None:
        """A task of its own: whoever waits for a message with a time limit must not cut one in two."""
        try:
            with contextlib.suppress(*GONE):
                while True:
                    await self.listen()
        finally:
            self.gone.set()

    async def start(self) -> None:
        """Opens the thread, or makes it."""

    async def prompt(self) -> None:
        raise NotImplementedError

    async def answer(self, approval_id: str) -> None:
        raise NotImplementedError

    async def answer_all(self) -> None:
        for approval_id in [one for one, answered in self.asked.items() if not answered]:
            self.asked[approval_id] = True
            await self.answer(approval_id)


class StdioClient(Client):
    """JSON-RPC, a line each."""

    def __init__(self, lane: "Lane", sent: ByteSendStream, received: ByteReceiveStream) -> None:
        super().__init__(lane)
        self._in, self._lines = sent, BufferedByteReceiveStream(received)
        self._last = 0
        self._results: dict[int, Any] = {}

    async def send(self, message: dict[str, Any]) -> None:
        await self._in.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def call(self, method: str, **params: Any) -> Any:
        self._last += 1
        number = self._last
        await self.send({"id": number, "method": method, "params": params})
        await until(lambda: number in self._results or self.gone.is_set())
        if number not in self._results:
            raise Failed(f"{method} was not answered")
        answer = self._results.pop(number)
        if "error" in answer:
            raise Failed(f"{method}: {answer['error']}")
        return answer["result"]

    async def listen(self) -> None:
        message = json.loads(await self._lines.receive_until(b"\n", 64 << 20))
        self.messages += 1
        if "method" in message:
            self.hear(message)
        elif message.get("id") is not None:
            self.hear_answer(message)

    def hear_answer(self, message: dict[str, Any]) -> None:
        self._results[message["id"]] = message

    def hear(self, message: dict[str, Any]) -> None:
        raise NotImplementedError


class FlintClient(StdioClient):
    async def start(self) -> None:
        await self.call("initialize", clientInfo={"name": "prove", "version": "1"})
        await self.send({"method": "initialized"})
        if self.lane.thread_id:
            await self.call("thread/resume", threadId=self.lane.thread_id)
        else:
            self.lane.thread_id = (await self.call("thread/start"))["thread"]["id"]

    async def prompt(self) -> None:
        await self.call("turn/start", threadId=self.lane.thread_id, input=[{"type": "text", "text": "go"}])

    def hear(self, message: dict[str, Any]) -> None:
        params = message.get("params") or {}
        if message["method"] == "item/agentMessage/delta":
            self.texts[params["itemId"]] = self.texts.get(params["itemId"], "") + params["delta"]
        elif message["method"].endswith("requestApproval"):
            self.asked.setdefault(message["id"], False)
        elif message["method"] == "turn/completed":
            self.ended = True

    async def answer(self, approval_id: str) -> None:
        await self.send({"id": approval_id, "result": {"decision": "accept"}})


class BootstrapClient(StdioClient):
    async def start(self) -> None:
        await self.call("initialize")
        if self.lane.thread_id:
            await self.call("thread.get", threadId=self.lane.thread_id)
        else:
            self.lane.thread_id = (await self.call("thread.create"))["thread"]["threadId"]

    async def prompt(self) -> None:
        await self.call("turn.start", threadId=self.lane.thread_id, input=[{"type": "text", "text": "go"}])

    def hear(self, message: dict[str, Any]) -> None:
        params = message["params"]
        if message["method"] == "item.delta":
            self.texts[params["itemId"]] = self.texts.get(params["itemId"], "") + params["delta"]
        elif message["method"] == "approval.requested":
            self.asked.setdefault(params["requestId"], False)
        elif message["method"] in ("turn.completed", "turn.error"):
            self.ended = True

    async def answer(self, approval_id: str) -> None:
        self._last += 1
        params = {"requestId": approval_id, "decision": "once"}
        await self.send({"id": self._last, "method": "approval.respond", "params": params})


class AcpClient(StdioClient):
    """Version 1, which answers a prompt at the end of its turn."""

    def __init__(self, lane: "Lane", sent: ByteSendStream, received: ByteReceiveStream) -> None:
        super().__init__(lane, sent, received)
        self._prompted = 0

    async def start(self) -> None:
        await self.call("initialize", protocolVersion=1, clientCapabilities={})
        place = {"cwd": str(self.lane.directory / "work"), "mcpServers": []}
        if self.lane.thread_id:
            await self.call("session/load", sessionId=self.lane.thread_id, **place)
        else:
            self.lane.thread_id = (await self.call("session/new", **place))["sessionId"]

    async def prompt(self) -> None:
        self._last += 1
        self._prompted = self._last
        params = {"sessionId": self.lane.thread_id, "prompt": [{"type": "text", "text": "go"}]}
        await self.send({"id": self._last, "method": "session/prompt", "params": params})

    def hear(self, message: dict[str, Any]) -> None:
        params = message["params"]
        if message["method"] == "session/request_permission":
            self.asked.setdefault(message["id"], False)
        elif message["method"] == "session/update" and params["update"]["sessionUpdate"] == "agent_message_chunk":
            key, text = params["update"]["messageId"], params["update"]["content"]["text"]
            self.texts[key] = self.texts.get(key, "") + text

    def hear_answer(self, message: dict[str, Any]) -> None:
        if message["id"] == self._prompted:
            self.ended = True
        super().hear_answer(message)

    async def answer(self, approval_id: str) -> None:
        outcome = {"outcome": "selected", "optionId": "allow_once"}
        await self.send({"id": approval_id, "result": {"outcome": outcome}})


class AcpV2Client(StdioClient):
    """Answers a prompt when it is part of the conversation, and tells the state of the session by itself."""

    def __init__(self, lane: "Lane", sent: ByteSendStream, received: ByteReceiveStream) -> None:
        super().__init__(lane, sent, received)
        self._ran = False

    async def start(self) -> None:
        await self.call("initialize", protocolVersion=2, info={"name": "prove", "version": "1"}, capabilities={})
        place = {"cwd": str(self.lane.directory / "work"), "mcpServers": []}
        if self.lane.thread_id:
            await self.call("session/resume", sessionId=self.lane.thread_id, replayFrom={"type": "start"}, **place)
        else:
            self.lane.thread_id = (await self.call("session/new", **place))["sessionId"]

    async def prompt(self) -> None:
        self._ran = False
        await self.call("session/prompt", sessionId=self.lane.thread_id, prompt=[{"type": "text", "text": "go"}])

    def hear(self, message: dict[str, Any]) -> None:
        params = message["params"]
        if message["method"] == "session/request_permission":
            self.asked.setdefault(message["id"], False)
        elif message["method"] == "session/update":
            self._update(params["update"])

    def _update(self, update: dict[str, Any]) -> None:
        match update["sessionUpdate"]:
            case "agent_message_chunk":
                key = update["messageId"]
                self.texts[key] = self.texts.get(key, "") + update["content"]["text"]
            case "agent_message":  # the whole of it
                self.texts[update["messageId"]] = "".join(block["text"] for block in update["content"])
            case "state_update":
                self._ran = self._ran or update["state"] != "idle"
                self.ended = self._ran and update["state"] == "idle"
            case _:
                pass

    async def answer(self, approval_id: str) -> None:
        outcome = {"outcome": "selected", "optionId": "allow_once"}
        await self.send({"id": approval_id, "result": {"outcome": outcome}})


class SseClient(Client):
    def __init__(self, lane: "Lane", http: httpx2.AsyncClient, reader: EventReader) -> None:
        super().__init__(lane)
        self._http, self._reader = http, reader
        self._ran = False

    async def prompt(self) -> None:
        self._ran = False
        with anyio.fail_after(60):
            while (answer := await self._http.post("/prompt", json={"content": "go"})).status_code == BUSY:
                await anyio.sleep(0.1)  # the log said before the server did that the turn is over
        answer.raise_for_status()

    async def listen(self) -> None:
        event = await self._reader.next()
        self.messages += 1
        if event["type"] == "text":
            self.texts[f"{self.messages}"] = event["content"]
        elif event["type"] == "approval":
            self.asked.setdefault(event["id"], False)
        elif event["type"] == "status":
            self._ran = self._ran or event["state"] != "idle"
            self.ended = self._ran and event["state"] == "idle"

    async def answer(self, approval_id: str) -> None:
        await self._http.post(f"/approvals/{approval_id}", json={"decision": "once"})


class SyncClient(Client):
    def __init__(self, lane: "Lane", follower: SyncFollower) -> None:
        super().__init__(lane)
        self._follower = follower
        self._ran = False

    async def start(self) -> None:
        await until(lambda: self._follower.state is not None or self.gone.is_set())

    async def prompt(self) -> None:
        self._ran = False
        await self._follower.send({"type": "submit", "prompt": "go", "id": os.urandom(8).hex()})

    async def listen(self) -> None:
        await self._follower.hear()
        self.messages += 1
        state = self._follower.state
        for approval in state["approvals"]:
            self.asked.setdefault(approval["id"], False)
        for number, message in enumerate(state["messages"]):
            if message["role"] == "assistant" and message["content"]:
                self.texts[f"message {number}"] = message["content"]
        runs = state["status"] == "running"
        self._ran = self._ran or runs
        self.ended = self._ran and not runs

    async def answer(self, approval_id: str) -> None:
        await self._follower.send({"type": "approve", "id": approval_id, "decision": "once"})


STDIO: dict[str, type[StdioClient]] = {
    "flint": FlintClient,
    "bootstrap": BootstrapClient,
    "acp": AcpClient,
    "acp2": AcpV2Client,
}
