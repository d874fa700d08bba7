"""A session of ACP without an engine: what it is asked, what happens to its thread, and what it says."""

import json
from typing import Any

from hames.domain.approvals import Approval, ChangeFiles, RunCommand
from hames.domain.events import (
    ApprovalRequested,
    Event,
    ItemStarted,
    Record,
    ThreadCreated,
    TurnStarted,
)
from hames.domain.ids import ApprovalId, CallId, ItemId, ThreadId, TurnId
from hames.domain.items import (
    CommandExecution,
    FileUpdate,
)
from hames.domain.options import Settings
from hames.domain.state import Change, ThreadState, apply, blank
from hames.protocols.acp.session import AcpSession
from hames.protocols.session import Action, Execute, Follow
from hames.testing.checks.session import receive
from hames.testing.fakes.model import OneModel, ScriptedModel

THREAD, TURN, ITEM = ThreadId("ses_1"), TurnId("turn_1"), ItemId("item_1")
SETTINGS = Settings(model="scripted/test", cwd="/w")
BOTH = (1, 2)
TEXT = [{"type": "text", "text": "go"}]
ALL: dict[int, dict[str, Any]] = {
    1: {
        "session": {"notices": {}, "compaction": {}},
        "elicitation": {"form": {}, "url": {}},
        "auth": {"terminal": True},
    },
    2: {"elicitation": {"form": {}, "url": {}}, "auth": {"terminal": {}}},
}


def fresh() -> AcpSession:
    return AcpSession(OneModel(ScriptedModel()), SETTINGS)


def initialize(version: int, offered: dict[str, Any] | None = None) -> dict[str, Any]:
    member = "clientCapabilities" if version == 1 else "capabilities"
    return {"protocolVersion": version, member: ALL[version] if offered is None else offered}


def opened(version: int, offered: dict[str, Any] | None = None) -> AcpSession:
    session = fresh()
    ask(session, "initialize", initialize(version, offered), number=0)
    return session


def ask(session: AcpSession, method: str, params: Any, *, number: Any = 7) -> tuple[list[Action], list[Any]]:
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
    actions, said = receive(session, line)
    return actions, [json.loads(one) for one in said.splitlines()]


def messages(session: AcpSession) -> list[Any]:
    return [json.loads(line) for line in session.take_output().splitlines()]


def state(*events: Event) -> ThreadState:
    now = blank(THREAD)
    for seq, event in enumerate((ThreadCreated(settings=SETTINGS), *events), 1):
        now = apply(now, Record(seq=seq, at_ms=seq, thread_id=THREAD, event=event))
    return now


def tell(session: AcpSession, before: ThreadState, *events: Event) -> tuple[ThreadState, list[Any]]:
    heard: list[Any] = []
    for event in events:
        record = Record(seq=before.seq + 1, at_ms=1, thread_id=THREAD, event=event)
        after = apply(before, record)
        session.tell([Change(record=record, before=before, after=after)], 0.0)
        heard += messages(session)
        before = after
    return before, heard


def following(version: int, offered: dict[str, Any] | None = None) -> tuple[AcpSession, ThreadState]:
    session, now = opened(version, offered), state()
    session.followed(Follow(thread_id=THREAD), now, (), 0.0)
    session.take_output()
    return session, now


RUN = RunCommand(command="make", cwd="/w")
CHANGE = ChangeFiles(changes=(FileUpdate(path="/w/a", kind="modify", diff="--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"),))
SELECTED = {"outcome": "selected"}
BASE: dict[str, Any] = {"id": ITEM, "step": 1, "call_id": CallId("c")}


def prompted(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"sessionId": THREAD, "prompt": list(blocks)}


def asked(session: AcpSession, now: ThreadState, intent: Any, name: str = "apr_1") -> tuple[ThreadState, Any]:
    item = CommandExecution(id=ITEM, step=1, call_id=CallId("c"), command="make", cwd="/w")
    events: list[Event] = [] if now.turns else [TurnStarted(turn_id=TURN), ItemStarted(turn_id=TURN, item=item)]
    approval = Approval(id=ApprovalId(name), turn_id=TURN, item_id=ITEM, intent=intent, reason="because")
    now, heard = tell(session, now, *events, ApprovalRequested(approval=approval))
    [question] = [one for one in heard if "id" in one]
    return now, question


def answered(session: AcpSession, question: Any, **answer: Any) -> list[Any]:
    actions, said = receive(session, json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}).encode())
    assert said == b""
    return [action.command for action in actions if isinstance(action, Execute)]
