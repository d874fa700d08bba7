"""Fan-out of one thread to many clients: watched once, encoded once per format, sent to every client that follows it.

It knows no protocol: a session asks to follow with an encoder (`protocols/broadcast.py`), and clients that name the
same encoder share it. Nobody here waits for a client. One that does not read costs what its outbox may hold.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import anyio
from anyio.abc import TaskGroup, TaskStatus

from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.errors import HarnessError
from hames.domain.ids import ThreadId
from hames.domain.state import Change, ThreadState
from hames.protocols.broadcast import Encoder, ListEncoder
from hames.protocols.session import Action, Close, Follow, FollowList, Session, Unfollow
from hames.server.slow_clients import Payload, Subscriber, Writer
from hames.stdio.connection import Connection
from hames.stdio.message_order import MessageWork
from hames.stdio.principals import Principal

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
MakeEncoder = Callable[[], Encoder]
MakeListEncoder = Callable[[], ListEncoder]


class Channel:
    """One thread in one format: what its followers have been sent, and the next thing they will be."""

    def __init__(self, engine: Engine, thread_id: ThreadId, make_encoder: MakeEncoder) -> None:
        self.thread_id = thread_id
        self.followers: dict[Subscriber, FollowerConnection] = {}
        self.users = 0
        """Followers, and those that are about to be."""
        self.sent = 0
        """Messages, times the clients that got them."""
        self.closed = False
        self._engine = engine
        self._clock = engine.clock
        self._make_encoder = make_encoder
        self._encoder = make_encoder()
        self._watcher: Watcher | None = None
        self._state: ThreadState | None = None
        self._first = Payload(b"")
        self._reading = anyio.Lock()
        self._since_reading: list[Change] | None = None
        """Changes that were told while the history is read."""

    @property
    def state(self) -> ThreadState:
        """The thread as its followers know it."""
        assert self._state is not None
        return self._state

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Raises `HarnessError` if the thread cannot be watched."""
        watcher = await self._watch()
        task_status.started()
        why = "the server is restarting"
        try:
            while not self.closed:
                changes = await watcher.next()
                if changes:
                    for part in _apart(changes):
                        self._tell(part)
                    await self._clock.sleep(self._encoder.rules.frame_s)
                elif watcher.cut_off and not self.closed:
                    watcher = await self._watch(again=True)
                    self.count_answers()
                    self._start_over()
                else:
                    break
        except HarnessError as error:
            why = str(error)
        except Exception:  # a bug, and the other threads are not to blame for it
            log.exception("channel.crashed", extra={"thread_id": self.thread_id})
            why = "internal error"
        finally:
            self.close(why)

    async def _watch(self, *, again: bool = False) -> Watcher:
        self._watcher = await self._engine.watch(self.thread_id, answers=False, again=again)
        self._state = self._watcher.state
        return self._watcher

    def close(self, why: str) -> None:
        self.closed = True
        if self._watcher is not None:
            self._watcher.close()
        for connection in list(self.followers.values()):
            connection.lose_channel(self.thread_id, why)

    def tick(self, now: float) -> None:
        heartbeat = Payload(self._encoder.heartbeat(self.state))
        for follower in list(self.followers):
            follower.tick(now, heartbeat)

    def count_answers(self) -> None:
        """Whether any follower could decide an approval. A question nobody can answer must not stay open for ever."""
        if self._watcher is not None:
            self._watcher.answers = any(follower.can_answer for follower in self.followers)

    # -- followers

    async def join(self, follower: Subscriber, connection: "FollowerConnection", position: object) -> None:
        """What the client missed is sent, and everything after it follows: no await in between."""
        while self._encoder.needs_history(position, self.state):
            await self._load_history()
        follower.rules = self._encoder.rules
        self.begin(follower, position)
        self.followers[follower] = connection
        if follower.can_answer:
            self.count_answers()

    def begin(self, follower: Subscriber, position: object = None) -> None:
        data = self._encoder.begin(self.state, position)
        if self._first.data is not data:
            self._first = Payload(data)
        follower.offer(self._first, self._clock.monotonic())

    def leave(self, follower: Subscriber) -> None:
        self.followers.pop(follower, None)
        if follower.can_answer:
            self.count_answers()

    async def _load_history(self) -> None:
        """Read once, then kept up to date by the encoder."""
        async with self._reading:
            encoder, until = self._encoder, self.state.seq
            self._since_reading = []
            history = await self._engine.history(self.thread_id)
            encoder.load([*(change for change in history if change.record.seq <= until), *self._since_reading])
            self._since_reading = None

    # -- changes

    def _tell(self, changes: list[Change]) -> None:
        self._state = changes[-1].after
        if self._since_reading is not None:
            self._since_reading += changes
        try:
            data = self._encoder.encode(changes)
        except Exception:  # a bug; a new beginning heals it
            log.exception("change.not_encoded", extra={"thread_id": self.thread_id})
            self._start_over()
            return
        if data:
            payload, now = Payload(data), self._clock.monotonic()
            for follower in self.followers:
                follower.offer(payload, now)
            self.sent += len(self.followers)

    def _start_over(self) -> None:
        """Changes were missed: followers get a new beginning, or come back for it."""
        self._encoder = self._make_encoder()
        for follower, connection in list(self.followers.items()):
            if self._encoder.rules.when_behind == "restart":
                follower.start_over()
            else:
                connection.lose_channel(self.thread_id, "too many changes at once; reconnect")


def _apart(changes: list[Change]) -> Iterator[list[Change]]:
    """What is in no log is a message of its own: it changes no state, so it may have no place in those that do."""
    for _, part in groupby(changes, lambda change: change.is_passing):
        yield list(part)


class ListChannel:
    """The thread list in one format."""

    def __init__(self, engine: Engine, make_encoder: MakeListEncoder) -> None:
        self.followers: set[Subscriber] = set()
        self._clock = engine.clock
        self._encoder = make_encoder()
        self._wake = anyio.Event()

    def observe(self, change: Change) -> None:
        if self.followers and self._encoder.observe(change):
            self._wake.set()

    def begin(self, followers: Sequence[Subscriber]) -> None:
        payload, now = Payload(self._encoder.begin()), self._clock.monotonic()
        for follower in followers:
            follower.offer(payload, now)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            payload, now = Payload(self._encoder.encode()), self._clock.monotonic()
            for follower in list(self.followers):
                follower.offer(payload, now)
            await self._clock.sleep(self._encoder.frame_s)


class Fanout:
    """The threads that somebody follows."""

    def __init__(self, engine: Engine, tasks: TaskGroup) -> None:
        self._engine = engine
        self._tasks = tasks
        self._channels: dict[tuple[ThreadId, MakeEncoder], Channel] = {}
        self._lists: dict[MakeListEncoder, ListChannel] = {}
        self._opening = anyio.Lock(fast_acquire=True)
        self._closed = False
        self._sent_before = 0

    def connect(
        self, session: Session, writer: Writer, tasks: TaskGroup, principal: Principal | None = None
    ) -> "FollowerConnection":
        return FollowerConnection(self._engine, session, writer, tasks, self, principal=principal)

    async def open(self, thread_id: ThreadId, make_encoder: MakeEncoder) -> Channel:
        """The channel, counted as used: `release` it. Raises `HarnessError` when there is nothing to follow."""
        key = (thread_id, make_encoder)
        async with self._opening:
            channel = self._channels.get(key)
            if channel is None or channel.closed:
                if self._closed:
                    raise HarnessError("the server is stopping")
                channel = Channel(self._engine, thread_id, make_encoder)
                await self._tasks.start(channel.run)
                self._channels[key] = channel
            channel.users += 1
            return channel

    def release(self, channel: Channel) -> None:
        channel.users -= 1
        if not channel.users:
            channel.close("no client is left")
            self._sent_before += channel.sent
            self._channels = {key: one for key, one in self._channels.items() if one is not channel}

    def open_list(self, make_encoder: MakeListEncoder) -> ListChannel:
        if make_encoder not in self._lists:
            self._lists[make_encoder] = ListChannel(self._engine, make_encoder)
            self._tasks.start_soon(self._lists[make_encoder].run)
        return self._lists[make_encoder]

    def observe(self, change: Change) -> None:
        for channel in self._lists.values():
            channel.observe(change)

    def thread_deleted(self) -> None:
        """No change tells of it: followers of the list hear that they should look again."""
        self.list_changed()

    def list_changed(self) -> None:
        """By another process, or in a way that no change tells: followers of the list look again."""
        for channel in self._lists.values():
            channel.begin(list(channel.followers))

    def leave_lists(self, follower: Subscriber) -> None:
        for channel in self._lists.values():
            channel.followers.discard(follower)

    async def tick(self) -> None:
        """Heartbeats, and the end of patience."""
        while not self._closed:
            await self._engine.clock.sleep(TICK_SECONDS)
            now = self._engine.clock.monotonic()
            for channel in list(self._channels.values()):
                try:
                    channel.tick(now)
                except Exception:
                    log.exception("tick.crashed", extra={"thread_id": channel.thread_id})

    def close(self, why: str) -> None:
        self._closed = True
        for channel in list(self._channels.values()):
            channel.close(why)

    @property
    def thread_count(self) -> int:
        return len({thread_id for thread_id, _ in self._channels})

    def follower_count(self, make_encoder: MakeEncoder) -> int:
        return sum(len(channel.followers) for (_, made), channel in self._channels.items() if made is make_encoder)

    @property
    def sent(self) -> int:
        return self._sent_before + sum(channel.sent for channel in self._channels.values())


class FollowerConnection(Connection):
    """A connection whose session may follow broadcasts."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        writer: Writer,
        tasks: TaskGroup,
        fanout: Fanout,
        *,
        principal: Principal | None = None,
    ) -> None:
        self._subscriber = Subscriber(writer, engine.clock.monotonic())
        self._subscriber.restart = self._restart
        super().__init__(engine, session, self._subscriber, tasks, principal)
        self._fanout = fanout
        self._channels: dict[ThreadId, Channel] = {}

    async def _follow(self, action: Follow) -> Sequence[Action]:
        if action.encoder is None:
            return await super()._follow(action)
        self._subscriber.can_answer = action.can_answer and self._principal.can_answer
        channel = self._channels.get(action.thread_id)
        if channel is not None:
            channel.count_answers()
        else:
            channel = await self._fanout.open(action.thread_id, action.encoder)
            self._channels[action.thread_id] = channel
            await channel.join(self._subscriber, self, action.position)
        return self._session.followed(action, channel.state, (), self._now())

    def _follow_list(self, action: FollowList) -> Sequence[Action]:
        channel = self._fanout.open_list(action.encoder)
        channel.followers.add(self._subscriber)
        channel.begin([self._subscriber])
        return ()

    async def _run(self, actions: Sequence[Action], work: MessageWork) -> None:
        for action in actions:
            if isinstance(action, Unfollow):
                self._leave(action.thread_id)
        await super()._run(actions, work)

    def _close(self, action: Close) -> None:
        super()._close(action)
        self._subscriber.send_all()

    def _restart(self) -> None:
        for channel in self._channels.values():
            channel.begin(self._subscriber)
        self._session.restarted()
        self._flush()

    def lose_channel(self, thread_id: ThreadId, why: str) -> None:
        self._leave(thread_id)
        self._lose(thread_id, why)

    def _leave(self, thread_id: ThreadId) -> None:
        if channel := self._channels.pop(thread_id, None):
            channel.leave(self._subscriber)
            self._fanout.release(channel)

    def end(self, why: str) -> None:
        for thread_id in list(self._channels):
            self.lose_channel(thread_id, why)
        super().end(why)

    def close(self) -> None:
        for thread_id in list(self._channels):
            self._leave(thread_id)
        self._fanout.leave_lists(self._subscriber)
        super().close()
