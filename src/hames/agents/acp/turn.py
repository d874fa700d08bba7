"""One turn of an ACP agent, as it happens: its updates told as our items, its questions asked here.

Version 1 answers `session/prompt` when the turn is over; version 2 answers at once, and says that it is idle when the
turn is over. Everything else differs only in its shape.
"""

import contextlib
from collections.abc import Callable
from functools import partial

import anyio
from msgspec.structs import replace

from hames.agents.acp.client_methods import METHODS, ClientMethods
from hames.agents.acp.connection import LATEST, AcpConnection
from hames.agents.acp.items import block_text, plan_item
from hames.agents.acp.permissions import Permissions, permission_call
from hames.agents.acp.tool_calls import ToolCalls
from hames.agents.asking import Answering, read_beside_questions
from hames.agents.process import PendingReply, ProgramRefused
from hames.codecs.jsonrpc_peer import ServerRequest
from hames.domain.errors import ProviderError
from hames.domain.events import Noticed, UsageReported
from hames.domain.items import AgentMessage, Plan, Reasoning
from hames.domain.json import Json
from hames.domain.usage import Usage
from hames.ports import TurnHandle

CANCEL_SECONDS = 2.0
WORDS = {
    "agent_message_chunk": AgentMessage,
    "agent_message": AgentMessage,
    "agent_thought_chunk": Reasoning,
    "agent_thought": Reasoning,
}


class AcpTurn:
    def __init__(
        self,
        connection: AcpConnection,
        turn: TurnHandle,
        session: str,
        *,
        learn: Callable[[str, dict[str, Json]], None] = lambda _kind, _update: None,
    ) -> None:
        """`learn` hears what the agent says about its options and commands."""
        self._process = connection.process
        self._version = connection.version
        self._turn = turn
        self._session = session
        self._name = connection.name
        self._learn = learn
        self._words: AgentMessage | Reasoning | None = None
        """The message that grows."""
        self._message_id: Json = None
        self._said: dict[str, str] = {}
        """The text of each message so far, by the agent's name for it."""
        self._plan: Plan | None = None
        self._context_tokens = 0
        """How full the agent's window is."""
        self._reported_context = 0
        self._reported = Usage()
        self._named_calls: set[str] = set()
        self._has_results = False
        """A call has ended since the agent's model said anything: what comes next is another reply of it."""
        self._started = False
        self._idle: dict[str, Json] | None = None
        self._is_idle = anyio.Event()
        self._prompt: PendingReply | None = None
        self._handling = anyio.Lock(fast_acquire=True)
        self._permissions = Permissions(connection.process, turn, connection.name)
        self._calls = ToolCalls(turn, self._permissions.declined, end_words=self._end_words)
        self._client = ClientMethods(connection.process, turn, self._permissions, self._calls)

    async def run(self, prompt: list[Json]) -> str:
        """Until the agent's turn is over. Raises `HarnessError`."""
        try:
            return await read_beside_questions(partial(self._run, prompt))
        finally:
            await self._client.close()

    async def _run(self, prompt: list[Json], beside: Callable[[Answering], None]) -> str:
        beside(partial(self._read, beside))
        beside(self._show_calls)
        self._prompt = await self._process.begin("session/prompt", {"sessionId": self._session, "prompt": prompt})
        await self._prompt.arrived.wait()
        try:
            answer = self._prompt.result()
        except ProgramRefused as refusal:
            raise ProviderError(f"{self._name} refused: {refusal}") from None
        if self._version == LATEST:
            await self._is_idle.wait()
            answer = self._idle
        await self._handle_unread(beside)  # what came before the answer
        await self._end_words()
        await self._calls.end_all()
        await self._report_usage(answer)
        return self._stop_reason(answer)

    def _stop_reason(self, answer: Json) -> str:
        match answer:
            case {"stopReason": "cancelled"}:
                raise ProviderError(f"{self._name} cancelled the turn")
            case {"stopReason": "error"}:
                error = answer.get("error")
                said = error.get("message") if isinstance(error, dict) else None
                raise ProviderError(f"{self._name} failed: {said}" if said else f"{self._name} failed")
            case {"stopReason": str(reason)}:
                return reason
            case _:
                return "end_turn"

    async def _read(self, beside: Callable[[Answering], None]) -> None:
        while True:
            await self._process.wait_unread()
            await self._handle_unread(beside)

    async def _handle_unread(self, beside: Callable[[Answering], None]) -> None:
        """One message after the other: the reader and the end of the turn both come here."""
        async with self._handling:
            while self._process.has_unread:
                await self._handle(await self._process.next(), beside)

    async def _show_calls(self) -> None:
        """Shows calls that have been announced for a while and about which nothing was asked."""
        while True:
            await self._calls.wait_announced()
            async with self._handling:
                await self._calls.show_announced()

    async def cancel(self) -> None:
        """Tells the agent to stop, and waits a moment, so that its own record of the session knows."""
        with anyio.move_on_after(CANCEL_SECONDS, shield=True), contextlib.suppress(ProgramRefused, ProviderError):
            await self._permissions.cancel_all()
            await self._process.notify("session/cancel", {"sessionId": self._session})
            if self._prompt is not None:
                await self._process.wait_reply(self._prompt)
            while self._version == LATEST and self._idle is None:
                message = await self._process.next()
                if isinstance(message, ServerRequest):
                    await self._process.refuse(message.id, "the turn was cancelled")
                else:
                    self._note_state(message.params)
        with anyio.CancelScope(shield=True):
            await self._report_usage(self._answer())

    def _answer(self) -> Json:
        """How the turn ended, as far as the agent has said."""
        if self._version == LATEST or self._prompt is None or self._prompt.reply is None:
            return self._idle
        with contextlib.suppress(ProgramRefused, ProviderError):
            return self._prompt.result()
        return None

    async def close_cut_off(self) -> None:
        """Closes what is open because the agent was killed."""
        if self._words is not None:
            await self._turn.complete(replace(self._words, status="interrupted"))
            self._words = None
        await self._calls.close_cut_off()

    # -- what the agent sends

    async def _handle(self, message: object, beside: Callable[[Answering], None]) -> None:
        if isinstance(message, ServerRequest):
            await self._request(message, beside)
            return
        method: str = getattr(message, "method", "")
        params: Json = getattr(message, "params", None)
        match method, params:
            case "session/update", {"sessionId": str(session), "update": {"sessionUpdate": str(kind)} as update}:
                if session == self._session:
                    await self._update(kind, update)
            case "$/cancel_request", {"requestId": str() | int() as request_id}:
                self._permissions.withdraw(request_id)
            case _:
                pass

    async def _request(self, request: ServerRequest, beside: Callable[[Answering], None]) -> None:
        if request.method == "session/request_permission":
            call = permission_call(request)
            shown = await self._calls.update(call, show=True)
            self._permissions.begin(request)
            beside(partial(self._permissions.ask, request, await self._calls.shown_item(shown), shown.state))
        elif request.method == "elicitation/create":
            await self._end_words()
            self._permissions.begin(request)
            beside(partial(self._permissions.elicit, request))
        elif request.method in METHODS and self._client.is_offered:
            await self._end_words()
            beside(partial(self._client.answer, request))
        else:
            await self._process.refuse(request.id, f"no method {request.method!r}")

    async def _update(self, kind: str, update: dict[str, Json]) -> None:
        await self._note_reply(kind, update)
        match kind, update:
            case "agent_message_chunk" | "agent_thought_chunk", {"content": content}:
                await self._say(kind, update.get("messageId"), block_text(content))
            case "agent_message" | "agent_thought", {"content": [*blocks]}:
                await self._say_whole(kind, update.get("messageId"), "".join(map(block_text, blocks)))
            case "tool_call" | "tool_call_update", {"toolCallId": str()}:
                await self._calls.update(update)
            case "tool_call_content_chunk", {"toolCallId": str(call_id), "content": content}:
                await self._calls.add_content(call_id, content)
            case "terminal_update" | "terminal_output_chunk", {"terminalId": str(terminal)}:
                await self._calls.terminal_update(terminal, update)
            case "plan", {"entries": [*entries]}:
                await self._show_plan(entries)
            case "plan_update", {"plan": {"entries": [*entries]}}:
                await self._show_plan(entries)
            case "notice", {"title": str(title)}:
                more = update.get("description")
                words = f"{title}: {more}" if isinstance(more, str) and more else title
                await self._notice("notice", words, is_warning=update.get("severity") != "info")
            case "compaction_update", {"status": "completed"}:
                await self._notice("compacted", f"{self._name} summarised its conversation")
            case "current_mode_update", {"currentModeId": str(mode)}:
                await self._notice("agent_mode", f"{self._name} is now in its mode {mode!r}")
            case "usage_update", {"used": int(used)}:
                self._context_tokens = used
            case "state_update", _:
                self._note_state({"update": update})
            case "config_option_update" | "available_commands_update", _:
                self._learn(kind, update)
            case _:
                pass

    async def _note_reply(self, kind: str, update: dict[str, Json]) -> None:
        """Counts the replies of the agent's model: one ends where calls have results and something else follows."""
        match kind, update:
            case "tool_call" | "tool_call_update", {"toolCallId": str(call_id)}:
                begins = call_id not in self._named_calls
                self._named_calls.add(call_id)
                ends = update.get("status") in ("completed", "failed")
            case _:
                begins, ends = kind in WORDS, False
        if begins and self._has_results:
            self._has_results = False
            await self._report(self._window_usage())
            self._turn.step += 1
        self._has_results = self._has_results or ends

    def _note_state(self, params: Json) -> None:
        match params:
            case {"update": {"sessionUpdate": "state_update", "state": "running"}}:
                self._started = True
            case {"update": {"sessionUpdate": "state_update", "state": "idle"} as update}:
                # Before the turn has begun, an agent may still tell how its session was.
                if self._started or update.get("stopReason") is not None:
                    self._idle = update
                    self._is_idle.set()
            case _:
                pass

    # -- words

    async def _say(self, kind: str, message_id: Json, text: str) -> None:
        if not text:
            return
        shape = WORDS[kind]
        if not isinstance(self._words, shape) or (message_id is not None and message_id != self._message_id):
            await self._end_words()
            await self._calls.show_announced()
            self._words = shape(id=self._turn.new_item_id(), step=self._turn.step)
            self._message_id = message_id
            await self._turn.start(self._words)
        if isinstance(message_id, str):
            self._said[message_id] = self._said.get(message_id, "") + text
        await self._turn.append(self._words.id, text, "text")

    async def _say_whole(self, kind: str, message_id: Json, text: str) -> None:
        """A whole message (version 2): what was not streamed of it is told now."""
        said = self._said.get(message_id, "") if isinstance(message_id, str) else ""
        if text.startswith(said):
            await self._say(kind, message_id, text[len(said) :])

    async def _end_words(self) -> None:
        if self._words is not None:
            item, self._words, self._message_id = self._words, None, None
            await self._turn.complete(replace(item, status="completed"))

    async def _show_plan(self, entries: list[Json]) -> None:
        item = plan_item(entries, self._turn.new_item_id(), self._turn.step)
        if not item.entries or (self._plan is not None and self._plan.entries == item.entries):
            return
        self._plan = item
        await self._end_words()
        await self._calls.show_announced()
        await self._turn.start(item)
        await self._turn.complete(replace(item, status="completed"))

    async def _notice(self, name: str, words: str, *, is_warning: bool = False) -> None:
        severity = "warning" if is_warning else "info"
        turn_id = self._turn.turn_id
        await self._turn.emit(Noticed(source=self._name, name=name, message=words, severity=severity, turn_id=turn_id))

    async def _report_usage(self, answer: Json) -> None:
        """At the end of the turn. An agent that tells its sum is believed about what was not reported before."""
        match answer:
            case {"usage": {"inputTokens": int(given), "outputTokens": int(said)} as told}:
                known = self._reported
                await self._report(
                    Usage(
                        input_tokens=max(0, given - known.input_tokens),
                        output_tokens=max(0, said - known.output_tokens),
                        thinking_tokens=_count(told, "thoughtTokens"),
                        cache_read_tokens=max(0, _count(told, "cachedReadTokens") - known.cache_read_tokens),
                        cache_write_tokens=_count(told, "cachedWriteTokens"),
                    )
                )
            case _:
                await self._report(self._window_usage())

    def _window_usage(self) -> Usage:
        """What filled the agent's window since the last report, where that is all that it tells."""
        before, now = self._reported_context, self._context_tokens
        self._reported_context = now
        return Usage(input_tokens=now - before, cache_read_tokens=before) if now > before else Usage()

    async def _report(self, usage: Usage) -> None:
        if usage != Usage():
            self._reported += usage
            model = self._turn.settings.model
            await self._turn.emit(UsageReported(turn_id=self._turn.turn_id, model=model, usage=usage))


def _count(told: dict[str, Json], member: str) -> int:
    value = told.get(member)
    return value if isinstance(value, int) else 0
