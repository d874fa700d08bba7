"""What Codex can do beside a prompt: it summarises, reviews, and takes what is said while it works.

Played from a recording in `tests/integration`, and with the real Codex in `tests/clients`.
"""

import anyio

from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.commands import (
    CompactThread,
    CreateThread,
    ResolveApproval,
    ReviewTarget,
    StartReview,
    StartTurn,
    SteerTurn,
)
from hames.domain.events import ApprovalRequested, TurnEnded
from hames.domain.items import AgentMessage, CommandExecution, Compaction, TextInput, UserMessage
from hames.domain.state import ThreadState, Turn

PROMPTS = {"hello": "Say hello", "review": "Look for mistakes", "run": "Run it", "steer": "And be quick"}
REPLIES = {"hello": "Hello there.", "summary": "We said hello.", "review": "No mistakes.", "steer": "Quickly done."}
COMMAND = "echo quick"


async def ended(engine: Engine, watcher: Watcher, *, steer: str = "") -> Turn:
    """The turn that runs, to its end. Whatever it asks is allowed, after something was said to it."""
    with anyio.fail_after(60):
        while True:
            for change in await watcher.next():
                event = change.record.event
                if isinstance(event, ApprovalRequested):
                    thread_id = change.after.id
                    if steer:
                        await engine.execute(SteerTurn(thread_id=thread_id, content=(TextInput(text=steer),)))
                    await engine.execute(ResolveApproval(approval_id=event.approval.id, decision="once"))
                if isinstance(event, TurnEnded):
                    return change.after.turns[-1]


def spoken(turn: Turn) -> list[str]:
    return [item.text for item in turn.items if isinstance(item, AgentMessage)]


async def run_other_tasks(engine: Engine) -> None:
    thread = await engine.execute(CreateThread())
    assert isinstance(thread, ThreadState)
    watcher = await engine.watch(thread.id)
    await engine.execute(StartTurn(thread_id=thread.id, content=(TextInput(text=PROMPTS["hello"]),)))
    first = await ended(engine, watcher)
    assert (first.status, spoken(first)) == ("completed", [REPLIES["hello"]])

    await engine.execute(CompactThread(thread_id=thread.id))
    compacted = await ended(engine, watcher)
    assert (compacted.kind, compacted.status, compacted.error) == ("compact", "completed", None)
    assert [(type(item), item.status) for item in compacted.items] == [(Compaction, "completed")]
    assert compacted.usage == first.usage, "one model call each; what Codex repeats is not counted again"

    target = ReviewTarget(kind="custom", text=PROMPTS["review"])
    await engine.execute(StartReview(thread_id=thread.id, target=target))
    review = await ended(engine, watcher)
    assert (review.kind, review.status, review.error) == ("review", "completed", None)
    assert spoken(review) == [REPLIES["review"]]

    await engine.execute(StartTurn(thread_id=thread.id, content=(TextInput(text=PROMPTS["run"]),)))
    steered = await ended(engine, watcher, steer=PROMPTS["steer"])
    assert (steered.status, spoken(steered)) == ("completed", [REPLIES["steer"]])
    kinds = [type(item) for item in steered.items]
    assert kinds == [UserMessage, CommandExecution, UserMessage, AgentMessage]
