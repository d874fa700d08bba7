"""A page of the list of threads: without those that a client left out, and in an order that the store does not keep."""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from hames.domain.commands import ListOrder, ListThreads, ThreadPage, ThreadSummary
from hames.domain.errors import InvalidCommand

PAGE = 50
_AT_ONCE = 500
_AFTER = "after:"

LoadPage = Callable[[ListThreads], Awaitable[ThreadPage]]
"""Of all threads, newest first, as the store has them."""


async def list_threads(command: ListThreads, load: LoadPage) -> ThreadPage:
    """No more pages are read than the answer needs; another order than the store's needs all of them."""
    if command.order != ListOrder():
        return await _ordered(command, load)
    if not (command.cwds or command.providers or command.excluded):
        return await load(command)
    wanted = command.limit or PAGE
    found: list[ThreadSummary] = []
    partial = False
    while True:
        # Asking for no more than is missing keeps the store's cursor right behind the last thread looked at.
        page = await load(replace(command, limit=wanted - len(found)))
        found += [one for one in page.threads if _is_wanted(command, one)]
        partial = partial or page.partial
        if page.next_cursor is None or len(found) >= wanted:
            return ThreadPage(threads=tuple(found), next_cursor=page.next_cursor, partial=partial)
        command = replace(command, cursor=page.next_cursor)


async def _ordered(command: ListThreads, load: LoadPage) -> ThreadPage:
    every: list[ThreadSummary] = []
    partial, cursor = False, None
    while True:
        page = await load(replace(command, cursor=cursor, limit=_AT_ONCE))
        every += [one for one in page.threads if _is_wanted(command, one)]
        partial, cursor = partial or page.partial, page.next_cursor
        if cursor is None:
            break
    by_creation = command.order.by == "created"
    every.sort(
        key=lambda one: (one.created_at_ms if by_creation else one.updated_at_ms, one.id),
        reverse=not command.order.oldest_first,
    )
    start = 0
    if command.cursor is not None:
        places = [place for place, one in enumerate(every) if command.cursor == f"{_AFTER}{one.id}"]
        if not places:
            raise InvalidCommand("cursor: is not a cursor of this list")
        start = places[0] + 1
    end = start + (command.limit or PAGE)
    shown = tuple(every[start:end])
    return ThreadPage(threads=shown, next_cursor=f"{_AFTER}{shown[-1].id}" if every[end:] else None, partial=partial)


def _is_wanted(command: ListThreads, one: ThreadSummary) -> bool:
    return (
        (not command.cwds or one.cwd in command.cwds)
        and (not command.providers or one.model.partition("/")[0] in command.providers)
        and one.id not in command.excluded
    )
