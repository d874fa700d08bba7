"""Lists page by page: turns and items of a thread, MCP servers, and whatever has a name to begin the next page at."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from hames.domain.errors import InvalidCommand
from hames.domain.json import Json
from hames.domain.servers import ServerList
from hames.domain.state import ThreadState
from hames.protocols.flint import messages as m
from hames.protocols.flint.dialect import FlintDialect
from hames.protocols.flint.parts import server_status

PAGE = 50


One = TypeVar("One")


def turns_page(state: ThreadState, dialect: FlintDialect, params: m.ThreadTurnsListParams) -> Json:
    turns = [(turn.id, msgspec.to_builtins(dialect.turn(turn))) for turn in dialect.shown_turns(state.turns)]
    return _told(turns, params, newest_first=params.sort_direction != "asc", view=params.items_view or "full")


def items_page(state: ThreadState, dialect: FlintDialect, params: m.ThreadItemsListParams) -> Json:
    entries: list[tuple[str, Any]] = []
    for turn in dialect.shown_turns(state.turns):
        if params.turn_id not in (None, turn.id):
            continue
        for shown in msgspec.to_builtins(dialect.turn_items(turn)):
            told = {"turnId": turn.id, "item": shown, "startedAtMs": None, "completedAtMs": None}
            entries.append((shown["id"], told))
    direction = params.sort_direction or ("asc" if dialect.is_codex else "desc")
    return _told(entries, params, newest_first=direction == "desc")


def servers_page(found: ServerList, params: m.McpServerStatusListParams) -> Json:
    wanted = [(one.name, server_status(one)) for one in found.servers if params.server_name in (None, one.name)]
    data, next_cursor = page_of(wanted, params.cursor, params.limit)
    return m.McpServerStatusList(data=data, next_cursor=next_cursor)


def page_of(entries: Sequence[tuple[str, One]], cursor: str | None, limit: int | None) -> tuple[list[One], str | None]:
    """The entries behind the cursor, and the cursor of the next page: the name of the last one told."""
    if cursor is not None:
        places = [place for place, (name, _) in enumerate(entries) if name == cursor]
        if not places:
            raise InvalidCommand("cursor: is not a cursor of this list")
        entries = entries[places[0] + 1 :]
    page = entries[:limit]
    return [one for _, one in page], page[-1][0] if len(entries) > len(page) else None


def _told(
    entries: Sequence[tuple[str, Any]],
    params: m.ThreadTurnsListParams | m.ThreadItemsListParams,
    *,
    newest_first: bool,
    view: str = "full",
) -> Json:
    ordered = [(name, (name, shown)) for name, shown in (entries[::-1] if newest_first else entries)]
    page, next_cursor = page_of(ordered, params.cursor, params.limit or PAGE)
    return {
        "data": [shown if view == "full" else _shortened(shown, view) for _, shown in page],
        "nextCursor": next_cursor,
        "backwardsCursor": page[0][0] if page else None,
    }


def _shortened(turn: dict[str, Any], view: str) -> Json:
    said = [item for item in turn["items"] if item["type"] == "userMessage"]
    answers = [item for item in turn["items"] if item["type"] == "agentMessage"]
    return {**turn, "items": [*said, *answers[-1:]] if view == "summary" else [], "itemsView": view}
