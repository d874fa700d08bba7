"""What must hold for the session of every protocol: no I/O, no crash, one answer for each request, any history told."""

from collections.abc import Callable, Sequence

from hames.codecs.lines import MAX_LINE_BYTES, Line, TooLong
from hames.domain.errors import HarnessError, ThreadNotFound
from hames.domain.ids import ThreadId
from hames.domain.state import Change, blank
from hames.protocols.broadcast import Encoder
from hames.protocols.session import Action, Close, Crashed, Defer, Execute, Follow, ReadClientFile, Session

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
    return _without_defers(session, session.receive(message, now), now), session.take_output()


def _without_defers(session: Session, given: Sequence[Action], now: float = 0.0) -> list[Action]:
    actions: list[Action] = []
    todo = list(given)
    while todo:
        action = todo.pop(0)
        if isinstance(action, Defer):
            todo[:0] = session.resume(action, now)
        else:
            actions.append(action)
    return actions


def check_session(open_session: Callable[[], Session], requests: Sequence[bytes], history: Sequence[Change]) -> None:
    """`open_session` makes one that takes `requests` in any order; `history` is what happens to one thread."""
    _check_noise(open_session())
    _check_refusals(open_session(), requests)
    _check_follow(open_session(), requests, history)
    _check_end(open_session(), history[0].record.thread_id)
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
    """What the engine refuses is answered, once; a session that cannot begin says that it ends."""
    error = ThreadNotFound("no thread 'x'")
    for action in session.open(0.0):
        [close] = session.failed(action, error) if isinstance(action, Follow) else [Close(reason="")]
        assert isinstance(close, Close)
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
    encoders: list[Encoder] = []
    for message in (None, *requests):
        given = session.open(0.0) if message is None else receive(session, message)[0]
        for action in given:
            if isinstance(action, Follow):
                encoders += [action.encoder()] if action.encoder is not None else []
                session.followed(action, blank(action.thread_id), (), 0.0)
            elif isinstance(action, Execute):
                session.failed(action, HarnessError("internal error"))
    session.followed(Follow(thread_id=thread_id), history[0].before, (), 0.0)
    session.take_output()
    for change in history:
        session.tell([change], 0.0)
    session.restarted()
    said = session.take_output() + b"".join(_check_encoder(one, history) for one in encoders)
    assert said, "a whole history was told in silence"
    session.lost(thread_id, "the thread was closed")
    session.failed(Follow(thread_id=thread_id), HarnessError("internal error"))


def _check_encoder(encoder: Encoder, history: Sequence[Change]) -> bytes:
    """A client may join at any state. What is sent for a change does not depend on who joined before."""
    plain, said = [encoder.encode([change]) for change in history], b""
    encoder.load([])
    for change, expected in zip(history, plain, strict=True):
        assert encoder.begin(change.before), "a client that joins must be sent something"
        assert encoder.heartbeat(change.before)
        assert encoder.encode([change]) == expected
        said += expected
    return said


def _check_end(session: Session, thread_id: ThreadId) -> None:
    """When the connection has ended, only commands are left."""
    session.open(0.0)
    session.lost(thread_id, "the server is restarting")
    assert all(isinstance(action, Execute) for action in session.closed())


def _check_deadlines(session: Session) -> None:
    """A deadline that has passed is over: the connection would call again and again otherwise."""
    while (deadline := session.next_deadline()) is not None:
        session.expire(deadline)
        following = session.next_deadline()
        assert following is None or following > deadline
