"""A connection: one client, one dialect, one engine. Bytes come in as chunks and leave through an outbox.

* Requests are carried out one after the other, and each is answered before anything it caused is told:
  while one is under way, what happens on followed threads waits.
* A client that does not read is not waited for. While its outbox is full we take no more changes, until the
  engine cuts us off; when there is room again the thread is followed from where the client left it: late, and whole.
* Clients hear how their turns ended even when the engine closes: followers run in the caller's task
  group, which outlives the engine, and end when it closes their threads.
"""

import logging
from collections.abc import AsyncIterable, Sequence
from typing import Protocol, assert_never

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.commands import Command
from hames.domain.errors import HarnessError
from hames.domain.events import ItemDelta, Record
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.state import Change, ThreadState
from hames.domain.value import Value
from hames.protocols.dialect import Ask, Dialect, Follow, Local, Notify, Outcome, Outgoing, Settled, Unfollow
from hames.protocols.framing import Line, LineDecoder
from hames.protocols.jsonrpc import INTERNAL_ERROR, Notification, Peer, Refusal, Request, Response

log = logging.getLogger(__name__)


class Outbox(Protocol):
    """Where lines leave. `write` never waits and never fails; whoever can wait asks for `room` first."""

    def write(self, data: bytes) -> None: ...

    async def room(self) -> None:
        """Returns when what is still to be sent is below the limit, or nobody will ever read it."""
        ...


class Connection:
    def __init__(self, engine: Engine, dialect: Dialect, outbox: Outbox, tasks: TaskGroup) -> None:
        self._engine = engine
        self._dialect = dialect
        self._outbox = outbox
        self._tasks = tasks
        self._peer = Peer(dialect.rules, dialect.methods)
        self._followers: dict[ThreadId, _Follower] = {}
        self._speaking = anyio.Lock(fast_acquire=True)

    async def serve(self, chunks: AsyncIterable[bytes], *, answered: bytes = b"") -> None:
        """Returns when no more chunks come and every request was answered.

        `answered` is a line that came before them and has its answer: we only take note of it.
        """
        for message in self._peer.receive(answered) if answered else []:
            if isinstance(message, Request):
                await self._answer(message, [])
        decoder = LineDecoder()
        async for chunk in chunks:
            for line in decoder.feed(chunk):
                await self._receive(line)
        for line in decoder.end():
            await self._receive(line)

    def close(self) -> None:
        """Nobody listens any more."""
        for follower in self._followers.values():
            follower.watcher.close()
        self._followers.clear()

    async def _receive(self, line: Line) -> None:
        await self._outbox.room()
        async with self._speaking:
            done: list[_Done] = []
            for message in self._peer.receive(line):
                match message:
                    case Request():
                        self._outbox.write(await self._answer(message, done))
                    case Refusal(line=refusal):
                        self._outbox.write(refusal)
                    case Response():
                        await self._decide(message)
                    case Notification():
                        pass  # nothing is asked for in this way
                    case _ as never:
                        assert_never(never)
            for what in done:  # only now: the members of a batch are answered together
                await self._follow(what)

    async def _answer(self, request: Request, done: "list[_Done]") -> bytes:
        try:
            call = self._dialect.decode(request.method, request.params)
            if isinstance(call, Unfollow):
                self._unfollow(call.thread_id)
            if isinstance(call, Local):
                return self._peer.result(request, self._dialect.local(call, self._engine.models))
            what = await self._carry_out(call)
            line = self._peer.result(request, self._dialect.answer(call, what.outcome, what.history))
        except HarnessError as error:
            return self._peer.error(request, self._dialect.code(error), str(error))
        except Exception:
            log.exception("request.crashed", extra={"method": request.method})
            return self._peer.error(request, INTERNAL_ERROR, "internal error")
        done.append(what)
        return line

    async def _carry_out(self, command: Command) -> "_Done":
        follow = self._dialect.follow(command)
        watcher = None
        if follow == "now" and (thread_id := _thread_id(command)) not in self._followers:
            watcher = await self._engine.watch(thread_id)  # before it happens, or its first events were missed
        history: Sequence[Change] = ()
        try:
            outcome = await self._engine.execute(command)
            if follow == "history":
                history = await self._engine.history(_thread_id(command))
        except BaseException:
            if watcher is not None:
                watcher.close()
            raise
        return _Done(command=command, follow=follow, outcome=outcome, history=history, watcher=watcher)

    async def _follow(self, done: "_Done") -> None:
        """Begin to tell what the command's thread does, as the dialect wants it."""
        outcome, last = done.outcome, done.history[-1] if done.history else None
        state = last.after if last else outcome if isinstance(outcome, ThreadState) else None
        try:
            match done.follow:
                case "no":
                    return
                case "now" if done.watcher is not None:
                    state = done.watcher.state
                    self._start(state.id, _Follower(done.watcher))
                case "now":
                    pass
                case "start" if state is not None:
                    follower = _Follower(await self._engine.watch(state.id, after=0))
                    self._tell(follower, await follower.watcher.next())  # at once: its first record is there
                    self._start(state.id, follower)
                case "history" if state is not None and self._follows(state.id):
                    return  # it goes on hearing each thing once, whatever it reads in between
                case "outcome" if state is not None and self._follows(state.id):
                    pass
                case "outcome" if isinstance(outcome, ThreadState):
                    self._start(outcome.id, await self._beyond(outcome))
                case "history" if last is not None:
                    self._start(last.record.thread_id, await self._resumed(last))
                case _:
                    return
        except HarnessError as error:  # another process writes it, or it is gone: it was read, and that is all
            log.info("thread.not_followed", extra={"why": str(error)})
        if state is not None:
            self._outbox.write(self._encoded(self._dialect.greet(done.command, state, done.history)))

    def _follows(self, thread_id: ThreadId) -> bool:
        follower = self._followers.get(thread_id)
        return follower is not None and not follower.watcher.closed

    def _start(self, thread_id: ThreadId, follower: "_Follower") -> None:
        if there := self._followers.get(thread_id):
            there.watcher.close()
        self._followers[thread_id] = follower
        self._tasks.start_soon(self._tell_changes, thread_id, follower)

    async def _resumed(self, last: Change) -> "_Follower":
        """From behind the last change the client was told."""
        # The deltas of one bundle share its number, and the client may have heard only some of them.
        half = isinstance(last.record.event, ItemDelta)
        watcher = await self._engine.watch(last.record.thread_id, after=last.record.seq - half)
        return _Follower(watcher, heard=last)

    async def _beyond(self, state: ThreadState) -> "_Follower":
        """From behind this state, which is nearly always the present one: then nothing is read again."""
        watcher = await self._engine.watch(state.id)
        if watcher.state is state:
            return _Follower(watcher)
        watcher.close()
        half = ItemDelta(turn_id=TurnId(""), item_id=ItemId(""), stream="text", text="")
        told = Record(seq=state.seq, at_ms=state.updated_at_ms, thread_id=state.id, event=half)
        return await self._resumed(Change(record=told, before=state, after=state))

    def _unfollow(self, thread_id: ThreadId) -> None:
        if follower := self._followers.pop(thread_id, None):
            follower.watcher.close()

    async def _tell_changes(self, thread_id: ThreadId, follower: "_Follower") -> None:
        while changes := await follower.watcher.next():
            await self._outbox.room()
            async with self._speaking:
                if self._followers.get(thread_id) is not follower:
                    return
                self._tell(follower, changes)
        if self._followers.get(thread_id) is not follower:
            return
        del self._followers[thread_id]
        if follower.watcher.cut_off:
            await self._catch_up(thread_id, follower)

    async def _catch_up(self, thread_id: ThreadId, follower: "_Follower") -> None:
        log.warning("client.slow", extra={"thread_id": thread_id, "why": follower.watcher.cut_off})
        await self._outbox.room()
        async with self._speaking:
            if thread_id in self._followers:
                return
            try:
                if follower.last is not None:
                    resumed = await self._resumed(follower.last)
                else:
                    resumed = _Follower(await self._engine.watch(thread_id, after=follower.watcher.state.seq))
            except HarnessError as error:
                log.info("thread.not_followed", extra={"why": str(error)})
                return
            self._start(thread_id, resumed)

    def _tell(self, follower: "_Follower", changes: list[Change]) -> None:
        self._outbox.write(b"".join(map(self._told, follower.unheard(changes))))
        follower.last = changes[-1]

    def _told(self, change: Change) -> bytes:
        try:
            return self._encoded(self._dialect.project(change))
        except Exception:  # a bug, and the client's other threads are not to blame for it
            log.exception("change.untold", extra={"thread_id": change.record.thread_id, "seq": change.record.seq})
            return b""

    def _encoded(self, said: Sequence[Outgoing]) -> bytes:
        return b"".join([self._line(what) for what in said])

    def _line(self, what: Outgoing) -> bytes:
        match what:
            case Notify(method=method, params=params):
                return self._peer.notification(method, params)
            case Ask(method=method, params=params, approval_id=approval_id):
                return b"" if self._peer.asks(approval_id) else self._peer.ask(method, params, approval_id)
            case Settled(approval_id=approval_id):
                self._peer.settle(approval_id)
                return b""
            case _ as never:
                assert_never(never)

    async def _decide(self, response: Response) -> None:
        try:
            for command in self._dialect.decide(response):
                await self._engine.execute(command)
        except HarnessError as error:  # somebody else was faster, or the turn is over
            log.info("approval.late", extra={"approval_id": response.about, "why": str(error)})
        except Exception:
            log.exception("approval.crashed", extra={"approval_id": response.about})


class _Done(Value):
    """A command that was carried out, and what is to be followed because of it."""

    command: Command
    follow: Follow
    outcome: Outcome
    history: Sequence[Change]
    watcher: Watcher | None


class _Follower:
    """A followed thread. `heard` is where an earlier telling ended, perhaps in the middle of a bundle."""

    def __init__(self, watcher: Watcher, *, heard: Change | None = None) -> None:
        self.watcher = watcher
        self.last = heard
        self._heard = heard

    def unheard(self, changes: list[Change]) -> list[Change]:
        """Without what the client was told before, to the letter."""
        if self._heard is None:
            return changes
        heard, seq = self._heard, self._heard.record.seq
        rest = [new for change in changes if (new := change if change.record.seq > seq else _behind(heard, change))]
        if changes[-1].record.seq > seq:
            self._heard = None
        return rest


def _behind(heard: Change, change: Change) -> Change | None:
    """What of a change lies behind the one that was heard, when both may be pieces of one bundle."""
    event = change.record.event
    if not isinstance(event, ItemDelta):
        return None
    told = _streamed(heard.after, event) - _streamed(change.before, event)
    if told <= 0:
        return change
    if told >= len(event.text):
        return None
    record = replace(change.record, event=replace(event, text=event.text[told:]))
    return Change(record=record, before=heard.after, after=change.after)


def _streamed(state: ThreadState, delta: ItemDelta) -> int:
    return len(getattr(state.item(delta.item_id), delta.stream, ""))


def _thread_id(command: Command) -> ThreadId:
    """Of a command that is about one thread."""
    thread_id = getattr(command, "thread_id", None)
    if thread_id is None:
        raise TypeError(f"{type(command).__name__} names no thread")
    return thread_id
