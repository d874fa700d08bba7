"""Sessions in lists: their titles, their pages, and the position in a session's log that a client can go on from."""

from collections.abc import Sequence

from hames.domain.commands import ThreadSummary
from hames.domain.json import Json
from hames.domain.state import ThreadState
from hames.protocols.acp.dates import iso_date
from hames.protocols.acp.messages import v1 as m

CURSOR = "_hames/replayFrom"
"""The member of `_meta` with a position in the thread's log. A client that sends it back with `session/load` or
`session/resume` is told what came after it."""


def cursor(seq: int) -> dict[str, Json]:
    return {CURSOR: {"seq": seq}}


def session_page(threads: Sequence[ThreadSummary], next_cursor: str | None) -> m.ListSessionsResponse:
    sessions = [
        m.SessionInfo(
            session_id=one.id,
            cwd=one.cwd,
            title=one.title or one.preview or None,
            updated_at=iso_date(one.updated_at_ms),
        )
        for one in threads
    ]
    return m.ListSessionsResponse(sessions=sessions, next_cursor=next_cursor)


def session_title(state: ThreadState) -> str | None:
    return state.title or state.preview or None
