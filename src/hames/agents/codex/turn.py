"""One turn of Codex's, as it happens: its items told as ours, its questions asked here.

What Codex does not tell is put right: output that never streamed is told before its item completes, words that never
came make no item, and what it left open is closed by the engine.
"""

import contextlib
from collections.abc import Callable
from functools import partial

import anyio
from msgspec.structs import replace

from hames.agents.asking import Answering, read_beside_questions
from hames.agents.codex import items
from hames.agents.codex.command import NAME
from hames.agents.codex.requests import inputs
from hames.agents.process import AgentProcess, ProgramRefused
from hames.codecs.jsonrpc_peer import ServerRequest
from hames.domain.errors import InvalidCommand, ProviderError
from hames.domain.events import Noticed, UsageReported
from hames.domain.items import AgentMessage, Item, McpToolCall, Reasoning, Stream, UserMessage
from hames.domain.json import Json
from hames.domain.policy import Decision
from hames.domain.usage import Usage
from hames.ports import TurnHandle

INTERRUPT_SECONDS = 2.0
STEER_SECONDS = 10.0

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


class CodexTurn:
    """One running turn at Codex."""

    def __init__(self, program: AgentProcess, turn: TurnHandle, thread_id: str, turn_id: str) -> None:
        self._program = program
        self._turn = turn
        self._thread_id = thread_id
        self._turn_id = turn_id
        self._turns = {turn_id}
        self._silent: dict[str, Item] = {}
        """Words that have begun and of which nothing was heard yet."""
        self._open: dict[str, Item] = {}
        self._told: dict[tuple[str, str], int] = {}
        self._declined: set[str] = set()
        self._total: Json = None
        """Codex's count of all tokens of the thread, when it was last told."""

    async def follow(self) -> str:
        """Until Codex's turn has ended. Raises `HarnessError`."""
        return await read_beside_questions(self._read)

    async def _read(self, beside: Callable[[Answering], None]) -> str:
        while True:
            message = await self._program.next()
            method, params = message.method, message.params or {}
            if isinstance(message, ServerRequest):
                beside(partial(self._question, message.id, method, params))
            elif method == "turn/started" and params["turn"].get("rootTurnId") in self._turns:
                self._turns.add(params["turn"]["id"])  # a review has a turn inside the one that was asked for
            elif method == "item/started":
                await self._start(params["item"])
            elif method == "item/completed":
                await self._complete(params["item"])
            elif (piece := items.streamed(method, params)) is not None:
                await self._stream(params.get("itemId", ""), *piece)
            elif method == "thread/tokenUsage/updated":
                await self._count(params)
            elif method == "error":
                await self._notice("error", _said(params.get("error")))
            elif method == "turn/completed" and params["turn"]["id"] == self._turn_id:
                return _ended(params["turn"])

    async def steer(self, message: UserMessage) -> None:
        asked = {"threadId": self._thread_id, "expectedTurnId": self._turn_id, "input": inputs(message)}
        try:
            with anyio.fail_after(STEER_SECONDS):
                await self._program.call_beside("turn/steer", asked)
        except ProgramRefused as refusal:
            raise InvalidCommand(f"Codex cannot be steered now: {refusal}") from None
        except (TimeoutError, ProviderError):
            raise InvalidCommand("Codex did not accept the message; its turn may be ending") from None

    async def interrupt(self) -> None:
        """Tell Codex to stop, so that its own log knows; then the process goes, whatever it says."""
        with anyio.move_on_after(INTERRUPT_SECONDS, shield=True), contextlib.suppress(ProgramRefused, ProviderError):
            await self._program.call("turn/interrupt", {"threadId": self._thread_id, "turnId": self._turn_id})

    async def _start(self, theirs: dict[str, Json]) -> None:
        item = items.opened_item(theirs, self._turn.new_item_id(), self._turn.settings.cwd)
        if item is None or isinstance(item, UserMessage) or theirs["id"] in self._open:
            return
        self._silent[theirs["id"]] = item
        if not isinstance(item, AgentMessage | Reasoning):
            await self._show(theirs["id"])

    async def _show(self, their_id: str) -> Item | None:
        """The item, for everybody to see."""
        if (item := self._silent.pop(their_id, None)) is not None:
            self._open[their_id] = item
            await self._turn.start(item)
        return self._open.get(their_id)

    async def _stream(self, their_id: str, stream: Stream, text: str) -> None:
        if text and (item := await self._show(their_id)) is not None:
            told = self._told.get((their_id, stream), 0)
            self._told[their_id, stream] = told + len(text)
            await self._turn.append(item.id, text, stream)

    async def _complete(self, theirs: dict[str, Json]) -> None:
        their_id = theirs["id"]
        if their_id not in self._open and their_id not in self._silent:
            await self._start(theirs)
        item = self._open.get(their_id) or self._silent.get(their_id)
        if item is None:
            return
        done, stream, whole = items.completed_item(theirs, item, self._turn.settings.cwd)
        if their_id in self._declined and done.status == "failed":
            done = replace(done, status="declined")
        if stream:  # what never streamed, or not to its end
            await self._stream(their_id, stream, whole[self._told.get((their_id, stream), 0) :])
        self._silent.pop(their_id, None)
        if self._open.pop(their_id, None) is not None:
            await self._turn.complete(done)

    async def _question(self, number: str | int, method: str, params: dict[str, Json]) -> None:
        their_id = params.get("itemId") or self._called(params)
        item = self._open.get(their_id)
        if method == items.ELICITATION and not items.asks_for_mcp(method, params):
            await self._program.answer(number, await self._elicit(item, params))
            return
        wanted = items.intent(method, params, item, self._turn.settings.cwd)
        if wanted is None or item is None:
            await self._program.refuse(number, f"hames does not support {method}")
            return
        decision = (await self._turn.ask(item.id, wanted, str(params.get("reason") or ""))).decision
        if WORDS[decision] == "decline":
            self._declined.add(their_id)
        answer = ELICITED[decision] if items.asks_for_mcp(method, params) else {"decision": WORDS[decision]}
        await self._program.answer(number, answer)

    async def _elicit(self, item: Item | None, params: dict[str, Json]) -> Json:
        question = items.elicited(params)
        if question is None or item is None:
            return {"action": "decline"}
        answer = await self._turn.ask(item.id, question)
        if answer.decision in ("once", "always"):
            return {"action": "accept", "content": answer.content}
        return {"action": "decline" if answer.decision == "reject" else "cancel"}

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
        """One model call's tokens. Codex repeats the last call's when only its estimate of the window has changed."""
        counted = params.get("tokenUsage") or {}
        before, self._total = self._total, counted.get("total")
        if params.get("turnId") not in self._turns or self._total == before:
            return
        last = counted.get("last") or {}
        cached = int(last.get("cachedInputTokens") or 0)
        usage = Usage(
            input_tokens=max(0, int(last.get("inputTokens") or 0) - cached),
            output_tokens=int(last.get("outputTokens") or 0),
            thinking_tokens=int(last.get("reasoningOutputTokens") or 0),
            cache_read_tokens=cached,
        )
        await self._turn.emit(
            UsageReported(turn_id=self._turn.turn_id, model=self._turn.settings.model, usage=usage),
        )

    async def _notice(self, name: str, message: str) -> None:
        await self._turn.emit(codex_notice(self._turn, name, message))


def codex_notice(turn: TurnHandle, name: str, message: str) -> Noticed:
    return Noticed(source=NAME, name=name, message=message, turn_id=turn.turn_id)


def _ended(theirs: dict[str, Json]) -> str:
    error = theirs.get("error")
    if theirs.get("status") == "failed":
        info = error.get("codexErrorInfo") if isinstance(error, dict) else None
        word = info if isinstance(info, str) else next(iter(info), "") if isinstance(info, dict) else ""
        raise ProviderError(f"Codex failed: {_said(error)}", info=ERRORS.get(word, "Other"))  # pyright: ignore[reportArgumentType]
    return str(theirs.get("status", "completed"))


def _said(error: Json) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error or "no reason given")
