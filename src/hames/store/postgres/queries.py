"""Single statements on some connection of the store. They may be carried out twice if a connection is lost."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hames.store.postgres.store import PostgresStore


async def fetch(store: "PostgresStore", statement: str, *arguments: object) -> list[Any]:
    """The rows. Raises `StorageFailed`."""

    async def work(connection: Any) -> list[Any]:
        return await connection.fetch(statement, *arguments)

    return await store.run(work)


async def fetch_value(store: "PostgresStore", statement: str, *arguments: object) -> Any:
    """The first column of the first row, or None. Raises `StorageFailed`."""
    rows = await fetch(store, statement, *arguments)
    return rows[0][0] if rows else None
