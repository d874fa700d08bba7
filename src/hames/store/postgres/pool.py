"""Connections for everything but the writes of logs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from hames.domain.errors import HarnessError, Misconfigured, StorageFailed
from hames.store.postgres.connection import (
    CONNECT_SECONDS,
    HELD_SECONDS,
    RETRY_SECONDS,
    check_address,
    check_pooler,
    connect,
    is_connection_lost,
    prepare_session,
    unreachable,
    without_password,
)
from hames.store.postgres.tables import check_version, migrate, versions_of

if TYPE_CHECKING:
    from asyncpg import Connection, Pool

T = TypeVar("T")
MOST_CONNECTIONS: Final = 6
STATEMENT_SECONDS: Final = 60.0


class Connections:
    """`run` carries out something that may be done twice, and waits a while for a database that is gone."""

    def __init__(self, address: str, *, name: str = "hames") -> None:
        """Raises `Misconfigured`."""
        check_address(address)
        self.address = address
        self.name = name
        self._pool: Pool | None = None
        self._opening = asyncio.Lock()
        self._checked = False
        self._gone = False
        """The last try found no database."""
        self._places = asyncio.Semaphore(MOST_CONNECTIONS)

    async def run(self, work: "Callable[[Connection], Awaitable[T]]", *, patience: float = HELD_SECONDS) -> T:
        """Raises `StorageFailed` if the database is gone for longer than that, and `Misconfigured`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        while True:
            try:
                # A task of its own: a caller that goes away leaves no connection in the middle of an answer.
                task = asyncio.ensure_future(self._once(work))
                task.add_done_callback(_look_at)
                return await asyncio.shield(task)
            except Exception as problem:
                if not is_connection_lost(problem):
                    if isinstance(problem, HarnessError):
                        raise
                    raise StorageFailed(f"the database refused: {problem}") from problem
                self._gone = True
                if loop.time() > until:
                    raise unreachable(self.address, problem) from problem
            await asyncio.sleep(RETRY_SECONDS)

    async def _once(self, work: "Callable[[Connection], Awaitable[T]]") -> T:
        pool = self._pool or await self._open()
        await self._wait_for_place()
        try:
            async with pool.acquire(timeout=CONNECT_SECONDS) as connection:
                done = await asyncio.wait_for(work(cast("Connection", connection)), STATEMENT_SECONDS)
                self._gone = False
                return done
        finally:
            self._places.release()

    async def _wait_for_place(self) -> None:
        """Raises `TimeoutError` if the database is gone. That others use all connections is no reason."""
        while True:
            try:
                await asyncio.wait_for(self._places.acquire(), CONNECT_SECONDS)
            except TimeoutError:
                if self._gone:
                    raise
            else:
                return

    async def fetch(self, statement: str, *values: object, patience: float = HELD_SECONDS) -> list[Any]:
        """Rows. Raises as `run` does."""

        async def ask(connection: "Connection") -> list[Any]:
            return await connection.fetch(statement, *values)

        return await self.run(ask, patience=patience)

    async def fetch_row(self, statement: str, *values: object) -> Any:
        rows = await self.fetch(statement, *values)
        return rows[0] if rows else None

    async def execute(self, statement: str, *values: object, patience: float = HELD_SECONDS) -> None:
        await self.fetch(statement, *values, patience=patience)

    async def connect(self) -> "Connection":
        """A connection of its own. Raises what `is_connection_lost` knows, and `Misconfigured`."""
        if not self._checked:
            await self._open()
        return await connect(self.address, self.name)

    async def close(self, *, at_once: bool = False) -> None:
        """`at_once`: the database does not answer."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                await asyncio.wait_for(pool.close(), 0.1 if at_once else 2.0)
            except Exception:  # it is gone either way
                pool.terminate()

    async def _open(self) -> "Pool":
        import asyncpg

        async with self._opening:
            if self._pool is not None:
                return self._pool
            await self._check_tables()
            settings = {"application_name": self.name}

            async def leave_as_it_is(_connection: Any) -> None:
                """Nothing here changes a session, so there is nothing to reset."""

            self._pool = await asyncpg.create_pool(
                self.address,
                min_size=0,
                max_size=MOST_CONNECTIONS,
                timeout=CONNECT_SECONDS,
                server_settings=settings,
                init=prepare_session,
                reset=leave_as_it_is,
            )
            return self._pool

    async def _check_tables(self) -> None:
        """An empty database gets its tables. Raises `Misconfigured`."""
        if self._checked:
            return
        import asyncpg

        connection = await connect(self.address, self.name)
        try:
            await check_pooler(connection, self.address)
            found, usable_by = await versions_of(connection)
            if found == 0:
                await migrate(connection)
            else:
                check_version(found, usable_by)
        except asyncpg.InsufficientPrivilegeError as problem:
            raise Misconfigured(
                f"the tables of hames cannot be used in {without_password(self.address)!r}: {problem}."
                " Run `hames store migrate` as the owner of the database, with --grant for this role"
            ) from None
        finally:
            await connection.close()
        self._checked = True


def _look_at(task: "asyncio.Task[Any]") -> None:
    """Nobody may wait for it any more, and its failure is then nobody's."""
    if not task.cancelled():
        task.exception()
