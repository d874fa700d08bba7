"""Codex as the agent: its own app-server runs the turn, and we keep, show, ask and repair.

Codex keeps its own history; which of its threads belongs to which of ours is remembered in a
small file. Each turn has a process of its own, which ends with it. What Codex does not tell is put
right here: output that never streamed is told before its item completes, and an item it left open
is closed by the engine.
"""

import contextlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import msgspec
from msgspec.structs import replace

from hames.agents.codex_items import ELICITATION, asks_for_mcp, completed_item, intent, opened_item, streamed
from hames.agents.jsonl import Program, Refused, running
from hames.domain.errors import Misconfigured, ProviderError
from hames.domain.ids import ThreadId
from hames.domain.items import Item, McpToolCall, TextInput, UserMessage
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Choice, Selector, Settings
from hames.domain.policy import (
    ApprovalPolicy,
    DangerFullAccess,
    Decision,
    ExternalSandbox,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from hames.domain.usage import Usage
from hames.ports import AgentTurn, Provider

NAME = "codex"
DEFAULT = "default"
INTERRUPT_SECONDS = 2.0

POLICIES: dict[ApprovalPolicy, str] = {"never": "never", "unlessTrusted": "untrusted", "always": "untrusted"}
WORDS: dict[Decision, str] = {
    "once": "accept",
    "always": "acceptForSession",
    "reject": "decline",
    "void": "decline",
}
ELICITED: dict[Decision, dict[str, Json]] = {
    "once": {"action": "accept", "content": {}},
    "always": {"action": "accept", "content": {}, "_meta": {"persist": "session"}},
    "reject": {"action": "decline"},
    "void": {"action": "decline"},
}
ERRORS = {
    "contextWindowExceeded": "ContextWindowExceeded",
    "usageLimitExceeded": "UsageLimitExceeded",
    "serverOverloaded": "ServerOverloaded",
    "unauthorized": "Unauthorized",
    "badRequest": "BadRequest",
}


class CodexAgent:
    """Implements `ports.Agent`. `memory` is the file that says which of Codex's threads is whose."""

    name = NAME

    def __init__(self, command: Sequence[str], *, memory: Path, environment: Mapping[str, str]) -> None:
        self._command = tuple(command)
        self._memory = memory
        self._environment = dict(environment)

    async def run(self, turn: AgentTurn) -> str:
        settings = turn.settings
        async with running(
            [*self._command, "app-server"], name="Codex", cwd=settings.cwd, environment=self._environment
        ) as program:
            try:
                thread_id = await self._thread(program, turn)
                asked = await program.call("turn/start", _turn(turn, thread_id))
            except Refused as refusal:
                raise ProviderError(f"Codex refused: {refusal}") from None
            talk = _Talk(program, turn, thread_id, asked["turn"]["id"])
            try:
                return await talk.follow()
            except anyio.get_cancelled_exc_class():
                await talk.interrupt()
                raise

    async def _thread(self, program: Program, turn: AgentTurn) -> str:
        who = {"name": "hames", "title": "Hames", "version": "1"}
        await program.call("initialize", {"clientInfo": who, "capabilities": {"experimentalApi": True}})
        await program.notify("initialized", {})
        known = self._known()
        if there := known.get(turn.thread_id):
            with contextlib.suppress(Refused):
                given = {"threadId": there, "excludeTurns": True, **_thread_settings(turn.settings)}
                resumed = await program.call("thread/resume", given)
                return resumed["thread"]["id"]
            await turn.notice("history_lost", "Codex no longer has this thread; it goes on without what it remembered")
        made = await program.call("thread/start", _thread_settings(turn.settings))
        self._remember(turn.thread_id, made["thread"]["id"])
        return made["thread"]["id"]

    def _known(self) -> dict[str, str]:
        try:
            return json.loads(self._memory.read_text())
        except (OSError, ValueError):
            return {}

    def _remember(self, thread_id: ThreadId, theirs: str) -> None:
        self._memory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._memory.with_suffix(".new")
        fresh.write_text(json.dumps({**self._known(), thread_id: theirs}))
        fresh.replace(self._memory)


class _Talk:
    """One turn of Codex's, as it happens."""

    def __init__(self, program: Program, turn: AgentTurn, thread_id: str, turn_id: str) -> None:
        self._program = program
        self._turn = turn
        self._thread_id = thread_id
        self._turn_id = turn_id
        self._open: dict[str, Item] = {}
        self._told: dict[str, int] = {}
        self._declined: set[str] = set()

    async def follow(self) -> str:
        while True:
            message = await self._program.next()
            method, params = str(message.get("method", "")), message.get("params") or {}
            if "id" in message and method:
                await self._question(message["id"], method, params)
            elif method == "item/started":
                await self._start(params["item"])
            elif method == "item/completed":
                await self._complete(params["item"])
            elif (piece := streamed(method, params)) is not None:
                await self._stream(params.get("itemId", ""), *piece)
            elif method == "thread/tokenUsage/updated" and params.get("turnId") == self._turn_id:
                await self._count(params)
            elif method == "error":
                await self._turn.notice("error", _said(params.get("error")))
            elif method == "turn/completed" and params["turn"]["id"] == self._turn_id:
                return _ended(params["turn"])

    async def interrupt(self) -> None:
        """Tell Codex to stop, so that its own log knows; then the process goes, whatever it says."""
        with anyio.move_on_after(INTERRUPT_SECONDS, shield=True), contextlib.suppress(Refused, ProviderError):
            await self._program.call("turn/interrupt", {"threadId": self._thread_id, "turnId": self._turn_id})

    async def _start(self, theirs: dict[str, Json]) -> Item | None:
        if theirs["id"] in self._open:
            return self._open[theirs["id"]]
        item = opened_item(theirs, self._turn.new_item_id(), self._turn.settings.cwd)
        if item is None or isinstance(item, UserMessage):
            return None
        self._open[theirs["id"]] = item
        await self._turn.start(item)
        return item

    async def _stream(self, their_id: str, stream: str, text: str) -> None:
        item = self._open.get(their_id)
        if item is not None and text:
            self._told[their_id] = self._told.get(their_id, 0) + len(text)
            await self._turn.tell(item.id, text, stream)  # pyright: ignore[reportArgumentType] - one of our streams

    async def _complete(self, theirs: dict[str, Json]) -> None:
        item = await self._start(theirs)
        if item is None:
            return
        done, stream, whole = completed_item(theirs, item, self._turn.settings.cwd)
        if theirs["id"] in self._declined and done.status == "failed":
            done = replace(done, status="declined")
        told = self._told.pop(theirs["id"], 0)
        if stream and len(whole) > told:  # it never streamed, or not to its end
            await self._turn.tell(item.id, whole[told:], stream)  # pyright: ignore[reportArgumentType]
        del self._open[theirs["id"]]
        await self._turn.complete(done)

    async def _question(self, number: Json, method: str, params: dict[str, Json]) -> None:
        their_id = params.get("itemId") or self._called(params)
        item = self._open.get(their_id)
        wanted = intent(method, params, item, self._turn.settings.cwd)
        if method == ELICITATION and wanted is None:
            await self._program.answer(number, {"action": "decline"})
            return
        if wanted is None or item is None:
            await self._program.refuse(number, f"nobody here answers {method}")
            return
        decision, _ = await self._turn.ask(item.id, wanted, str(params.get("reason") or ""))
        if WORDS[decision] == "decline":
            self._declined.add(their_id)
        answer = ELICITED[decision] if asks_for_mcp(method, params) else {"decision": WORDS[decision]}
        await self._program.answer(number, answer)

    def _called(self, params: dict[str, Json]) -> str:
        """The call that a question about an MCP server is about: such a question names no item."""
        meta = params.get("_meta")
        given = meta.get("tool_params") if isinstance(meta, dict) else None
        calls = [
            name
            for name, item in self._open.items()
            if isinstance(item, McpToolCall) and item.server == params.get("serverName")
        ]
        same = [name for name in calls if getattr(self._open[name], "arguments", None) == given]
        return next(iter(same or calls), "")

    async def _count(self, params: dict[str, Json]) -> None:
        last = (params.get("tokenUsage") or {}).get("last") or {}
        cached = int(last.get("cachedInputTokens") or 0)
        await self._turn.report(
            Usage(
                input_tokens=max(0, int(last.get("inputTokens") or 0) - cached),
                output_tokens=int(last.get("outputTokens") or 0),
                thinking_tokens=int(last.get("reasoningOutputTokens") or 0),
                cache_read_tokens=cached,
            )
        )


def _thread_settings(settings: Settings) -> dict[str, Json]:
    model = settings.model.partition("/")[2]
    chosen: dict[str, Json] = {"cwd": settings.cwd, "approvalPolicy": POLICIES[settings.approval_policy]}
    if model and model != DEFAULT:
        chosen["model"] = model
    return chosen


def _turn(turn: AgentTurn, thread_id: str) -> dict[str, Json]:
    settings = turn.settings
    asked: dict[str, Json] = {
        "threadId": thread_id,
        "input": _input(turn.prompt),
        "sandboxPolicy": _sandbox(settings.sandbox),
        **_thread_settings(settings),
    }
    for option, name in (("reasoning_effort", "effort"), ("personality", "personality")):
        if (value := settings.options.get(option, DEFAULT)) != DEFAULT:
            asked[name] = value
    if (mode := settings.options.get("collaboration_mode", DEFAULT)) != DEFAULT:
        asked["collaborationMode"] = {"mode": mode, "settings": {"model": settings.model.partition("/")[2]}}
    return asked


def _input(message: UserMessage) -> list[dict[str, Json]]:
    parts: list[dict[str, Json]] = []
    for part in message.content:
        match part:
            case TextInput(text=text):
                parts.append({"type": "text", "text": text})
            case _:
                parts.append(msgspec.to_builtins(part))
    return parts


def _sandbox(policy: SandboxPolicy) -> dict[str, Json]:
    match policy:
        case DangerFullAccess():
            return {"type": "dangerFullAccess"}
        case ReadOnly():
            return {"type": "readOnly"}
        case WorkspaceWrite(writable_roots=roots, network_access=network):
            return {"type": "workspaceWrite", "writableRoots": list(roots), "networkAccess": network}
        case ExternalSandbox(network_access=network):
            return {"type": "externalSandbox", "networkAccess": "enabled" if network else "restricted"}


def _ended(theirs: dict[str, Json]) -> str:
    error = theirs.get("error")
    if theirs.get("status") == "failed":
        info = error.get("codexErrorInfo") if isinstance(error, dict) else None
        word = info if isinstance(info, str) else next(iter(info), "") if isinstance(info, dict) else ""
        raise ProviderError(f"Codex failed: {_said(error)}", info=ERRORS.get(word, "Other"))  # pyright: ignore[reportArgumentType]
    return str(theirs.get("status", "completed"))


def _said(error: Json) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error or "no reason given")


class CodexShelf:
    """Codex among the models: `codex/default`, or any model Codex knows."""

    name = NAME

    def cards(self) -> Sequence[ModelCard]:
        return [self.named(DEFAULT)]

    def selectors(self) -> Sequence[Selector]:
        return [
            Selector(
                id="reasoning_effort",
                name="Reasoning effort",
                group="Reasoning",
                choices=tuple(Choice(id=word, name=word.capitalize()) for word in (DEFAULT, "low", "medium", "high")),
                default=DEFAULT,
                models=(f"{NAME}/{DEFAULT}",),
            ),
            Selector(
                id="personality",
                name="Personality",
                group="Codex",
                choices=tuple(Choice(id=word, name=word.capitalize()) for word in (DEFAULT, "pragmatic", "friendly")),
                default=DEFAULT,
                models=(f"{NAME}/{DEFAULT}",),
            ),
            Selector(
                id="collaboration_mode",
                name="Collaboration mode",
                group="Codex",
                choices=tuple(Choice(id=word, name=word.capitalize()) for word in (DEFAULT, "review", "plan")),
                default=DEFAULT,
                models=(f"{NAME}/{DEFAULT}",),
            ),
        ]

    def known(self, model: str) -> ModelCard | None:  # noqa: ARG002 - a bare name never means Codex
        return None

    def named(self, model: str) -> ModelCard:
        return ModelCard(
            provider=NAME,
            model=model or DEFAULT,
            display_name="Codex" if model in ("", DEFAULT) else f"Codex with {model}",
            description="OpenAI's Codex runs the turn, with its own tools and sandbox",
            reasoning=True,
        )

    def provider(self, card: ModelCard) -> Provider:
        raise Misconfigured(f"{card.id} is an agent, not a model service")


def codex_command(environment: Mapping[str, str]) -> str | None:
    """Where Codex is: named by `HAMES_CODEX`, or on the PATH."""
    return environment.get("HAMES_CODEX") or shutil.which("codex", path=environment.get("PATH"))
