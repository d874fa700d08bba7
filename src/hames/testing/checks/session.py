"""What must hold for the session of every protocol: no I/O, no crash, one answer for each request, any history told."""

from collections.abc import Callable, Sequence

from hames.codecs.lines import MAX_LINE_BYTES, Line, TooLong
from hames.domain.errors import HarnessError, ThreadNotFound
from hames.domain.ids import ThreadId
from hames.domain.state import Change, ThreadState, blank
from hames.protocols.session import Action, Crashed, Defer, Execute, Follow, ReadClientFile, Session

NOISE: tuple[Line, ...] = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'"text"',
    b'{"id":1}',
    b'{"method":"no/such/method"}',
    b'{"jsonrpc":"2.0","id":[],"method":{}}',
    b"[" * 10_000,
    TooLong(limit=MAX_LINE_BYTES),
)


def receive(session: Session, message: Line, now: float = 0.0) -> tuple[list[Action], bytes]:
    """A message as a connection without an engine would hand it over: the actions that are left, and the output."""
    actions: list[Action] = []
    todo = list(session.receive(message, now))
    while todo:
        action = todo.pop(0)
        if isinstance(action, Defer):
            todo[:0] = session.resume(action, now)
        else:
            actions.append(action)
    return actions, session.take_output()


def check_session(open_session: Callable[[], Session], requests: Sequence[bytes], history: Sequence[Change]) -> None:
    """`open_session` makes one that takes `requests` in any order; `history` is what happens to one thread."""
    _check_noise(open_session())
    _check_refusals(open_session(), requests)
    _check_follow(open_session(), requests, history)
    session = open_session()
    assert not session.ask("r1", ReadClientFile(thread_id=ThreadId("t"), path="/a"), 1.0) or session.take_output()
    _check_deadlines(session)


def _check_noise(session: Session) -> None:
    """Whatever comes in, nothing is raised and nothing runs."""
    for message in NOISE:
        actions, _ = receive(session, message)
        assert not any(isinstance(action, Execute | Follow | Crashed) for action in actions), message
    assert session.take_output() == b"", "output is taken once"


def _check_refusals(session: Session, requests: Sequence[bytes]) -> None:
    """What the engine refuses is answered, once."""
    error = ThreadNotFound("no thread 'x'")
    for request in requests:
        actions, said = receive(session, request)
        assert not any(isinstance(action, Crashed) for action in actions), request
        todo = [action for action in actions if isinstance(action, Execute | Follow)]
        while todo:
            action = todo.pop(0)
            more = session.failed(action, error)
            todo += [one for one in more if isinstance(one, Execute | Follow)]
            said += session.take_output()
        assert said, f"nobody answered {request!r}"


def _check_follow(session: Session, requests: Sequence[bytes], history: Sequence[Change]) -> None:
    """After `followed`, any history can be told; a lost thread leaves nothing behind."""
    thread_id = history[0].record.thread_id
    for request in requests:
        for action in receive(session, request)[0]:
            if isinstance(action, Follow):
                session.followed(action, blank(action.thread_id), (), 0.0)
            elif isinstance(action, Execute):
                session.failed(action, HarnessError("internal error"))
    state: ThreadState = history[0].before
    session.followed(Follow(thread_id=thread_id), state, (), 0.0)
    session.take_output()
    for change in history:
        session.tell([change], 0.0)
    assert session.take_output(), "a whole history was told in silence"
    session.lost(thread_id, "the thread was closed")
    session.failed(Follow(thread_id=thread_id), HarnessError("internal error"))


def _check_deadlines(session: Session) -> None:
    """A deadline that has passed is over: the connection would call again and again otherwise."""
    while (deadline := session.next_deadline()) is not None:
        session.expire(deadline)
        following = session.next_deadline()
        assert following is None or following > deadline
