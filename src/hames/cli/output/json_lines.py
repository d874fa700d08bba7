"""`hames run --json`: one event a line. The shapes are documented in docs/ci.md and stay as they are."""

from typing import TextIO

import anyio
import msgspec

from hames.cli.output.terminal import Ending
from hames.client.appserver import events as agent_events
from hames.domain.foreign import FOREIGN
from hames.domain.json import Json
from hames.protocols.flint import messages as m
from hames.protocols.flint.items import ThreadItem, UnknownItem

OUTCOMES = {0: "completed", 1: "failed", 3: "needsApproval", 8: "unfinished", 9: "unfinished", 130: "interrupted"}


class JsonLinesView:
    """`RunView` for programs: no questions are answered and no progress is shown."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._thread_id = ""

    def opened(self, opened: m.ThreadOpened) -> None:
        self._thread_id = opened.thread.id
        self._write(
            "thread",
            threadId=opened.thread.id,
            model=opened.model,
            cwd=opened.cwd,
            approvalPolicy=opened.approval_mode or opened.approval_policy,
            sandbox=opened.sandbox,
            instructionSources=opened.thread.instruction_sources,
        )
        if opened.thread.foreign:
            self._write(
                "notice", method="hames/foreign_thread", params={"threadId": opened.thread.id, "message": FOREIGN}
            )

    def handle_event(self, event: agent_events.AgentEvent) -> None:
        match event:
            case agent_events.TurnStarted(turn=turn):
                self._write("turn.started", turnId=turn.id)
            case agent_events.ItemStarted(turn_id=turn_id, item=item):
                self._write("item.started", turnId=turn_id, item=_item(item))
            case agent_events.ItemCompleted(turn_id=turn_id, item=item):
                self._write("item.completed", turnId=turn_id, item=_item(item))
            case agent_events.ItemDelta(turn_id=turn_id, item_id=item_id, channel=channel, text=text):
                self._write("item.delta", turnId=turn_id, itemId=item_id, channel=channel, text=text)
            case agent_events.PlanUpdated(turn_id=turn_id, plan=plan):
                self._write("plan", turnId=turn_id, plan=plan)
            case agent_events.UsageUpdated(turn_id=turn_id, usage=usage):
                self._write("usage", turnId=turn_id, usage=usage)
            case agent_events.ApprovalAsked(params=params, method=method):
                self._write("approval.needed", method=method, params=params)
            case agent_events.Unknown(method="hames/foreign_thread"):
                pass  # said when the thread was opened
            case agent_events.Unknown(method=method, params={"severity": "warning", "message": str(message)} as params):
                self._write("warning", message=message, method=method, params=params)
            case agent_events.Unknown(method=method, params=params):
                self._write("notice", method=method, params=params)
            case agent_events.TurnCompleted(turn=turn):
                error = turn.error.message if turn.error else None
                self._write(
                    "turn.completed", turnId=turn.id, status=turn.status, error=error, durationMs=turn.duration_ms
                )
            case _:
                pass

    async def decide(self, asked: agent_events.ApprovalAsked) -> m.ApprovalWord | None:  # noqa: ARG002 - a promise of `RunView`
        return None

    def answer(self, answer: Json) -> None:
        """It is in the result."""

    def ended(self, ending: Ending) -> None:
        told_of: dict[str, Json] = {
            "threadId": self._thread_id,
            "outcome": OUTCOMES.get(ending.code, "failed"),
            "exitCode": ending.code,
            "answer": ending.said,
        }
        if ending.why:
            told_of["error"] = ending.why
        if ending.hint:
            told_of["hint"] = ending.hint
        if ending.answer is not None:
            told_of["json"] = ending.answer
        if ending.usage is not None:
            told_of["usage"] = ending.usage
        if ending.cost is not None:
            told_of["costUsd"] = round(ending.cost, 6)
        self._write("result", **told_of)

    async def progress(self) -> None:
        await anyio.sleep_forever()

    def _write(self, kind: str, **members: Json) -> None:
        # Lone surrogates and every control character are escaped: a line is always one line, and always text.
        line = msgspec.json.encode({"type": kind, **members}).decode()
        self._out.write(line.replace("\x7f", "\\u007f") + "\n")
        self._out.flush()


def _item(item: ThreadItem) -> Json:
    return item.members if isinstance(item, UnknownItem) else item
