"""A request of `/v1` that goes on from a response, while another one has just begun to do the same."""

import json

from hames.domain.commands import ForkThread, ReadThread, StartTurn
from hames.domain.errors import TurnBusy
from hames.domain.events import Record, ThreadCreated, TurnEnded, TurnStarted
from hames.domain.ids import ThreadId, TurnId
from hames.domain.options import Settings
from hames.domain.state import apply, blank
from hames.protocols.openai.responses import ResponsesSession
from hames.protocols.run_session import KnownThreads
from hames.protocols.session import Defer, Execute, Follow, Unfollow

THREAD, FIRST = ThreadId("ses_1k0a7n8wbvnzrk17sn1f0mj"), TurnId("turn_1k0a7n8wbvnzrk17sn1f0mj")


def test_it_leaves_the_thread_and_goes_on_in_a_fork() -> None:
    state = blank(THREAD)
    events = (
        ThreadCreated(settings=Settings(model="scripted/test", cwd="/w")),
        TurnStarted(turn_id=FIRST),
        TurnEnded(turn_id=FIRST, status="completed"),
    )
    for seq, event in enumerate(events, 1):
        state = apply(state, Record(seq=seq, at_ms=1, thread_id=THREAD, event=event))
    session = ResponsesSession(KnownThreads())
    body = {"model": "hames", "input": "on", "previous_response_id": f"resp_{THREAD}.{FIRST}.1"}
    (deferred,) = session.receive(json.dumps(body).encode(), 0.0)
    assert isinstance(deferred, Defer)
    (read,) = session.resume(deferred, 0.0)
    assert isinstance(read, Execute)
    assert isinstance(read.command, ReadThread)
    (follow,) = session.done(read, state)
    assert isinstance(follow, Follow)
    (start,) = session.followed(follow, state, (), 0.0)
    assert isinstance(start, Execute)
    assert isinstance(start.command, StartTurn)
    unfollow, fork = session.failed(start, TurnBusy("the thread already runs a turn"))
    assert unfollow == Unfollow(thread_id=THREAD)
    assert isinstance(fork, Execute)
    assert fork.command == ForkThread(thread_id=THREAD, last_turn_id=FIRST, meta=state.meta)
    assert session.has_open_request
