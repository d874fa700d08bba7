"""`thread/turns/list` and `thread/items/list`: the history of a thread, page by page."""

import msgspec

from hames.domain.errors import InvalidCommand
from hames.domain.json import Json
from hames.domain.state import ThreadState
from hames.protocols.flint import messages as m
from hames.protocols.flint.dialect import FlintDialect

PAGE = 50


def turns_page(state: ThreadState, dialect: FlintDialect, params: m.ThreadTurnsListParams) -> Json:
    return _page([(turn.id, dialect.turn(turn)) for turn in dialect.shown_turns(state.turns)], params)


def items_page(state: ThreadState, dialect: FlintDialect, params: m.ThreadTurnsListParams) -> Json:
    entries: list[tuple[str, Json]] = []
    for turn in dialect.shown_turns(state.turns):
        for shown in msgspec.to_builtins(dialect.turn_items(turn)):
            told = {"turnId": turn.id, "item": shown, "startedAtMs": None, "completedAtMs": None}
            entries.append((shown["id"], told))
    return _page(entries, params)


def _page(entries: list[tuple[str, Json]], params: m.ThreadTurnsListParams) -> Json:
    """Newest first unless asked otherwise. A cursor is the id of the last one told."""
    ordered = entries if params.sort_direction == "asc" else entries[::-1]
    if params.cursor is not None:
        places = [place for place, (name, _) in enumerate(ordered) if name == params.cursor]
        if not places:
            raise InvalidCommand("cursor: is not a cursor of this list")
        ordered = ordered[places[0] + 1 :]
    page = ordered[: params.limit or PAGE]
    return {
        "data": [shown for _, shown in page],
        "nextCursor": page[-1][0] if len(ordered) > len(page) else None,
        "backwardsCursor": page[0][0] if page else None,
    }
