"""Fan-out of one thread to many clients: watched once, encoded once, sent to every client that follows it.

After something was told the hub rests for a frame's time, and what happens meanwhile is joined by the watcher: the
first word leaves at once, and a flood becomes a few messages. Nobody here waits for a client. One that
does not read costs what its outbox may hold; then sync starts it over with a whole state, and SSE lets it come back.
"""

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup, TaskStatus

from hames.codecs.jsontext import encode
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.errors import HarnessError
from hames.domain.ids import ThreadId
from hames.domain.state import Change, ThreadState
from hames.ports import Clock
from hames.protocols.sse.stream import Block, block
from hames.protocols.sync.messages import AppendText, DeltaMessage, Operation
from hames.protocols.sync.outbound import Projector, snapshot
from hames.protocols.sync.view import Offer
from hames.server.clients import SseClient, SyncClient
from hames.server.websocket.protocol import TextFrame, Wire
from hames.server.websocket.socket import RESTARTS

log = logging.getLogger(__name__)

FRAME_SECONDS = 0.025
TICK_SECONDS = 1.0


class Hub:
    """What the clients of one thread have been told, and the next thing they will be."""

    def __init__(self, engine: Engine, offer: Offer, thread_id: ThreadId) -> None:
        self.thread_id = thread_id
        self.users = 0
        self.told = 0
        """Frames, times the clients that got them."""
        self._engine = engine
        self._clock = engine.clock
        self._offer = offer
        self._watcher: Watcher | None = None
        self._state: ThreadState | None = None
        self._projector = Projector(offer)
        self._sync: set[SyncClient] = set()
        self._sse: set[SseClient] = set()
        self._snapshot: TextFrame | None = None
        self._blocks: list[Block] | None = None
        self._fresh: list[Block] | None = None
        self._reading = anyio.Lock()
        self._closing = False

    @property
    def state(self) -> ThreadState:
        """The thread as its clients know it."""
        assert self._state is not None
        return self._state

    @property
    def closed(self) -> bool:
        return self._closing

    @property
    def clients(self) -> tuple[int, int]:
        return len(self._sync), len(self._sse)

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Raises `HarnessError` if the thread cannot be watched."""
        watcher = self._watcher = await self._engine.watch(self.thread_id, answers=False)
        self._state = watcher.state
        task_status.started()
        why = "the server is restarting"
        try:
            while not self._closing:
                changes = await watcher.next()
                if changes:
                    self._tell(changes)
                    await self._clock.sleep(FRAME_SECONDS)
                elif watcher.cut_off and not self._closing:
                    watcher = self._watcher = await self._engine.watch(self.thread_id, answers=False)
                    self._state = watcher.state
                    self._start_over()
                else:
                    break
        except HarnessError as error:
            why = str(error)
        except Exception:  # a bug, and the other threads are not to blame for it
            log.exception("hub.crashed", extra={"thread_id": self.thread_id})
            why = "internal error"
        finally:
            self.close(RESTARTS, why)

    def close(self, code: int, why: str) -> None:
        """Tells everybody that this is the end."""
        self._closing = True
        if self._watcher is not None:
            self._watcher.close()
        for client in list(self._sync):
            client.drop(code, why)
        for client in list(self._sse):
            client.end(why)

    def tick(self, now: float) -> None:
        beat = TextFrame(b'{"type":"delta","operations":[],"rev":%d}' % self.state.seq)
        for client in list(self._sync):
            client.tick(now, beat)
        for client in list(self._sse):
            client.tick(now)

    def count_answers(self) -> None:
        """Whether anybody here could decide an approval. Who knows only the specification cannot, and must not
        keep a question open for ever."""
        if self._watcher is not None:
            self._watcher.answers = any(client.answers for client in (*self._sync, *self._sse))

    # -- sync

    def attach_sync(self, wire: Wire, *, answers: bool = False) -> SyncClient:
        """The snapshot leaves, and everything after it follows: no await in between."""
        if not self._sync:
            self._projector = Projector(self._offer)
        client = SyncClient(wire, self.snapshot, self._clock.monotonic())
        client.answers = answers
        self._sync.add(client)
        self.count_answers()
        return client

    def detach_sync(self, client: SyncClient) -> None:
        self._sync.discard(client)
        self.count_answers()

    def snapshot(self) -> TextFrame:
        if self._snapshot is None:
            self._snapshot = TextFrame(encode(snapshot(self.state, self._offer)))
        return self._snapshot

    # -- SSE

    def attach_sse(self, *, answers: bool = False) -> SseClient:
        client = SseClient(self.state.seq, self._clock.monotonic())
        client.answers = answers
        self._sse.add(client)
        self.count_answers()
        return client

    def detach_sse(self, client: SseClient) -> None:
        self._sse.discard(client)
        self.count_answers()

    async def past(self) -> list[Block]:
        """Every event of the thread so far. Read once, then kept up to date while anybody looks."""
        async with self._reading:
            if self._blocks is None:
                until, self._fresh = self.state.seq, []
                history = await self._engine.history(self.thread_id)
                found = (block(change) for change in history if change.record.seq <= until)
                self._blocks = [one for one in found if one is not None] + self._fresh
                self._fresh = None
            return self._blocks

    # -- telling

    def _tell(self, changes: list[Change]) -> None:
        now = self._clock.monotonic()
        self._state, self._snapshot = changes[-1].after, None
        if self._sync:
            self._tell_sync(changes, now)
        if self._sse or self._blocks is not None or self._fresh is not None:
            self._tell_sse(changes)

    def _tell_sync(self, changes: list[Change], now: float) -> None:
        try:
            operations = [operation for change in changes for operation in self._projector.project(change)]
        except Exception:  # a bug; a whole state heals it
            log.exception("sync.untold", extra={"thread_id": self.thread_id})
            self._start_over()
            return
        if not operations:
            return
        delta = DeltaMessage(operations=tuple(_joined(operations)), rev=self.state.seq)
        frame = TextFrame(encode(delta))
        for client in self._sync:
            client.offer(frame, now)
        self.told += len(self._sync)

    def _tell_sse(self, changes: list[Change]) -> None:
        blocks = [one for change in changes if (one := block(change)) is not None]
        for known in (self._blocks, self._fresh):
            if known is not None:
                known.extend(blocks)
        if blocks:
            data = b"".join(line for one in blocks for line in one.lines)
            for client in self._sse:
                client.offer(data)
            self.told += len(self._sse)

    def _start_over(self) -> None:
        """We lost track: sync clients get a whole state, SSE clients come back to where they were."""
        self.count_answers()
        self._projector = Projector(self._offer)
        self._snapshot = self._blocks = None
        for client in self._sync:
            client.start_over()
        for client in list(self._sse):
            client.end("too many changes at once; reconnect")


def _joined(operations: list[Operation]) -> Iterator[Operation]:
    """Neighbours that append to the same text, as one."""
    path: tuple[str, ...] | None = None
    pieces: list[str] = []
    for operation in operations:
        if isinstance(operation, AppendText) and operation.path == path:
            pieces.append(operation.value)
            continue
        if path is not None:
            yield AppendText(path=path, value="".join(pieces))
            path = None
        if isinstance(operation, AppendText):
            path, pieces = operation.path, [operation.value]
        else:
            yield operation
    if path is not None:
        yield AppendText(path=path, value="".join(pieces))


class Hubs:
    """The threads somebody looks at."""

    def __init__(self, engine: Engine, offer: Offer, tasks: TaskGroup) -> None:
        self._engine = engine
        self._offer = offer
        self._tasks = tasks
        self._hubs: dict[ThreadId, Hub] = {}
        self._opening = anyio.Lock()
        self._closed = False
        self._told_before = 0

    @asynccontextmanager
    async def looking(self, thread_id: ThreadId) -> AsyncGenerator[Hub]:
        """Raises `HarnessError` when there is nothing to look at."""
        hub = await self._open(thread_id)
        hub.users += 1
        try:
            yield hub
        finally:
            hub.users -= 1
            if hub.users == 0:
                hub.close(RESTARTS, "no client is left")
                self._forget(hub)

    async def _open(self, thread_id: ThreadId) -> Hub:
        if (hub := self._hubs.get(thread_id)) and not hub.closed:
            return hub
        async with self._opening:
            if (hub := self._hubs.get(thread_id)) and not hub.closed:
                return hub
            if self._closed:
                raise HarnessError("the server is stopping")
            hub = Hub(self._engine, self._offer, thread_id)
            await self._tasks.start(hub.run)
            self._hubs[thread_id] = hub
            return hub

    def _forget(self, hub: Hub) -> None:
        self._told_before += hub.told
        hub.told = 0
        if self._hubs.get(hub.thread_id) is hub:
            del self._hubs[hub.thread_id]

    async def tick(self, clock: Clock) -> None:
        """Heartbeats, and the end of patience."""
        while not self._closed:
            await clock.sleep(TICK_SECONDS)
            now = clock.monotonic()
            for hub in list(self._hubs.values()):
                try:
                    hub.tick(now)
                except Exception:
                    log.exception("tick.crashed", extra={"thread_id": hub.thread_id})

    def close(self, why: str) -> None:
        self._closed = True
        for hub in list(self._hubs.values()):
            hub.close(RESTARTS, why)

    @property
    def count(self) -> int:
        return len(self._hubs)

    @property
    def clients(self) -> tuple[int, int]:
        """Of sync, of SSE."""
        pairs = [hub.clients for hub in self._hubs.values()]
        return sum(sync for sync, _ in pairs), sum(sse for _, sse in pairs)

    @property
    def told(self) -> int:
        return self._told_before + sum(hub.told for hub in self._hubs.values())
