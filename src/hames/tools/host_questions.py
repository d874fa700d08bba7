"""Passes on what a sandbox asks about hosts, from its own thread to the event loop that runs the tool."""

from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from hames.domain.network import HostPort
from hames.domain.policy import SandboxPolicy, WorkspaceWrite
from hames.ports import AskHost, AskSandboxHost

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal


class HostQuestions:
    """Open while a command runs. `ask` is what the sandbox is given: None where it has nothing to ask.

    Whatever is still being asked when the command ends is withdrawn.
    """

    def __init__(self, ask: AskHost | None, policy: SandboxPolicy, *, command: str, cwd: str) -> None:
        asks = False
        if isinstance(policy, WorkspaceWrite) and policy.hosts is not None:
            asks = not policy.network_access or bool(policy.hosts.ask)
        self._ask = partial(ask, command, cwd) if ask is not None and asks else None
        self._portal: BlockingPortal | None = None
        self.ask: AskSandboxHost | None = None

    async def __aenter__(self) -> "HostQuestions":
        if (ask := self._ask) is not None:
            from anyio.from_thread import BlockingPortal

            portal = self._portal = await BlockingPortal().__aenter__()

            async def answer(to: HostPort) -> str:
                return await ask(to)

            self.ask = partial(portal.call, answer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Without the error: a task group would wrap it, and the engine looks at its type.
        if self._portal is not None:
            await self._portal.stop(cancel_remaining=True)
            await self._portal.__aexit__(None, None, None)
