"""One turn of an ACP agent, as it happens: its updates told as our items, its questions asked here."""

from collections.abc import Callable
from functools import partial

import anyio
from msgspec.structs import replace

from hames.agents.acp.items import AcpItem, ToolState, completed_item, intent, opened_item, plan_item
from hames.agents.asking import Answering, read_beside_questions
from hames.agents.process import AgentProcess, ProgramRefused
from hames.codecs.jsonrpc_peer import ServerRequest
from hames.domain.errors import ProviderError
from hames.domain.events import Noticed, UsageReported
from hames.domain.items import AgentMessage, CommandExecution, Reasoning
from hames.domain.json import Json
from hames.domain.policy import Decision
from hames.domain.usage import Usage
from hames.ports import TurnHandle

CANCEL_SECONDS = 2.0
KINDS: dict[Decision, tuple[str, ...]] = {
    "once": ("allow_once", "allow_always"),
    "always": ("allow_always", "allow_once"),
    "reject": ("reject_once", "reject_always"),
    "void": (),
}
"""Which kind of option stands for a decision, the best first."""


class AcpTurn:
    def __init__(self, process: AgentProcess, turn: TurnHandle, session: str, name: str) -> None:
        self._process = process
        self._turn = turn
        self._session = session
        self._name = name
        self._tools: dict[str, tuple[AcpItem, ToolState]] = {}
        self._words: AgentMessage | Reasoning | None = None
        """The message that grows."""
        self._message_id: Json = None
        self._handling = anyio.Lock(fast_acquire=True)

    async def run(self, prompt: list[Json]) -> str:
        """Until the agent has answered the prompt. Raises `HarnessError`."""
        return await read_beside_questions(partial(self._run, prompt))

    async def _run(self, prompt: list[Json], beside: Callable[[Answering], None]) -> str:
        beside(partial(self._read, beside))
        params: Json = {"sessionId": self._session, "prompt": prompt}
        try:
            answer = await self._process.call_beside("session/prompt", params)
        except ProgramRefused as refusal:
            raise ProviderError(f"{self._name} refused: {refusal}") from None
        await self._handle_unread(beside)  # what came before the answer
        await self._end_words()
        await self._report_usage(answer)
        reason = answer.get("stopReason") if isinstance(answer, dict) else None
        if reason == "cancelled":
            raise ProviderError(f"{self._name} cancelled the turn")
        return reason if isinstance(reason, str) else "end_turn"

    async def _read(self, beside: Callable[[Answering], None]) -> None:
        while True:
            await self._process.wait_unread()
            await self._handle_unread(beside)

    async def _handle_unread(self, beside: Callable[[Answering], None]) -> None:
        """One message after the other: the reader and the end of the turn both come here."""
        async with self._handling:
            while self._process.has_unread:
                await self._handle(await self._process.next(), beside)

    async def cancel(self) -> None:
        with anyio.move_on_after(CANCEL_SECONDS, shield=True):
            await self._process.notify("session/cancel", {"sessionId": self._session})

    async def _handle(self, message: object, beside: Callable[[Answering], None]) -> None:
        if isinstance(message, ServerRequest):
            if message.method == "session/request_permission":
                await self._tool(_tool_call(message.params))
                beside(partial(self._ask, message))
            else:
                await self._process.refuse(message.id, f"no method {message.method!r}")
            return
        match message:
            case _ if getattr(message, "method", "") != "session/update":
                return
            case _:
                params: Json = getattr(message, "params", None)
        match params:
            case {"sessionId": str(session), "update": {"sessionUpdate": str(kind)} as update} if (
                session == self._session
            ):
                await self._update(kind, update)
            case _:
                pass

    async def _update(self, kind: str, update: dict[str, Json]) -> None:
        match kind, update:
            case "agent_message_chunk" | "agent_thought_chunk", {"content": {"type": "text", "text": str(text)}}:
                await self._say(kind, update.get("messageId"), text)
            case "tool_call" | "tool_call_update", {"toolCallId": str()}:
                await self._tool(update)
            case "plan", {"entries": [*entries]} if entries:
                await self._end_words()
                item = plan_item(entries, self._turn.new_item_id(), self._turn.step)
                await self._turn.start(item)
                await self._turn.complete(replace(item, status="completed"))
            case "notice", {"title": str(title)}:
                severity = "info" if update.get("severity") == "info" else "warning"
                notice = Noticed(source=self._name, name="notice", message=title, severity=severity)
                await self._turn.emit(replace(notice, turn_id=self._turn.turn_id))
            case _:
                pass

    async def _say(self, kind: str, message_id: Json, text: str) -> None:
        if not text:
            return
        shape = AgentMessage if kind == "agent_message_chunk" else Reasoning
        if not isinstance(self._words, shape) or (message_id is not None and message_id != self._message_id):
            await self._end_words()
            self._words = shape(id=self._turn.new_item_id(), step=self._turn.step)
            self._message_id = message_id
            await self._turn.start(self._words)
        await self._turn.append(self._words.id, text, "text")

    async def _end_words(self) -> None:
        if self._words is not None:
            item, self._words, self._message_id = self._words, None, None
            await self._turn.complete(replace(item, status="completed"))

    async def _tool(self, update: dict[str, Json]) -> None:
        call_id = str(update.get("toolCallId"))
        await self._end_words()
        if call_id not in self._tools:
            state = ToolState(call_id=call_id).updated(update)
            item = opened_item(state, self._turn.new_item_id(), self._turn.step, self._turn.settings.cwd)
            self._tools[call_id] = item, state
            await self._turn.start(item)
        else:
            item, state = self._tools[call_id]
            if item.status != "running":
                return
            state = state.updated(update)
        if (status := state.ended) is not None:
            if isinstance(item, CommandExecution) and state.text:  # the agent sends all of it anew each time
                await self._turn.append(item.id, state.text, "output")
            item = completed_item(item, state, status)
            await self._turn.complete(item)
        self._tools[call_id] = item, state

    async def _ask(self, request: ServerRequest) -> None:
        call = _tool_call(request.params)
        item, state = self._tools[str(call.get("toolCallId"))]
        options: list[Json] = request.params.get("options") or [] if isinstance(request.params, dict) else []
        if self._turn.settings.approval_policy == "never":
            decision: Decision = "once"
        else:
            decision = (await self._turn.ask(item.id, intent(item, state), f"{self._name} asks")).decision
        for kind in KINDS[decision]:
            for option in options:
                if isinstance(option, dict) and option.get("kind") == kind:
                    chosen = {"outcome": "selected", "optionId": option.get("optionId")}
                    await self._process.answer(request.id, {"outcome": chosen})
                    return
        await self._process.answer(request.id, {"outcome": {"outcome": "cancelled"}})

    async def _report_usage(self, answer: Json) -> None:
        match answer:
            case {"usage": {"inputTokens": int(given), "outputTokens": int(said)}}:
                usage = Usage(input_tokens=given, output_tokens=said)
                model = self._turn.settings.model
                await self._turn.emit(UsageReported(turn_id=self._turn.turn_id, model=model, usage=usage))
            case _:
                pass


def _tool_call(params: Json) -> dict[str, Json]:
    match params:
        case {"toolCall": {"toolCallId": str()} as call}:
            return call
        case _:
            return {"toolCallId": "unnamed", "title": "a tool"}
