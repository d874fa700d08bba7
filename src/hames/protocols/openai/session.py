"""What `/v1/chat/completions` and `/v1/responses` have in common: which thread a request is about, and its errors."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from hames.codecs.jsontext import encode
from hames.codecs.sse import event
from hames.domain.commands import ListThreads, ReadThread, ThreadPage
from hames.domain.errors import HarnessError, InvalidCommand, NotFound
from hames.domain.ids import ApprovalId, ThreadId, TurnId
from hames.domain.items import TextInput
from hames.domain.json import NOTHING, Json
from hames.domain.state import ThreadState, Turn
from hames.domain.usage import Usage
from hames.protocols.openai.conversation import (
    META,
    Conversation,
    conversation_turn,
    is_candidate,
    read_item_name,
    read_response_id,
    referenced_turn,
)
from hames.protocols.openai.errors import error_body, error_status
from hames.protocols.openai.inbound import ApiRequest
from hames.protocols.run_session import EVENTS, Run, RunAnswer, RunSession
from hames.protocols.session import Action, Execute, Outcome

PAGES = 5
PAGE = 100
"""So many of the newest threads are looked through for a conversation that this process does not remember."""


class _Search(NamedTuple):
    """Threads that may be the one of a conversation, and how many pages of the list are left."""

    found: tuple[ThreadId, ...]
    pages: int
    cursor: str | None


class _Named(NamedTuple):
    """A thread that the request names, or that is known to be the one, and the turn that it goes on from."""

    thread_id: ThreadId
    turn_id: TurnId | None
    is_required: bool


class _Referenced(NamedTuple):
    """The thread of an item that the request names."""

    thread_id: ThreadId
    item: str


class ApiSession(RunSession):
    protocol = "openai"
    request: ApiRequest

    @abstractmethod
    def decode(self, body: bytes) -> ApiRequest: ...

    @abstractmethod
    def reset(self) -> None:
        """A new response begins."""

    def typed_answers(self) -> tuple[RunAnswer, ...]:
        """What the text of a new message decides about the open approvals, where there is no other way."""
        return ()

    def read(self, body: bytes) -> Sequence[Action]:
        self.request = self.decode(body)
        self.reset()
        _check_not_empty(self.request.conversation)
        if self.request.ignored:
            self.headers["X-Hames-Ignored"] = ", ".join(self.request.ignored)
        if self.turn_id is not None and self.state is not None:
            return self._answer(self.state.id)
        conversation = self.request.conversation
        if self.request.previous:
            named = read_response_id(self.request.previous)
            if named is None:
                raise NotFound(f"no response {self.request.previous!r}")
            return [self._read(_Named(named[0], named[1], is_required=True))]
        if conversation.reference:
            item = read_item_name(conversation.reference)
            if item is None:
                raise NotFound(f"no item {conversation.reference!r}")
            return [self._read(_Referenced(*item))]
        if not conversation.earlier:
            return self._start_new()
        if (known := self.known.get(f"conversation:{conversation.key}")) is not None:
            return [self._read(_Named(*known, is_required=False))]
        return self._search(_Search((), PAGES, None))

    def _answer(self, thread_id: ThreadId) -> Sequence[Action]:
        """Goes on with the turn that waits for this request."""
        typed = self.typed_answers()
        conversation = self.request.conversation
        answers = tuple(
            RunAnswer(
                approval_id=ApprovalId(one.approval_id),
                decision="once" if one.approve else "reject",
                note=one.reason,
            )
            for one in conversation.decisions
        )
        content = () if typed else conversation.content
        return self.start(
            Run(thread_id=thread_id, content=content, results=conversation.results, answers=(*answers, *typed))
        )

    def _start_new(self) -> Sequence[Action]:
        conversation = self.request.conversation
        meta = {META: {"first": conversation.first}}
        return self.start(self._run(history=conversation.past, meta=meta))

    def _run(self, **more: Json) -> Run:
        request = self.request
        conversation: Conversation = request.conversation
        answers = tuple(
            RunAnswer(approval_id=ApprovalId(one.approval_id), decision="once" if one.approve else "reject")
            for one in conversation.decisions
        )
        return Run(
            content=conversation.content,
            results=conversation.results,
            answers=answers,
            overrides=request.overrides,
            output_schema=request.output_schema,
            turn_meta={META: {"answerTool": request.answer_tool}} if request.answer_tool else NOTHING,
            **more,
        )

    # -- finding the thread

    def _read(self, context: _Named | _Referenced | _Search) -> Execute:
        thread_id = context.found[0] if isinstance(context, _Search) else context.thread_id
        return Execute(command=ReadThread(thread_id=thread_id), context=context)

    def _search(self, search: _Search) -> Sequence[Action]:
        if search.found:
            return [self._read(search)]
        if not search.pages:
            return self._start_new()
        command = ListThreads(limit=PAGE, cursor=search.cursor)
        return [Execute(command=command, context=search)]

    def looked_up(self, action: Execute, outcome: Outcome) -> Sequence[Action]:
        match action.context, outcome:
            case _Named() as named, ThreadState():
                turn = outcome.turn(named.turn_id) if named.turn_id is not None else None
                if turn is not None:
                    return self._continue(outcome, turn.id)
                if named.is_required:
                    raise NotFound(f"no response {self.request.previous!r}")
                return self._search(_Search((), PAGES, None))
            case _Referenced(item=item), ThreadState():
                if (turn_id := referenced_turn(outcome, item)) is None:
                    raise NotFound(f"no item {self.request.conversation.reference!r}")
                return self._continue(outcome, turn_id)
            case _Search(found=found, pages=pages, cursor=cursor), ThreadState():
                turn_id = conversation_turn(outcome, self.request.conversation)
                if turn_id is not None:
                    return self._continue(outcome, turn_id)
                return self._search(_Search(found[1:], pages, cursor))
            case _Search(pages=pages), ThreadPage(threads=threads, next_cursor=cursor):
                first = self.request.conversation.first
                found = tuple(one.id for one in threads if not one.foreign and is_candidate(one.meta, first))
                return self._search(_Search(found, pages - 1 if cursor is not None else 0, cursor))
            case _:
                return []

    def lookup_failed(self, action: Execute, error: HarnessError) -> Sequence[Action] | None:
        match action.context:
            case _Named(is_required=False):
                return self._search(_Search((), PAGES, None))
            case _Search(found=found, pages=pages, cursor=cursor) if found:
                return self._search(_Search(found[1:], pages, cursor))
            case _Named() if isinstance(error, NotFound):
                raise NotFound(f"no response {self.request.previous!r}")
            case _Referenced() if isinstance(error, NotFound):
                raise NotFound(f"no item {self.request.conversation.reference!r}")
            case _:
                return None

    def _continue(self, state: ThreadState, turn_id: TurnId) -> Sequence[Action]:
        """After the end of a turn: in the thread itself, or in a fork if it went on since."""
        if state.turns[-1].id == turn_id:
            return self.start(self._run(thread_id=state.id, after=turn_id, meta=state.meta))
        return self.start(self._run(thread_id=state.id, fork_after=turn_id, meta=state.meta))

    # -- answers

    def begin_stream(self) -> None:
        self.media = EVENTS

    def refused(self, error: HarnessError) -> None:
        if self.media == EVENTS:  # its head has left already
            self.write(event(encode(error_body(error))))
            self.finish_stream()
            return
        self.status = error_status(error)
        self.write(encode(error_body(error)))

    def finish_stream(self) -> None:
        """What stands at the end of every stream."""

    def note_key(self, text: str) -> str:
        """Remembers the conversation as the client will send it next time."""
        key = f"conversation:{self.request.conversation.key_after(text)}"
        if self.state is not None and self.state.turns:
            self.known.add(key, self.state.id, self.state.turns[-1].id)
        return key


def _check_not_empty(conversation: Conversation) -> None:
    said = any(not isinstance(part, TextInput) or part.text.strip() for part in conversation.content)
    if not said and not conversation.results and not conversation.decisions:
        raise InvalidCommand("the last message is empty, or none of the user")


def usage_between(before: Usage, turn: Turn) -> Usage:
    now = turn.usage
    return Usage(
        input_tokens=now.input_tokens - before.input_tokens,
        output_tokens=now.output_tokens - before.output_tokens,
        thinking_tokens=now.thinking_tokens - before.thinking_tokens,
        cache_read_tokens=now.cache_read_tokens - before.cache_read_tokens,
        cache_write_tokens=now.cache_write_tokens - before.cache_write_tokens,
    )


def prompt_tokens(usage: Usage) -> int:
    """OpenAI counts what was read from a cache as input."""
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
