"""Connections to the database: addresses, and what is said when there is none.

Several hosts in one address (`postgresql://a,b/hames?target_session_attrs=read-write`) are tried in order, so after a
fail-over the next connection finds the new primary. TLS is as the address says (`sslmode`, `sslrootcert`, …).
"""

import re
from typing import TYPE_CHECKING, Final

from hames.domain.errors import Misconfigured, StoreUnreachable

if TYPE_CHECKING:
    from asyncpg import Connection

CONNECT_SECONDS: Final = 5
HELD_SECONDS: Final = 10.0
"""So long a caller waits for a database that is gone before anybody is told."""
RETRY_SECONDS: Final = 0.2
MISSING: Final = "a PostgreSQL store needs the package asyncpg: pip install 'hames[postgres]'"
SCHEMES: Final = ("postgresql://", "postgres://")

_PASSWORD = re.compile(r"(?<=://)([^:@/]*):[^@/]*@")
_PASSWORD_OPTION = re.compile(r"(?<=[?&])((?:ssl)?password=)[^&]*")


def is_address(words: str) -> bool:
    return words.startswith(SCHEMES)


def check_address(address: str) -> None:
    """Raises `Misconfigured` for what is no address of a database, and where the driver is missing."""
    if not is_address(address):
        raise Misconfigured(f"{without_password(address)!r} is not an address of a PostgreSQL database: postgresql://…")
    try:
        import asyncpg as _  # noqa: F401
    except ImportError:
        raise Misconfigured(MISSING) from None


def without_password(address: str) -> str:
    """For people and logs.

    >>> without_password("postgresql://me:secret@db/hames")
    'postgresql://me@db/hames'
    >>> without_password("postgresql:///hames?user=me&password=secret")
    'postgresql:///hames?user=me&password=…'
    """
    return _PASSWORD_OPTION.sub(r"\1…", _PASSWORD.sub(r"\1@", address))


def is_connection_lost(problem: BaseException) -> bool:
    """Whether the same may work on another connection, or a moment later."""
    import asyncpg

    if isinstance(problem, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return True
    return isinstance(
        problem,
        asyncpg.PostgresConnectionError
        | asyncpg.OperatorInterventionError  # shut down, crashed, starting up
        | asyncpg.TooManyConnectionsError
        | asyncpg.ReadOnlySQLTransactionError  # it has become a standby
        | asyncpg.DeadlockDetectedError
        | asyncpg.SerializationError,
    )


async def connect(address: str, name: str) -> "Connection":
    """Raises what `is_connection_lost` knows, and `Misconfigured` for what trying again does not change."""
    import asyncpg

    try:
        return await asyncpg.connect(
            address, timeout=CONNECT_SECONDS, server_settings={"application_name": name, "jit": "off"}
        )
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as problem:
        raise Misconfigured(f"cannot use the database {without_password(address)!r}: {problem}") from None
    except (asyncpg.ClientConfigurationError, ValueError) as problem:
        raise Misconfigured(f"{without_password(address)!r} cannot be used as an address: {problem}") from None


def unreachable(address: str, problem: BaseException) -> StoreUnreachable:
    return StoreUnreachable(f"the database {without_password(address)!r} cannot be reached: {problem}")
