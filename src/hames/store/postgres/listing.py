"""The list of threads and the search in them."""

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from hames.domain.commands import ThreadPage, ThreadSummary
from hames.store.database import containing
from hames.store.index import HIDDEN, LATEST_MS, MOST, PAGE, PageQuery, encode_cursor, position_of
from hames.store.postgres.search import query_of
from hames.store.search import MOST_MESSAGES, excerpt_of, has_unspaced_script

if TYPE_CHECKING:
    from asyncpg import Connection

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ThreadSummary).decode

_PAGE: Final = """
select l.updated_at_ms, l.id, l.summary,
    case when exists (select from hames.node n where n.id = t.owner and n.until > now()) then l.standing else 'away' end
from hames.listed l join hames.thread t on t.id = l.id
where l.archived = any($1::smallint[]) and (l.updated_at_ms, l.id) < ($2::bigint, $3::text)
    and ($4 = '%%' or l.title ilike $4 or l.preview ilike $4 or l.id = any($5::text[]))
order by l.updated_at_ms desc, l.id desc limit $6
"""
_BY_WORDS: Final = f"""
select distinct on (thread) thread, seq, text from
    (select thread, seq, text from hames.words where words @@ $1::tsquery limit {MOST_MESSAGES}) as found
order by thread, seq desc
"""
_BY_LETTERS: Final = f"""
select distinct on (thread) thread, seq, text from
    (select thread, seq, text from hames.words where text like $1 limit {MOST_MESSAGES}) as found
order by thread, seq desc
"""


def listed_row(summary: ThreadSummary) -> tuple[object, ...]:
    """For the columns of `hames.listed`."""
    updated = max(-LATEST_MS, min(summary.updated_at_ms, LATEST_MS - 1))
    kept = _encode(replace(summary, standing="away", match=""))
    archived = HIDDEN if summary.ephemeral else int(summary.archived)
    title, preview = (words.replace("\0", "\ufffd") for words in (summary.title, summary.preview))
    return summary.id, title, preview, updated, archived, summary.standing, kept


async def list_page(connection: "Connection", query: PageQuery) -> ThreadPage:
    size = min(query.limit, MOST) if query.limit is not None else PAGE
    updated, last = position_of(query.cursor)
    search = query.search.replace("\0", "\ufffd")
    found = await _find(connection, search) if search.strip() else {}
    lists = [0, 1] if query.archived is None else [int(query.archived)]
    rows: list[Any] = await connection.fetch(
        _PAGE, lists, updated, last, containing(search), list(found), min(size + 1, MOST)
    )
    cursor = encode_cursor(*rows[size - 1][:2]) if len(rows) > size else None
    threads = tuple(
        replace(_decode(row[2]), standing=row[3], match=excerpt_of(found[row[1]], search) if row[1] in found else "")
        for row in rows[:size]
    )
    return ThreadPage(threads=threads, next_cursor=cursor)


async def _find(connection: "Connection", search: str) -> dict[str, str]:
    """The threads in which every word of the search occurs in one message, each with such a message."""
    rows: list[Any]
    if has_unspaced_script(search):
        rows = await connection.fetch(_BY_LETTERS, containing(search.strip()))
    elif words := query_of(search):
        rows = await connection.fetch(_BY_WORDS, words)
    else:
        return {}
    return {row[0]: row[2] for row in rows}
