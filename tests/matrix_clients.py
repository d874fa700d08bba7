"""A client of each protocol with the same few verbs, each over its real transport.

What a protocol tells is kept as it came; `shown` reads it as a list that looks the same whatever the protocol.
"""

import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import anyio
import httpx2
import msgspec
from websockets.asyncio.client import ClientConnection, connect

from hames.client.appserver.client import AppServerClient
from hames.client.appserver.events import ApprovalAsked, ItemCompleted, ItemDelta, TurnCompleted
from hames.client.bootstrap import BootstrapClient
from hames.domain.json import Json
from sync_apply import applied

BIN = Path(sys.executable).parent
PATIENCE_SECONDS = 30

Decision = Literal["once", "reject"]


class Place(NamedTuple):
    """Where a server runs, as whom, and with which flags."""

    work: Path
    environment: dict[str, str]
    flags: list[str]


class Shown(NamedTuple):
    """Something that happened, in no protocol's words. `text` is whatever was told of it."""

    kind: Literal["user", "reasoning", "text", "command", "file", "mcp", "other"]
    text: str
    outcome: str = ""


class Question(NamedTuple):
    id: str
    about: str


def _json(value: object) -> Any:
    """As it stood on the wire."""
    return msgspec.json.decode(msgspec.json.encode(value))


class Client(Protocol):
    """One connection and one thread."""

    thread: str
    failure: str
    """Why the last turn failed, if it did."""

    async def start(self) -> None:
        """A new thread."""
        ...

    async def resume(self, thread: str) -> None:
        """A thread that another process made: `shown` has its history then."""
        ...

    async def prompt(self, text: str) -> None: ...

    async def question(self) -> Question:
        """The next approval that is asked for."""
        ...

    async def answer(self, question: Question, decision: Decision) -> None: ...

    async def begun(self) -> None:
        """Until the reply is on its way, as far as this protocol tells."""
        ...

    async def interrupt(self) -> None: ...

    async def ended(self) -> str:
        """How the turn ended: completed, interrupted or failed (and then `failure` says why)."""
        ...

    def shown(self) -> list[Shown]: ...


class OverBootstrap:
    def __init__(self, client: BootstrapClient) -> None:
        self.thread = ""
        self.failure = ""
        self._client = client
        self._events = client.events()
        self._told: list[Json] = []

    @classmethod
    @asynccontextmanager
    async def opened(cls, place: Place) -> AsyncGenerator[Self]:
        words = [str(BIN / "bootstrap"), "harness", "--cwd", str(place.work), *place.flags]
        async with BootstrapClient.spawn(words, env=place.environment) as client:
            await client.initialize()
            yield cls(client)

    async def start(self) -> None:
        self.thread = (await self._client.create_thread()).thread_id

    async def resume(self, thread: str) -> None:
        self.thread = thread
        self._told = list((await self._client.get_thread(thread)).events)

    async def prompt(self, text: str) -> None:
        await self._client.start_turn(self.thread, text)

    async def question(self) -> Question:
        asked = await self._until("approval.requested")
        return Question(asked["requestId"], str(asked))

    async def answer(self, question: Question, decision: Decision) -> None:
        await self._client.respond(question.id, decision)

    async def begun(self) -> None:
        await self._until("item.delta")

    async def interrupt(self) -> None:
        await self._client.cancel_turn(self.thread)

    async def ended(self) -> str:
        ended = await self._until("turn.completed", "turn.error")
        self.failure = ended["error"]["message"] if ended["status"] == "error" else ""
        return {"cancelled": "interrupted", "error": "failed"}.get(ended["status"], ended["status"])

    async def _until(self, *types: str) -> Any:
        with anyio.fail_after(PATIENCE_SECONDS):
            while True:
                event = await anext(self._events)
                self._told.append({"type": event.method, **_json(event.params)})
                if event.method in types:
                    return self._told[-1]

    def shown(self) -> list[Shown]:
        items = [event["item"] for event in self._told if event["type"] == "item.completed"]
        logs = {item["data"]["toolItemId"]: item["data"]["output"] for item in items if item["type"] == "tool_log"}
        return [seen for item in items if (seen := self._read(item, logs.get(item["itemId"], ""))) is not None]

    def _read(self, item: Json, output: str) -> Shown | None:
        data = item["data"]
        match item["type"]:
            case "user_message":
                return Shown("user", data["text"])
            case "assistant_message":
                return Shown(data["kind"], data["text"] or data.get("summary", ""))
            case "tool_exec":
                kind = {"bash": "command", "edit": "file"}.get(data["tool"], "mcp" if "/" in data["tool"] else "other")
                told = f"{data['input']} {data.get('changes', '')} {output or data.get('result', '')}"
                return Shown(kind, told, data["status"])  # type: ignore[arg-type]
            case _:
                return None


class OverFlint:
    def __init__(self, client: AppServerClient) -> None:
        self.thread = ""
        self.failure = ""
        self._client = client
        self._events = client.events()
        self._items: list[Json] = []
        self._turn = ""

    @classmethod
    @asynccontextmanager
    async def opened(cls, place: Place) -> AsyncGenerator[Self]:
        words = [str(BIN / "hames"), "app-server", "--cwd", str(place.work), *place.flags]
        async with AppServerClient.spawn(words, env=place.environment) as client:
            yield cls(client)

    async def start(self) -> None:
        self.thread = (await self._client.start_thread()).thread.id

    async def resume(self, thread: str) -> None:
        opened = (await self._client.resume_thread(thread)).thread
        self.thread = opened.id
        self._items = [_json(item) for turn in opened.turns for item in turn.items]

    async def prompt(self, text: str) -> None:
        self._turn = (await self._client.start_turn(self.thread, text)).id

    async def question(self) -> Question:
        asked = await self._until(ApprovalAsked)
        return Question(asked.request_id, str(msgspec.to_builtins(asked.params)))

    async def answer(self, question: Question, decision: Decision) -> None:
        await self._client.answer(question.id, "accept" if decision == "once" else "decline")

    async def begun(self) -> None:
        await self._until(ItemDelta)

    async def interrupt(self) -> None:
        await self._client.interrupt_turn(self.thread, self._turn)

    async def ended(self) -> str:
        turn = (await self._until(TurnCompleted)).turn
        self.failure = str(turn.error.message) if turn.status == "failed" and turn.error else ""
        return turn.status

    async def _until(self, kind: type[Any]) -> Any:
        with anyio.fail_after(PATIENCE_SECONDS):
            async for event in self._events:
                if isinstance(event, ItemCompleted):
                    self._items.append(_json(event.item))
                if isinstance(event, kind):
                    return event
        raise AssertionError(f"the server went before it said {kind.__name__}")

    def shown(self) -> list[Shown]:
        return [self._read(item) for item in self._items]

    def _read(self, item: Json) -> Shown:
        match item["type"]:
            case "userMessage":
                return Shown("user", item["content"][0]["text"])
            case "agentMessage":
                return Shown("text", item["text"])
            case "reasoning":
                return Shown("reasoning", item.get("content") or item.get("summary", ""))
            case "commandExecution":
                return Shown("command", f"{item['command']} {item.get('aggregatedOutput')}", item["status"])
            case "fileChange":
                return Shown("file", str(item["changes"]), item["status"])
            case "mcpToolCall":
                told = f"{item['server']}/{item['tool']} {item.get('arguments')} {item.get('result')}"
                return Shown("mcp", told, item["status"])
            case _:
                return Shown("other", str(item))


@asynccontextmanager
async def listening(place: Place) -> AsyncGenerator[str]:
    """`hames serve` on a port of its own; it is asked to stop at the end."""
    words = [str(BIN / "hames"), "serve", "--port", "0", "--cwd", str(place.work), *place.flags]
    async with await anyio.open_process(words, env=place.environment, stderr=None) as process:
        assert process.stdout is not None
        banner = b""
        try:
            with anyio.fail_after(PATIENCE_SECONDS):
                while (found := re.search(rb"http://127\.0\.0\.1:\d+(?=\s)", banner)) is None:
                    banner += await process.stdout.receive()
            yield found[0].decode()
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            with anyio.move_on_after(PATIENCE_SECONDS, shield=True):
                await process.wait()


class OverHttp:
    def __init__(self, http: httpx2.AsyncClient, stack: AsyncExitStack) -> None:
        self.thread = ""
        self.failure = ""
        self._http = http
        self._stack = stack
        self._told: list[Json] = []

    @classmethod
    @asynccontextmanager
    async def opened(cls, place: Place) -> AsyncGenerator[Self]:
        async with (
            listening(place) as url,
            httpx2.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_SECONDS) as http,
            AsyncExitStack() as stack,
        ):
            yield cls(http, stack)

    async def start(self) -> None:
        made = await self._http.post("/threads", json={})
        await self._listen(made.json()["thread"]["id"], "")

    async def resume(self, thread: str) -> None:
        await self._listen(thread, "0")
        kept = (await self._http.get(f"/threads/{thread}")).json()["state"]
        prompts = sum(message["role"] == "user" for message in kept["messages"])
        for _ in range(prompts):
            await self.ended()

    async def _listen(self, thread: str, after: str) -> None:
        self.thread = thread
        params = {"thread": thread, "answers": "1", **({"after": after} if after else {})}
        stream = self._http.stream("GET", "/events", params=params)
        self._lines = (await self._stack.enter_async_context(stream)).aiter_lines()
        await self._line("id")

    async def prompt(self, text: str) -> None:
        await self._post("/prompt", {"content": text})

    async def question(self) -> Question:
        asked = await self._until(type="approval")
        return Question(asked["id"], str(asked))

    async def answer(self, question: Question, decision: Decision) -> None:
        await self._post(f"/approvals/{question.id}", {"decision": decision})

    async def begun(self) -> None:
        await self._until(type="user")

    async def interrupt(self) -> None:
        await self._post("/cancel", {})

    async def ended(self) -> str:
        ended = await self._until(type="status", state="idle")
        self.failure = ended["message"] if ended["outcome"] == "failed" else ""
        return "interrupted" if ended["outcome"] == "cancelled" else ended["outcome"]

    async def _post(self, path: str, body: Json) -> None:
        answer = await self._http.post(path, params={"thread": self.thread}, json=body)
        assert answer.status_code == 200, answer.text

    async def _until(self, **members: str) -> Any:
        while True:
            self._told.append(msgspec.json.decode(await self._line("data")))
            if members.items() <= self._told[-1].items():
                return self._told[-1]

    async def _line(self, wanted: str) -> str:
        with anyio.fail_after(PATIENCE_SECONDS):
            while True:
                field, _, value = (await anext(self._lines)).partition(": ")
                if field == wanted:
                    return value

    def shown(self) -> list[Shown]:
        called = {event["id"]: event for event in self._told if event["type"] == "tool_call"}
        return [seen for event in self._told if (seen := self._read(event, called)) is not None]

    def _read(self, event: Json, called: dict[str, Json]) -> Shown | None:
        match event["type"]:
            case "user" | "text" | "reasoning" as kind:
                return Shown(kind, event["content"])
            case "tool_result":
                call = called[event["id"]]
                told = f"{call['name']} {call['input']} {event['result']}"
                return Shown(_kind(call["name"]), told, "failed" if event["isError"] else "completed")
            case _:
                return None


def _kind(tool: str) -> Any:
    known = {"shell": "command", "write": "file", "edit": "file"}
    return known.get(tool, "mcp" if tool.startswith(("mcp__", "test.")) else "other")


class OverSync:
    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.thread = ""
        self.failure = ""
        self._url = url
        self._stack = stack
        self._state: Json = None
        self._before = 0

    @classmethod
    @asynccontextmanager
    async def opened(cls, place: Place) -> AsyncGenerator[Self]:
        async with listening(place) as url, AsyncExitStack() as stack:
            yield cls(url, stack)

    async def start(self) -> None:
        async with httpx2.AsyncClient(base_url=self._url, trust_env=False) as http:
            made = await http.post("/threads", json={})
        await self.resume(made.json()["thread"]["id"])

    async def resume(self, thread: str) -> None:
        self.thread = thread
        url = f"{self._url.replace('http', 'ws', 1)}/ws?thread={thread}"
        connection = connect(url, max_size=None, compression=None, proxy=None)
        self._socket: ClientConnection = await self._stack.enter_async_context(connection)
        await self._until(lambda _: True)

    async def prompt(self, text: str) -> None:
        self._before = len(self._state["messages"])
        await self._send({"type": "submit", "prompt": text})

    async def question(self) -> Question:
        asked = (await self._until(lambda state: state["approvals"]))["approvals"][0]
        return Question(asked["id"], str(asked))

    async def answer(self, question: Question, decision: Decision) -> None:
        await self._send({"type": "approve", "id": question.id, "decision": decision})
        await self._until(lambda state: not state["approvals"])

    async def begun(self) -> None:
        await self._until(lambda state: any(message["content"] for message in self._new(state)[1:]))

    async def interrupt(self) -> None:
        await self._send({"type": "cancel"})

    async def ended(self) -> str:
        state = await self._until(lambda state: len(self._new(state)) > 1 and state["status"] != "running")
        self.failure = state["error"]
        if state["status"] == "error":
            return "failed"
        return "interrupted" if state["messages"][-1]["stopReason"] == "cancelled" else "completed"

    def _new(self, state: Json) -> list[Json]:
        return state["messages"][self._before :]

    async def _send(self, command: Json) -> None:
        await self._socket.send(msgspec.json.encode({"type": "commands", "commands": [command]}).decode())

    async def _until(self, wanted: Callable[[Json], object]) -> Any:
        with anyio.fail_after(PATIENCE_SECONDS):
            while self._state is None or not wanted(self._state):
                message = msgspec.json.decode(await self._socket.recv())
                assert message["type"] != "error", message
                whole = message["type"] == "state"
                self._state = message["state"] if whole else applied(self._state, message["operations"])
        return self._state

    def shown(self) -> list[Shown]:
        return [seen for message in self._state["messages"] for seen in self._read(message)]

    def _read(self, message: Json) -> list[Shown]:
        if message["role"] == "user":
            return [Shown("user", message["content"])]
        seen = [Shown("reasoning", message["reasoning"])] if message["reasoning"] else []
        seen += [Shown("text", message["content"])] if message["content"] else []
        for tool in message["toolCalls"]:
            told = f"{tool['name']} {tool['input']} {tool['changes']} {tool['output']}"
            seen.append(Shown(tool["kind"], told, tool["outcome"]))
        return seen


CLIENTS: dict[str, Callable[[Place], AbstractAsyncContextManager[Client]]] = {
    "bootstrap": OverBootstrap.opened,
    "flint": OverFlint.opened,
    "http": OverHttp.opened,
    "sync": OverSync.opened,
}
