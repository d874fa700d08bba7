"""What servers keep beside threads, for all of them: uploads, named tokens, sign-in links. And what a day has cost.

Tokens, words and codes are kept as hashes. Times are the database's.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.from_thread
import msgspec
from msgspec.structs import replace

from hames.domain.budgets import BudgetMeasure, DayTotal, Spending
from hames.domain.errors import HarnessError
from hames.domain.tokens import NamedToken, SignInLink

if TYPE_CHECKING:
    from hames.store.postgres.store import PostgresStore

log = logging.getLogger(__name__)

TOKENS: Final = "@tokens"
"""A hint that tokens were added or revoked."""
SPENDING_SECONDS: Final = 5.0
"""So long a turn waits for a database that is gone before it counts alone."""

PUT_UPLOAD: Final = """
insert into hames.blob (id, kind, name, body) values ($1, 'upload', $2, $3) on conflict (id) do nothing
"""
FIND_UPLOAD: Final = "select body from hames.blob where id = $1 and kind = 'upload'"
DELETE_UPLOADS: Final = """
delete from hames.blob where kind = 'upload' and created_at < now() - make_interval(secs => $1)
"""
READ_TOKENS: Final = (
    "select name, role, sha256, created_at_ms, expires_at_ms from hames.token order by created_at_ms, name"
)
ADD_TOKEN: Final = """
insert into hames.token as t (name, role, sha256, created_at_ms, expires_at_ms) values ($1, $2, $3, $4, $5)
on conflict (name) do update set role = excluded.role, sha256 = excluded.sha256,
    created_at_ms = excluded.created_at_ms, expires_at_ms = excluded.expires_at_ms
where t.sha256 = excluded.sha256 or t.expires_at_ms between 1 and $6
returning name
"""
"""A second try, after the connection was lost, finds the row of the first."""
REVOKE_TOKEN: Final = "delete from hames.token where name = $1 returning name"
PUT_LINK: Final = """
with older as (update hames.link set code = '' where code <> '' and word <> $2),
gone as (
    delete from hames.link where word_until < now()
    or id in (select id from hames.link where word <> $2 order by id desc offset $6)
)
insert into hames.link (name, word, code, word_until, code_until)
values ($1, $2, $3, now() + make_interval(secs => $4), now() + make_interval(secs => $5))
on conflict (word) do nothing
"""
TAKE_LINK: Final = "delete from hames.link where word = $1 and word_until > now() returning name"
TAKE_CODE: Final = "delete from hames.link where code = $1 and code <> '' and code_until > now() returning name"
WRONG_CODE: Final = """
update hames.link set wrong = wrong + 1, code = case when wrong + 1 >= $1 then '' else code end where code <> ''
"""
SPEND: Final = """
with mine as (
    insert into hames.spending as s (day, node, usd, tokens, minutes, steps, raised)
    values ($1::text::date, $2, $3, $4, $5, $6, $7)
    on conflict (day, node) do update set usd = excluded.usd, tokens = excluded.tokens,
        minutes = excluded.minutes, steps = excluded.steps, raised = excluded.raised
    returning node
)
select usd, tokens, minutes, steps, raised from hames.spending, (select count(*) from mine) as written
where day = $1::text::date and node <> $2
"""
"""A node says what it spent in all, so that it can be said twice."""
FORGET_SPENDING: Final = "delete from hames.spending where day < current_date - 60"


class PostgresServerState:
    """Implements `ports.ServerState`."""

    def __init__(self, store: "PostgresStore") -> None:
        self._connections = store.connections
        self._hints = store.hints

    async def put_upload(self, upload_id: str, name: str, body: bytes) -> None:
        await self._connections.execute(PUT_UPLOAD, upload_id, name, body)

    async def find_upload(self, upload_id: str) -> bytes | None:
        row = await self._connections.fetch_row(FIND_UPLOAD, upload_id)
        return row[0] if row is not None else None

    async def delete_old_uploads(self, seconds: float) -> None:
        await self._connections.execute(DELETE_UPLOADS, seconds)

    async def tokens(self) -> Sequence[NamedToken]:
        rows = await self._connections.fetch(READ_TOKENS)
        return [
            NamedToken(name=row[0], role=row[1], sha256=row[2], created_at_ms=row[3], expires_at_ms=row[4])
            for row in rows
        ]

    async def add_token(self, token: NamedToken, *, now_ms: int) -> bool:
        columns = token.name, token.role, token.sha256, token.created_at_ms, token.expires_at_ms
        added = await self._connections.fetch_row(ADD_TOKEN, *columns, now_ms)
        self._hints.send([TOKENS])
        return added is not None

    async def revoke_token(self, name: str) -> bool:
        revoked = await self._connections.fetch_row(REVOKE_TOKEN, name)
        self._hints.send([TOKENS])
        return revoked is not None

    def watch_tokens(self, changed: Callable[[], None]) -> None:
        def hear(word: str) -> None:
            if word in ("", TOKENS):
                changed()

        self._hints.listen(hear)

    async def put_link(self, link: SignInLink, *, most: int) -> None:
        columns = link.name, link.word, link.code, link.word_seconds, link.code_seconds
        await self._connections.execute(PUT_LINK, *columns, most - 1)

    async def take_link(self, word: bytes) -> str | None:
        return await self._take(TAKE_LINK, word)

    async def take_code(self, code: bytes, *, most_wrong: int) -> str | None:
        name = await self._take(TAKE_CODE, code)
        if name is None:
            await self._connections.execute(WRONG_CODE, most_wrong)
        return name

    async def _take(self, statement: str, given: bytes) -> str | None:
        row = await self._connections.fetch_row(statement, given)
        return row[0] if row is not None else None


class PostgresDaySpending:
    """Implements `ports.DaySpending`: what all nodes spent today. The day is that of this node's time zone."""

    def __init__(self, store: "PostgresStore", today: Callable[[], str]) -> None:
        self._connections = store.connections
        self._node_id = store.node_id
        self._today = today
        self._own = DayTotal()
        self._others = DayTotal()
        """As far as this node knows."""
        self._turn = anyio.Lock()

    def add(self, spent: Spending) -> DayTotal:
        def change(own: DayTotal) -> DayTotal:
            return replace(own, spent=own.spent + spent)

        return anyio.from_thread.run(self._change, change)

    def raise_limit(self, measure: BudgetMeasure, amount: float) -> DayTotal:
        def change(own: DayTotal) -> DayTotal:
            return replace(own, raised={**own.raised, measure: own.raised.get(measure, 0.0) + amount})

        return anyio.from_thread.run(self._change, change)

    async def _change(self, change: Callable[[DayTotal], DayTotal]) -> DayTotal:
        async with self._turn:  # a total that is older must not overwrite a newer one
            return await self._change_alone(change)

    async def _change_alone(self, change: Callable[[DayTotal], DayTotal]) -> DayTotal:
        day = self._today()
        first = self._own.day != day
        if first:
            self._own = self._others = DayTotal(day=day)
        self._own = change(self._own)
        own = self._own
        raised = msgspec.json.encode(own.raised).decode()
        spent = own.spent.usd, own.spent.tokens, own.spent.minutes, own.spent.steps
        try:
            if first:
                await self._connections.execute(FORGET_SPENDING, patience=SPENDING_SECONDS)
            columns = day, self._node_id, *spent, raised
            rows = await self._connections.fetch(SPEND, *columns, patience=SPENDING_SECONDS)
            self._others = sum_totals(day, [_total(day, row) for row in rows])
        except HarnessError as problem:
            log.warning("budget.day_not_shared", extra={"error": str(problem)})
        return sum_totals(day, [self._own, self._others])


def _total(day: str, row: Any) -> DayTotal:
    raised = msgspec.json.decode(row[4], type=dict[str, float])
    return DayTotal(day=day, spent=Spending(usd=row[0], tokens=row[1], minutes=row[2], steps=row[3]), raised=raised)


def sum_totals(day: str, totals: Sequence[DayTotal]) -> DayTotal:
    raised: dict[str, float] = {}
    for one in totals:
        for measure, amount in one.raised.items():
            raised[measure] = raised.get(measure, 0.0) + amount
    return DayTotal(day=day, spent=sum((one.spent for one in totals), Spending()), raised=raised)
