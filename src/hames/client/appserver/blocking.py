"""`AppServerClient` for code without an event loop. Thin: a loop in a thread, and the same methods without `await`.

with SyncAppServerClient(["hames", "app-server"], on_approval=ask) as client:
    thread = client.start_thread(cwd="/project").thread
    for event in client.stream(thread.id, "Run the tests"):
        ...
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import ParamSpec, Self, TypeVar, Unpack

from anyio import to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from hames.client.appserver.client import AppServerClient, ClientName, Inputs, ThreadOptions
from hames.client.appserver.events import AgentEvent, ApprovalAsked, Closed, TurnCompleted
from hames.client.appserver.link import ConnectionClosed, Events, Filled
from hames.protocols.flint import messages as m

P = ParamSpec("P")
T = TypeVar("T")

Decides = Callable[[ApprovalAsked], m.ApprovalWord | Filled]


class SyncAppServerClient:
    """Starts the agent on entering, ends it on leaving. What has no method here: `call(client.aio.method, …)`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        on_approval: Decides | None = None,
        **who: Unpack[ClientName],
    ) -> None:
        """`on_approval` runs in a thread of its own; without one every question is declined."""
        self._on_approval = on_approval
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._spawn = partial(AppServerClient.spawn, command, cwd=cwd, env=env, on_approval=self._decide, **who)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            opened: AbstractContextManager[AppServerClient] = self._portal.wrap_async_context_manager(self._spawn())
            self.aio = stack.enter_context(opened)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def call(self, method: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Any method of `aio`, waited for."""
        if self._portal is None:
            raise ConnectionClosed("not entered yet")
        return self._portal.call(partial(method, *args, **kwargs))

    def start_thread(self, **options: Unpack[ThreadOptions]) -> m.ThreadOpened:
        return self.call(self.aio.start_thread, **options)

    def resume_thread(self, thread_id: str) -> m.ThreadOpened:
        return self.call(self.aio.resume_thread, thread_id)

    def list_threads(self, *, limit: int | None = None, archived: bool = False) -> list[m.Thread]:
        return self.call(self.aio.list_threads, limit=limit, archived=archived).data

    def run(self, thread_id: str, inputs: Inputs) -> m.Turn:
        """A whole turn."""
        return self.call(self.aio.run, thread_id, inputs)

    def stream(self, thread_id: str, inputs: Inputs) -> Iterator[AgentEvent]:
        """A turn's events, up to and with its completion."""
        events = self.call(self._events, thread_id)
        try:
            turn = self.call(self.aio.start_turn, thread_id, inputs)
            while True:
                event = self.call(events.__anext__)
                yield event
                if isinstance(event, Closed) or (isinstance(event, TurnCompleted) and event.turn.id == turn.id):
                    return
        finally:
            self.call(self._forget, events.close)

    def interrupt_turn(self, thread_id: str, turn_id: str) -> None:
        self.call(self.aio.interrupt_turn, thread_id, turn_id)

    def models(self) -> list[m.Model]:
        return self.call(self.aio.models)

    def config_options(self, thread_id: str | None = None) -> list[m.ConfigOption]:
        return self.call(self.aio.config_options, thread_id)

    def set_config(self, option_id: str, value: str) -> list[m.ConfigOption]:
        return self.call(self.aio.set_config, option_id, value)

    def read_config(self, thread_id: str | None = None) -> m.ConfigReadResult:
        return self.call(self.aio.read_config, thread_id)

    async def _decide(self, question: ApprovalAsked) -> m.ApprovalWord | Filled:
        if self._on_approval is None:
            return "decline"
        return await to_thread.run_sync(self._on_approval, question, abandon_on_cancel=True)

    async def _events(self, thread_id: str) -> Events:
        return self.aio.events(thread_id)

    async def _forget(self, close: Callable[[], None]) -> None:
        close()
