"""The turns that one client asked for, and its prompts that wait in the queue."""

from typing import NamedTuple

from hames.codecs.jsonrpc_peer import JsonRpcRequest
from hames.domain.ids import PromptId, ThreadId, TurnId
from hames.domain.items import UserMessage
from hames.domain.state import Change


class OwnPrompt(NamedTuple):
    thread_id: ThreadId
    request: JsonRpcRequest


class OwnPrompts:
    def __init__(self) -> None:
        self.running: dict[TurnId, OwnPrompt] = {}
        self.queued: dict[PromptId, OwnPrompt] = {}
        """Behind a turn that somebody else started, or this client with an earlier request."""

    def turn_of(self, request_id: bytes) -> tuple[ThreadId, TurnId] | None:
        return next(
            ((one.thread_id, turn_id) for turn_id, one in self.running.items() if one.request.id == request_id), None
        )

    def prompt_of(self, request_id: bytes) -> PromptId | None:
        return next((key for key, one in self.queued.items() if one.request.id == request_id), None)

    def queued_on(self, thread_id: ThreadId) -> list[PromptId]:
        return [key for key, one in self.queued.items() if one.thread_id == thread_id]

    def running_on(self, thread_id: ThreadId) -> TurnId | None:
        return next((key for key, one in self.running.items() if one.thread_id == thread_id), None)


def is_first_message(change: Change, turn_id: TurnId) -> bool:
    """Whether it is the prompt of the turn: others may say something while it runs."""
    turn = change.before.turn(turn_id)
    return turn is None or not any(isinstance(item, UserMessage) for item in turn.items)
