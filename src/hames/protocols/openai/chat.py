"""`/v1/chat/completions`: the whole conversation comes with each request, and the answer is one message.

This API has no way to ask for an approval, so the answer says what is asked, and the next message of the user decides:
`approve`, `always` or `reject`. Anything else rejects, and the agent reads it.
"""

from collections.abc import Sequence

from hames.codecs.jsontext import encode
from hames.codecs.sse import event
from hames.domain.approvals import Approval
from hames.domain.events import ItemCompleted, ItemDelta
from hames.domain.ids import ItemId
from hames.domain.items import AgentMessage, TextInput, ToolCall
from hames.domain.json import Json
from hames.domain.policy import Decision
from hames.domain.state import Change, Turn
from hames.domain.usage import Usage
from hames.protocols.describe import approval_question
from hames.protocols.openai.conversation import turn_text
from hames.protocols.openai.errors import turn_error
from hames.protocols.openai.inbound import ApiRequest, read_chat
from hames.protocols.openai.responses import answer_call
from hames.protocols.openai.session import ApiSession, prompt_tokens, usage_between
from hames.protocols.openai.tools import ClientTools
from hames.protocols.run_session import RunAnswer

DONE = b"data: [DONE]\n\n"
NO_POLICY = "(A server that is started with `hames serve --v1-policy never` asks nothing and stays in the sandbox.)"
_DECISIONS: dict[str, Decision] = {"approve": "once", "always": "always", "reject": "reject"}


class ChatSession(ApiSession):
    def decode(self, body: bytes) -> ApiRequest:
        return read_chat(body)

    def reset(self) -> None:
        self._id, self._created = "", 0
        self._before = Usage()
        self._said = ""
        self._streamed: dict[ItemId, int] = {}
        self._last: ItemId | None = None
        self._newest: AgentMessage | None = None
        """Of an answer that a program reads, the newest message: the last one is the answer."""

    def typed_answers(self) -> tuple[RunAnswer, ...]:
        if self.state is None or not self.state.approvals:
            return ()
        texts = [part.text for part in self.request.conversation.content if isinstance(part, TextInput)]
        word = "\n".join(texts).strip()
        decision = _DECISIONS.get(word.lower().rstrip(".!"))
        note = "" if decision is not None else word
        return tuple(
            RunAnswer(approval_id=one.id, decision=decision or "reject", note=note) for one in self.state.approvals
        )

    # -- the response

    def begun(self, turn: Turn, at_ms: int) -> None:
        assert self.state is not None
        self._id, self._created = f"chatcmpl-{turn.id}-{self.first_item}", at_ms // 1000
        self._before = turn.usage
        self.headers["X-Hames-Thread"] = self.state.id
        if self.request.stream:
            self.begin_stream()
            self._chunk({"role": "assistant", "content": ""})

    def project(self, change: Change) -> None:
        match change.record.event:
            case ItemDelta() | ItemCompleted() if self.request.has_one_answer:
                item = change.record.event.item if isinstance(change.record.event, ItemCompleted) else None
                self._newest = item if isinstance(item, AgentMessage) else self._newest
            case ItemDelta(stream="text", item_id=item_id, text=text):
                if isinstance(change.after.item(item_id), AgentMessage):
                    self._text(item_id, text)
            case ItemCompleted(item=AgentMessage(id=item_id, text=text)):
                if rest := text[self._streamed.get(item_id, 0) :]:
                    self._text(item_id, rest)
            case _:
                pass

    def _text(self, item_id: ItemId, text: str) -> None:
        if not self.request.stream:
            return
        self._streamed[item_id] = self._streamed.get(item_id, 0) + len(text)
        if self._last is not None and self._last != item_id:
            text = "\n\n" + text
        self._last = item_id
        self._said += text
        self._chunk({"content": text})

    def called(self, calls: Sequence[ToolCall]) -> None:
        self.keys = {f"call:{one.call_id}" for one in calls}
        own = ClientTools(self.state)
        self._finish("tool_calls", "", [own.tool_call(one) for one in calls])

    def asks(self, approvals: Sequence[Approval]) -> None:
        questions = "\n\n".join(approval_question(one) for one in approvals)
        hint = "" if self.policy is not None else f" {NO_POLICY}"
        self._finish("stop", f"[approval needed] {questions}\n\nReply with approve, always or reject.{hint}", [])

    def ended(self, turn: Turn) -> None:
        if turn.status == "failed" and turn.error is not None:
            status, code = turn_error(turn.error.info)
            body = {"error": {"message": turn.error.message, "type": "server_error", "param": None, "code": code}}
            if self.request.stream:
                self.write(event(encode(body)) + DONE)
            else:
                self.status = status
                self.write(encode(body))
            return
        if self._newest is not None and turn.status == "completed" and self.request.answer_tool:
            call = answer_call(turn, self.request.answer_tool, self._newest)
            self._finish("tool_calls", "", [ClientTools().tool_call(call)])
            return
        if self._newest is not None and self.request.stream:
            self._said = self._newest.text
            self._chunk({"content": self._said})
        self._finish("stop", "", [])

    def _text_so_far(self, turn: Turn) -> str:
        if self.request.answer_tool:
            return ""
        if self.request.has_one_answer:
            return self._newest.text if self._newest is not None and turn.status != "running" else ""
        return self._said if self.request.stream else turn_text(turn, self.first_item)

    def _finish(self, reason: str, more: str, calls: list[Json]) -> None:
        assert self.state is not None
        turn = self.state.turns[-1]
        text = self._text_so_far(turn)
        if more:
            more = f"\n\n{more}" if text else more
        key = self.note_key(text + more)
        self.keys = self.keys | {key} if calls else {key}
        if self.request.stream:
            if more:
                self._chunk({"content": more})
            if calls:
                self._chunk({"tool_calls": [{"index": number, **one} for number, one in enumerate(calls)]})
            self._chunk({}, reason)
            if self.request.include_usage:
                self.write(
                    event(encode({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage(turn)}))
                )
            self.write(DONE)
            return
        message: dict[str, Json] = {"role": "assistant", "content": text + more or None, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        self.write(encode({**self._head("chat.completion"), "choices": [choice], "usage": self._usage(turn)}))

    def finish_stream(self) -> None:
        self.write(DONE)

    def _head(self, kind: str) -> dict[str, Json]:
        model = self.request.model or (self.state.settings.model if self.state is not None else "")
        return {"id": self._id, "object": kind, "created": self._created, "model": model}

    def _chunk(self, delta: Json, reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        self.write(event(encode({**self._head("chat.completion.chunk"), "choices": [choice]})))

    def _usage(self, turn: Turn) -> Json:
        used = usage_between(self._before, turn)
        prompt = prompt_tokens(used)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": used.output_tokens,
            "total_tokens": prompt + used.output_tokens,
            "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
            "completion_tokens_details": {"reasoning_tokens": used.thinking_tokens},
        }
