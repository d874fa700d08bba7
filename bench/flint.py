"""What flint costs for a token: a change, projected and encoded, next to encoding the same bytes from a plain dict.

    python bench/flint.py [ROUNDS]

CPU time, best of the rounds. What counts is the microseconds of a token (a few) and that a thread of 10,000
items is shown at the cost of its bytes.
"""

import sys
import time
from collections.abc import Callable

import msgspec

from hames.codecs.jsonrpc_peer import JsonRpcPeer, JsonRpcRules
from hames.domain.events import ItemCompleted, ItemDelta, ItemStarted, Record, ThreadCreated, TurnEnded, TurnStarted
from hames.domain.ids import CallId, ItemId, ThreadId, TurnId
from hames.domain.items import AgentMessage, CommandExecution
from hames.domain.options import Settings
from hames.domain.state import Change, ThreadState, apply, blank
from hames.protocols.flint.codex.dialect import CodexDialect
from hames.protocols.flint.dialect import About, FlintDialect
from hames.protocols.flint.outbound import project
from hames.protocols.rpc_session import Notify

THREAD, TURN, ITEM = ThreadId("ses_1k0a7n8wbvnzrk17sn1f0mj"), TurnId("turn_1"), ItemId("item_1")
RULES = JsonRpcRules(version=False, batches=False, loose_ids=False, scalar_params=-32602, opening="initialize")
ITEMS = 10_000


def record(seq: int, event: object) -> Record:
    return Record(seq=seq, at_ms=1_700_000_000_000, thread_id=THREAD, event=event)  # pyright: ignore[reportArgumentType]


def begun() -> ThreadState:
    state = blank(THREAD)
    first = ThreadCreated(settings=Settings(model="anthropic/claude", cwd="/w"))
    message = ItemStarted(turn_id=TURN, item=AgentMessage(id=ITEM, step=1))
    for seq, event in enumerate((first, TurnStarted(turn_id=TURN), message), 1):
        state = apply(state, record(seq, event))
    return state


def long_thread() -> ThreadState:
    state = blank(THREAD)
    state = apply(state, record(1, ThreadCreated(settings=Settings(model="anthropic/claude", cwd="/w"))))
    seq = 1
    for number in range(ITEMS // 100):
        turn_id = TurnId(f"turn_{number}")
        state = apply(state, record(seq := seq + 1, TurnStarted(turn_id=turn_id)))
        for place in range(100):
            item = CommandExecution(
                id=ItemId(f"item_{number}_{place}"),
                step=1,
                call_id=CallId("call"),
                command="ls",
                cwd="/w",
                status="completed",
                output="a line of output\n" * 4,
                exit_code=0,
            )
            state = apply(state, record(seq := seq + 1, ItemCompleted(turn_id=turn_id, item=item)))
        state = apply(state, record(seq := seq + 1, TurnEnded(turn_id=turn_id, status="completed")))
    return state


def best(rounds: int, times: int, work: Callable[[], object]) -> float:
    """Seconds of CPU for one."""
    taken: list[float] = []
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(times):
            work()
        taken.append((time.process_time() - begin) / times)
    return min(taken)


def main() -> None:
    rounds = int(sys.argv[1]) if sys.argv[1:] else 9
    about = About(version="1", provider="anthropic", home="/h")
    dialects: dict[str, FlintDialect] = {
        "flint": FlintDialect(about, lambda _: None),
        "codex": CodexDialect(about, lambda _: None),
    }
    peer = JsonRpcPeer(RULES, frozenset())
    before = begun()
    told = record(4, ItemDelta(turn_id=TURN, item_id=ITEM, stream="text", text="some tokens "))
    change = Change(record=told, before=before, after=apply(before, told))

    def line(dialect: FlintDialect) -> bytes:
        (said,) = project(change, dialect)
        assert isinstance(said, Notify)
        return peer.notification(said.method, said.params)

    for name, dialect in dialects.items():
        plain = msgspec.json.decode(line(dialect))
        floor = best(rounds, 20_000, lambda plain=plain: msgspec.json.encode(plain))
        taken = best(rounds, 20_000, lambda dialect=dialect: line(dialect))
        print(
            f"{name:<6} token       {taken * 1e6:7.2f} us   encoding alone {floor * 1e6:5.2f} us   x{taken / floor:.1f}"
        )
    state = long_thread()
    for name, dialect in dialects.items():
        opened = best(
            max(1, rounds // 3),
            1,
            lambda dialect=dialect: msgspec.json.encode(dialect.opened_thread(state, turns=True)),
        )
        size = len(msgspec.json.encode(dialect.opened_thread(state, turns=True)))
        print(f"{name:<6} {ITEMS:,} items {opened * 1e3:6.1f} ms   {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
