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

from hames.codecs.jsonrpc import INTERNAL_ERROR, Notification, Peer, Refusal, Request, Response
from hames.codecs.lines import Line, LineDecoder
from hames.core.broadcast import Watcher
from hames.core.engine import Engine
from hames.domain.commands import Command
from hames.domain.errors import HarnessError
from hames.domain.ids import ThreadId
from hames.domain.state import Change, ThreadState
from hames.domain.value import Value
from hames.protocols.dialect import Ask, Dialect, Follow, Local, Notify, Outcome, Outgoing, Settled, Unfollow

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
        self._followers: dict[ThreadId, Watcher] = {}
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
        for watcher in self._followers.values():
            watcher.close()
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
                    self._start(state.id, done.watcher)
                case "now":
                    pass
                case "start" if state is not None:
                    watcher = await self._engine.follow(state.id, replay=True)
                    self._tell(watcher, await watcher.next())  # at once: its first record is there
                    self._start(state.id, watcher)
                case "history" if state is not None and self._follows(state.id):
                    return  # it goes on hearing each thing once, whatever it reads in between
                case "outcome" if state is not None and self._follows(state.id):
                    pass
                case "outcome" if isinstance(outcome, ThreadState):
                    self._start(outcome.id, await self._engine.follow(outcome.id, since=outcome))
                case "history" if last is not None:
                    self._start(last.after.id, await self._engine.follow(last.after.id, since=last.after))
                case _:
                    return
        except HarnessError as error:  # another process writes it, or it is gone: it was read, and that is all
            log.info("thread.not_followed", extra={"why": str(error)})
        if state is not None:
            self._outbox.write(self._encoded(self._dialect.greet(done.command, state, done.history)))

    def _follows(self, thread_id: ThreadId) -> bool:
        watcher = self._followers.get(thread_id)
        return watcher is not None and not watcher.closed

    def _start(self, thread_id: ThreadId, watcher: Watcher) -> None:
        if there := self._followers.get(thread_id):
            there.close()
        self._followers[thread_id] = watcher
        self._tasks.start_soon(self._tell_changes, thread_id, watcher)

    def _unfollow(self, thread_id: ThreadId) -> None:
        if watcher := self._followers.pop(thread_id, None):
            watcher.close()

    async def _tell_changes(self, thread_id: ThreadId, watcher: Watcher) -> None:
        while changes := await watcher.next():
            await self._outbox.room()
            async with self._speaking:
                if self._followers.get(thread_id) is not watcher:
                    return
                self._tell(watcher, changes)
        if self._followers.get(thread_id) is not watcher:
            return
        del self._followers[thread_id]
        if watcher.cut_off:
            await self._catch_up(thread_id, watcher)

    async def _catch_up(self, thread_id: ThreadId, watcher: Watcher) -> None:
        log.warning("client.slow", extra={"thread_id": thread_id, "why": watcher.cut_off})
        await self._outbox.room()
        async with self._speaking:
            if thread_id in self._followers:
                return
            try:
                resumed = await self._engine.follow(thread_id, since=watcher.state)
            except HarnessError as error:
                log.info("thread.not_followed", extra={"why": str(error)})
                return
            self._start(thread_id, resumed)

    def _tell(self, watcher: Watcher, changes: list[Change]) -> None:
        self._outbox.write(b"".join(map(self._told, changes)))
        watcher.state = changes[-1].after

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
                return b"" if self._peer.is_asking(approval_id) else self._peer.ask(method, params, approval_id)
            case Settled(approval_id=approval_id):
                self._peer.withdraw(approval_id)
                return b""
            case _ as never:
                assert_never(never)

    async def _decide(self, response: Response) -> None:
        try:
            for command in self._dialect.decide(response):
                await self._engine.execute(command)
        except HarnessError as error:  # somebody else was faster, or the turn is over
            log.info("approval.late", extra={"approval_id": response.request_id, "why": str(error)})
        except Exception:
            log.exception("approval.crashed", extra={"approval_id": response.request_id})


class _Done(Value):
    """A command that was carried out, and what is to be followed because of it."""

    command: Command
    follow: Follow
    outcome: Outcome
    history: Sequence[Change]
    watcher: Watcher | None


def _thread_id(command: Command) -> ThreadId:
    """Of a command that is about one thread."""
    thread_id = getattr(command, "thread_id", None)
    if thread_id is None:
        raise TypeError(f"{type(command).__name__} names no thread")
    return thread_id
