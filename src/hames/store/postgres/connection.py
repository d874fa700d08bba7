"""Connections to the database: addresses, and what is said when there is none.

Several hosts in one address (`postgresql://a,b/hames?target_session_attrs=read-write`) are tried in order, so after a
fail-over the next connection finds the new primary. TLS is as the address says (`sslmode`, `sslrootcert`, …).
"""

import asyncio
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
    import ssl

    import asyncpg

    try:
        connection = await asyncpg.connect(address, timeout=CONNECT_SECONDS, server_settings={"application_name": name})
        await prepare_session(connection)
        return connection
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as problem:
        raise Misconfigured(f"cannot use the database {without_password(address)!r}: {problem}") from None
    except ssl.SSLCertVerificationError as problem:
        raise Misconfigured(
            f"the certificate of the database {without_password(address)!r} is not trusted: {problem.verify_message}"
        ) from None
    except (asyncpg.ClientConfigurationError, ValueError) as problem:
        raise Misconfigured(f"{without_password(address)!r} cannot be used as an address: {problem}") from None


async def prepare_session(connection: "Connection") -> None:
    """Compiling our statements takes longer than running them. Poolers refuse this as an option of the connection."""
    await connection.execute("set jit = off")


async def check_pooler(connection: "Connection", address: str) -> None:
    """Raises `Misconfigured` for a pooler that gives each transaction another session of the database."""
    import asyncpg

    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if await connection.fetchval("select pg_backend_pid()") == connection.get_server_pid():
                return  # there is none
            other = await connect(address, "hames")
            try:
                await connection.execute("set hames.session = 'kept'")
                async with other.transaction():  # it has the session that was used last
                    await other.execute("select 1")
                    if await connection.fetchval("select current_setting('hames.session', true)") == "kept":
                        return
            finally:
                other.terminate()
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError, TimeoutError):
        pass
    raise Misconfigured(
        f"{without_password(address)!r} leads through a pooler that does not keep sessions: use its session mode"
        " (pgbouncer: pool_mode = session), or connect directly"
    )


def unreachable(address: str, problem: BaseException) -> StoreUnreachable:
    return StoreUnreachable(f"the database {without_password(address)!r} cannot be reached: {problem}")
