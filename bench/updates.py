"""What a token costs a client of each protocol: a change told by a session as bytes, next to flint's in the same run.

    python bench/updates.py [ROUNDS]

CPU time, best of the rounds. What counts is the ratio to flint: for ACP it is to be within 2.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence

from hames.domain.commands import CreateThread, ListThreads, StartTurn, ThreadPage
from hames.domain.errors import NotFound
from hames.domain.events import ItemDelta, ItemStarted, Record, ThreadCreated, TurnStarted
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import AgentMessage
from hames.domain.models import ModelCard
from hames.domain.options import Settings
from hames.domain.state import Change, ThreadState, apply, blank
from hames.protocols.acp.session import AcpSession
from hames.protocols.agui.session import AguiSession
from hames.protocols.flint.session import FlintSession
from hames.protocols.mcp.session import McpServerSession
from hames.protocols.openai.chat import ChatSession
from hames.protocols.openai.responses import ResponsesSession
from hames.protocols.run_session import KnownThreads
from hames.protocols.session import Action, Defer, Execute, Follow, Session
from hames.testing.fakes.model import OneModel, ScriptedModel

THREAD, TURN, ITEM = ThreadId("ses_1k0a7n8wbvnzrk17sn1f0mj"), TurnId("turn_1"), ItemId("item_1")
SETTINGS = Settings(model="scripted/test", cwd="/w")
CALLS = 20_000


def states() -> list[ThreadState]:
    """The empty thread, its turn, and a message that has begun."""
    state = blank(THREAD)
    found: list[ThreadState] = []
    message = ItemStarted(turn_id=TURN, item=AgentMessage(id=ITEM, step=1))
    for seq, event in enumerate((ThreadCreated(settings=SETTINGS), TurnStarted(turn_id=TURN), message), 1):
        state = apply(state, Record(seq=seq, at_ms=1, thread_id=THREAD, event=event))
        found.append(state)
    return found


EMPTY, BEGUN, WRITING = states()


def change() -> Change:
    delta = ItemDelta(turn_id=TURN, item_id=ITEM, stream="text", text="Hello")
    record = Record(seq=4, at_ms=1, thread_id=THREAD, event=delta)
    return Change(record=record, before=WRITING, after=apply(WRITING, record))


def carry_out(session: Session, actions: Sequence[Action]) -> None:
    """What an engine does with the actions of a client that starts a turn."""
    for action in actions:
        match action:
            case Defer():
                carry_out(session, session.resume(action, 0.0))
            case Execute(command=CreateThread()):
                carry_out(session, session.done(action, EMPTY))
            case Execute(command=StartTurn()):
                carry_out(session, session.done(action, BEGUN.turns[-1]))
            case Execute(command=ListThreads()):
                carry_out(session, session.done(action, ThreadPage(threads=())))
            case Execute():  # AG-UI asks whether there is a thread with the client's name
                carry_out(session, session.failed(action, NotFound("no such thread")))
            case Follow():
                carry_out(session, session.followed(action, EMPTY, (), 0.0))
            case _:
                raise AssertionError(action)


def opened(session: Session, *messages: object) -> Session:
    """Follows the thread, and its message has begun."""
    for message in messages:
        carry_out(session, session.receive(json.dumps(message).encode(), 0.0))
    item = Record(seq=3, at_ms=1, thread_id=THREAD, event=ItemStarted(turn_id=TURN, item=WRITING.turns[-1].items[-1]))
    session.tell([Change(record=item, before=BEGUN, after=WRITING)], 0.0)
    session.take_output()
    return session


def rpc(method: str, params: object, request_id: int = 0) -> object:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def follower(session: Session, params: object) -> Session:
    """A connection that follows the thread without having started the turn."""
    carry_out(session, session.receive(json.dumps(rpc("initialize", params)).encode(), 0.0))
    session.followed(Follow(thread_id=THREAD), blank(THREAD), (), 0.0)
    session.take_output()
    return session


def sessions() -> dict[str, Session]:
    card = ModelCard(provider="scripted", model="test", display_name="Test")
    models = OneModel(ScriptedModel(), card)
    about = {"clientInfo": {"name": "bench", "version": "1"}}
    call = {"name": "hames", "arguments": {"prompt": "Hello"}, "_meta": {"progressToken": 1}}
    run = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hello"}]}
    chat = {"model": "hames", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    known = KnownThreads()
    return {
        "flint": follower(FlintSession(models, SETTINGS), about),
        "ACP v1": follower(AcpSession(models, SETTINGS), {"protocolVersion": 1}),
        "ACP v2": follower(AcpSession(models, SETTINGS), {"protocolVersion": 2}),
        "MCP": opened(
            McpServerSession(SETTINGS),
            rpc("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, **about}),
            rpc("tools/call", call, 1),
        ),
        "AG-UI": opened(AguiSession(known), run),
        "/v1/responses": opened(ResponsesSession(known), {"model": "hames", "stream": True, "input": "Hello"}),
        "/v1/chat/completions": opened(ChatSession(known), chat),
    }


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
    token = [change()]

    def told(session: Session) -> Callable[[], bytes]:
        def work() -> bytes:
            session.tell(token, 0.0)
            return session.take_output()

        return work

    every = sessions()
    sizes = {name: len(told(session)()) for name, session in every.items()}
    assert all(sizes.values()), sizes
    costs = {name: best(told(session), rounds) for name, session in every.items()}
    for name, cost in costs.items():
        print(f"{name:20} {cost:6.2f} µs a token, {cost / costs['flint']:.2f} × flint, {sizes[name]} bytes")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
