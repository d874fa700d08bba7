"""What ACP costs for a token: a change told by a session as bytes, next to flint's session in the same run.

    python bench/acp.py [ROUNDS]

CPU time, best of the rounds. What counts is the ratio to flint: within 2.
"""

import json
import sys
import time
from collections.abc import Callable

from hames.domain.events import ItemDelta, ItemStarted, Record, ThreadCreated, TurnStarted
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import AgentMessage
from hames.domain.models import ModelCard
from hames.domain.options import Settings
from hames.domain.state import Change, apply, blank
from hames.protocols.acp.session import AcpSession
from hames.protocols.flint.session import FlintSession
from hames.protocols.session import Defer, Follow, Session
from hames.testing.fakes.model import OneModel, ScriptedModel

THREAD, TURN, ITEM = ThreadId("ses_1k0a7n8wbvnzrk17sn1f0mj"), TurnId("turn_1"), ItemId("item_1")
CALLS = 20_000


def change() -> Change:
    state = blank(THREAD)
    first = ThreadCreated(settings=Settings(model="scripted/test", cwd="/w"))
    message = ItemStarted(turn_id=TURN, item=AgentMessage(id=ITEM, step=1))
    for seq, event in enumerate((first, TurnStarted(turn_id=TURN), message), 1):
        state = apply(state, Record(seq=seq, at_ms=1, thread_id=THREAD, event=event))
    delta = ItemDelta(turn_id=TURN, item_id=ITEM, stream="text", text="Hello")
    record = Record(seq=4, at_ms=1, thread_id=THREAD, event=delta)
    return Change(record=record, before=state, after=apply(state, record))


def opened(session: Session, params: object) -> Session:
    line = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()
    for action in session.receive(line, 0.0):
        assert isinstance(action, Defer)
        session.resume(action, 0.0)
    session.followed(Follow(thread_id=THREAD), blank(THREAD), (), 0.0)
    session.take_output()
    return session


def best(work: Callable[[], object], rounds: int) -> float:
    """Microseconds of one call."""
    times: list[float] = []
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(CALLS):
            work()
        times.append(time.process_time() - began)
    return min(times) / CALLS * 1e6


def main(rounds: int) -> None:
    card = ModelCard(provider="scripted", model="test", display_name="Test")
    models, settings = OneModel(ScriptedModel(), card), Settings(model="scripted/test", cwd="/w")
    about = {"clientInfo": {"name": "bench", "version": "1"}}
    sessions = {
        "flint": opened(FlintSession(models, settings), about),
        "ACP v1": opened(AcpSession(models, settings), {"protocolVersion": 1}),
        "ACP v2": opened(AcpSession(models, settings), {"protocolVersion": 2}),
    }
    token = [change()]

    def told(session: Session) -> Callable[[], bytes]:
        def work() -> bytes:
            session.tell(token, 0.0)
            return session.take_output()

        return work

    costs = {name: best(told(session), rounds) for name, session in sessions.items()}
    for name, cost in costs.items():
        size = len(told(sessions[name])())
        print(f"{name:8} {cost:6.2f} µs a token, {cost / costs['flint']:.2f} × flint, {size} bytes")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
