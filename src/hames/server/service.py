"""What every endpoint needs: the engine, the fan-out to clients, uploads, metrics, tokens."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from hames.core.engine import Engine
from hames.domain.commands import CreateThread, ListThreads, ReadThread, ThreadPage
from hames.domain.ids import ThreadId
from hames.domain.policy import ApprovalPolicy
from hames.domain.state import ThreadState
from hames.domain.value import Value
from hames.observe.metrics import Metrics
from hames.ports.server_state import ServerState
from hames.protocols.session import Session
from hames.protocols.sync.encoder import SyncEncoder
from hames.protocols.sync.pages import GitChanges, SandboxReport
from hames.protocols.sync.view import Offer
from hames.server.fanout import Fanout
from hames.server.guard.gate import Gate
from hames.server.guard.token import Keyring
from hames.server.http.uploads import Uploads
from hames.stdio.principals import Principal

PAGE = 100


async def _no_report() -> SandboxReport:
    return SandboxReport(ok=True, message="")


async def _no_git(_cwd: str) -> GitChanges:
    return GitChanges(problem="this server has no git diff")


async def _no_notice() -> str:
    return ""


class Extras(Value):
    """What the rest of the program gives the server beside the engine."""

    data_dir: Path
    """Where threads are kept: the unix socket lies there."""
    uploads_dir: Path
    version: str
    tokens_dir: Path | None = None
    """Where named tokens are kept; None: there are none."""
    shared: ServerState | None = None
    """Named tokens, sign-in links and uploads of all servers of a shared store, instead of these directories."""
    sessions: Mapping[str, Callable[[], Session]] = {}
    """By the name of their path and of their first line on the unix socket."""
    page: Path | None = None
    """Where the built page lies."""
    demo_model: str = ""
    page_policy: ApprovalPolicy | None = None
    """The approval policy of threads that the page starts; None: the engine's own."""
    sandbox: Callable[[], Awaitable[SandboxReport]] = _no_report
    api_policy: ApprovalPolicy | None = None
    """The approval policy of threads that are started over `/v1` or `/agui`; None: the server's own."""
    notice: Callable[[], Awaitable[str]] = _no_notice
    """A sentence for whoever opens the page: about threads that are missing and can be restored."""
    git_changes: Callable[[str], Awaitable[GitChanges]] = _no_git
    """What is not committed in a directory."""


@dataclass
class Service:
    engine: Engine
    offer: Offer
    sync_encoder: Callable[[], SyncEncoder]
    fanout: Fanout
    gate: Gate
    keyring: Keyring | None
    uploads: Uploads
    metrics: Metrics
    extras: Extras
    addresses: Callable[[], tuple[str, ...]] = tuple
    """Where other devices may reach this server, as URLs."""
    _creating: anyio.Lock = field(default_factory=anyio.Lock)

    async def state(self, thread_id: ThreadId) -> ThreadState:
        state = await self.engine.execute(ReadThread(thread_id=thread_id))
        assert isinstance(state, ThreadState)
        return state

    async def newest_thread(self) -> ThreadId | None:
        """The newest that this user has written; where there is none, the newest of all.

        A thread that came with a repository can say that it is newer than any other.
        """
        first, cursor = None, None
        while True:
            page = await self.engine.execute(ListThreads(limit=PAGE, cursor=cursor))
            assert isinstance(page, ThreadPage)
            for thread in page.threads:
                if not thread.foreign:
                    return thread.id
                first = first or thread.id
            if (cursor := page.next_cursor) is None:
                return first

    async def choose_thread(self, named: str | None, principal: Principal) -> ThreadId:
        """The thread a client means: the one it names, or the newest, or a new one where there is none.

        Raises `NotPermitted` for somebody who may not make one.
        """
        if named:
            return ThreadId(named)
        async with self._creating:
            if (found := await self.newest_thread()) is not None:
                return found
            created = await principal.execute(self.engine, CreateThread())
            assert isinstance(created, ThreadState)
            return created.id
