"""The one driver of every session: carries out actions, follows threads, moves messages. It knows no protocol.

* Messages are read while a command runs, so a client can answer what the command asks of it.
* Messages are carried out in order. Reads, interrupts and answers wait only a moment for what came before them
  (`stdio/message_order.py`), unless that changes the same thread: a slow command does not silence the connection.
* While a message about a thread is carried out, this thread's changes wait: the answer comes before what it caused.
* A client that does not read is not waited for. While its outbox is full we read nothing from it and take no changes;
  the engine joins deltas meanwhile and then cuts us off. With room again the client is told what it missed.
* Clients hear how their turns ended even when the engine closes: changes are told by tasks of the principal's group,
  which outlives the engine.
"""

import logging
import math
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from hames.codecs.lines import Line, LineDecoder
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.commands import Command, ResolveApproval
from hames.domain.errors import HarnessError, InvalidCommand, StorageFailed
from hames.domain.ids import ItemId, ThreadId
from hames.domain.items import ToolResult
from hames.domain.json import Json
from hames.domain.state import Change, blank
from hames.ports import ClientToolCall
from hames.protocols.session import (
    Action,
    ClientReply,
    ClientRequest,
    Close,
    Crashed,
    Defer,
    Execute,
    Follow,
    FollowList,
    ReadClientFile,
    Session,
    Unfollow,
    UseClientTerminal,
    WriteClientFile,
)
from hames.stdio.message_order import MessageOrder, MessageWork
from hames.stdio.principals import Principal, local_user

log = logging.getLogger(__name__)

QUEUED_ACTIONS = 64
OVERTAKING = 64
"""So many messages may be carried out beside the one whose turn it is."""
CHANGES_AT_ONCE = 256
CLOSING_SECONDS = 5.0
EDITOR_SECONDS = 2.0
"""How long an editor may take over a file. After that the file is what is on the disk."""


class Outbox(Protocol):
    """Where messages leave. `write` never waits and never fails; whoever can wait asks for `room` first."""

    def write(self, data: bytes) -> None: ...

    async def room(self) -> None:
        """Returns when what is still to be sent is below the limit, or nobody will ever read it."""
        ...


async def read_lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[Line]:
    decoder = LineDecoder()
    async for chunk in chunks:
        for line in decoder.feed(chunk):
            yield line
    for line in decoder.end():
        yield line


class Connection:
    def __init__(
        self, engine: Engine, session: Session, outbox: Outbox, tasks: TaskGroup, principal: Principal | None = None
    ) -> None:
        """`principal` is who the client is, as far as the connection knows. None: whoever runs this process."""
        self.closing: Close | None = None
        """Why the session ended the connection, if it did."""
        self._engine = engine
        self._session = session
        self._outbox = outbox
        self._tasks = tasks
        self._principal = principal or Principal(local_user(session.protocol or "stdio"))
        self._now = engine.clock.monotonic
        self._watchers: dict[ThreadId, Watcher] = {}
        """By followed thread. `watcher.state` is the state that the client was told last."""
        self._asked: dict[str, MemoryObjectSendStream[ClientReply]] = {}
        self._editor_requests = 0
        self._gone = False
        """The client says nothing more."""
        self._timer: float | None = None
        self._reading = anyio.CancelScope()
        self._order = MessageOrder()
        self._places = anyio.Semaphore(OVERTAKING)
        session.can_answer = self._principal.can_answer

    async def open(self) -> None:
        """What the session does before the client says anything."""
        await self._do(MessageWork(), self._session.open(self._now()))

    async def serve(self, messages: AsyncIterable[Line], *, answered: bytes = b"") -> None:
        """Returns when no more messages come, or the session closes, and every action was carried out.

        `answered` is a message that came before them and has its answer: the session only takes note of it.
        """
        try:
            await self._serve(messages, answered)
        finally:
            self._gone = True
            self._give_up()

    async def _serve(self, messages: AsyncIterable[Line], answered: bytes) -> None:
        if answered:
            await self._run(self._session.receive(answered, self._now()), MessageWork())
            self._session.take_output()
        queue: MemoryObjectSendStream[MessageWork] | None = None
        finished: anyio.Event | None = None
        with self._reading:
            async for message in messages:
                if queue is None:  # most clients of a broadcast never say anything
                    queue, todo = anyio.create_memory_object_stream[MessageWork](QUEUED_ACTIONS)
                    finished = anyio.Event()
                    self._tasks.start_soon(self._work, todo, finished)
                await self._outbox.room()
                for action in self._session.receive(message, self._now()):
                    if isinstance(action, ClientReply):
                        self._reply(action)  # at once: the command that runs may be waiting for it
                    else:
                        await self._enqueue(MessageWork(action), queue)
                self._flush()
        if queue is not None and finished is not None:
            queue.close()
            await finished.wait()
            for work in self._order.unfinished:
                await work.finished.wait()

    async def _enqueue(self, work: MessageWork, queue: MemoryObjectSendStream[MessageWork]) -> None:
        if work.overtakes and self._order.unfinished:
            await self._places.acquire()
            self._order.add(work)
            self._tasks.start_soon(self._overtake, work)
            return
        self._order.add(work)
        try:
            await queue.send(work)
        except BaseException:
            self._order.finish(work)
            raise

    def _give_up(self) -> None:
        for request_id in list(self._asked):
            self._reply(ClientReply(request_id=request_id, error="the client has gone"))

    async def ask(self, request_id: str, request: ClientRequest, timeout_s: float) -> ClientReply:
        """Ask the client for something and wait for its reply, at most this long."""
        if not self._session.ask(request_id, request, self._now() + timeout_s):
            return ClientReply(request_id=request_id, error="the client cannot do this")
        self._asked[request_id], reply = anyio.create_memory_object_stream[ClientReply](1)
        self._flush()
        try:
            with reply:
                return await reply.receive()
        finally:
            if waiting := self._asked.pop(request_id, None):
                waiting.close()
                self._session.withdraw(request_id)

    def tool_rank(self, thread_id: ThreadId) -> int:
        """A client that may change nothing carries out no tools either."""
        return 0 if self._gone or not self._principal.access.may("driver") else self._session.tool_rank(thread_id)

    async def call_tool(self, call: ClientToolCall) -> ToolResult:
        reply = await self.ask(f"call_{call.item_id}", call, math.inf)
        if isinstance(reply.result, ToolResult) and not reply.error:
            return reply.result
        words = f"the client did not carry out {call.tool!r}: {reply.error or 'it gave no result'}"
        return ToolResult(text=words, failed=True)

    def editor_rank(self, thread_id: ThreadId) -> int:
        """What a client says that a file has reaches the model, so it must be one that may send prompts."""
        return 0 if self._gone or not self._principal.access.may("driver") else self._session.editor_rank(thread_id)

    async def read_file(self, thread_id: ThreadId, path: str) -> str | None:
        reply = await self._ask_editor(ReadClientFile(thread_id=thread_id, path=path))
        match reply:
            case ClientReply(error="", result={"content": str(text)}):
                return text
            case _:
                return None

    async def write_file(self, thread_id: ThreadId, path: str, text: str) -> bool:
        return not (await self._ask_editor(WriteClientFile(thread_id=thread_id, path=path, text=text))).error

    def terminal_rank(self, thread_id: ThreadId) -> int:
        """Whoever runs commands for the agent must be one that may allow them."""
        return 0 if self._gone or not self._principal.can_answer else self._session.terminal_rank(thread_id)

    async def use_terminal(self, thread_id: ThreadId, item_id: ItemId, action: str, about: dict[str, Json]) -> Json:
        request = UseClientTerminal(thread_id=thread_id, item_id=item_id, action=action, about=about)
        reply = await self._ask_editor(request)
        return None if reply.error else reply.result

    async def _ask_editor(self, request: ReadClientFile | WriteClientFile | UseClientTerminal) -> ClientReply:
        self._editor_requests += 1
        reply = await self.ask(f"file_{self._editor_requests}", request, EDITOR_SECONDS)
        if reply.error:
            log.info("editor.not_used", extra={"thread_id": request.thread_id, "why": reply.error})
        return reply

    def close(self) -> None:
        """Nobody listens any more."""
        self._give_up()
        for watcher in self._watchers.values():
            watcher.close()
        self._watchers.clear()

    async def finish(self) -> None:
        """`close`, and the commands that the session leaves behind."""
        self.close()
        if commands := self._session.closed():
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await self._run(commands, MessageWork())

    def end(self, why: str) -> None:
        """Ends every followed thread, as if it told nothing more."""
        for thread_id in list(self._watchers):
            self._lose(thread_id, why)

    # -- actions

    async def _work(self, todo: MemoryObjectReceiveStream[MessageWork], finished: anyio.Event) -> None:
        try:
            async for work in todo:
                await self._order.wait_for_earlier(work)
                await self._do(work, work.actions)
                if self._order.has_waiting_changes:  # changes that waited for this are told before the next message
                    await anyio.lowlevel.checkpoint()
        finally:
            todo.close()
            finished.set()
            for work in self._order.unfinished:
                if not work.overtakes:
                    self._order.finish(work)

    async def _overtake(self, work: MessageWork) -> None:
        try:
            await self._order.wait_for_earlier(work)
            await self._do(work, work.actions)
        finally:
            self._order.finish(work)
            self._places.release()

    async def _do(self, work: MessageWork, actions: Sequence[Action]) -> None:
        try:
            if self.closing is None:
                await self._run(actions, work)
                self._flush()
        finally:
            self._order.finish(work)

    def _thread_of(self, command: Command) -> ThreadId | None:
        """The thread whose changes wait for the answer to a command. A question belongs to a thread, too."""
        if not isinstance(command, ResolveApproval):
            return getattr(command, "thread_id", None)
        for thread_id, watcher in self._watchers.items():
            if any(approval.id == command.approval_id for approval in watcher.state.approvals):
                return thread_id
        return None

    async def _run(self, actions: Sequence[Action], work: MessageWork) -> None:
        for action in actions:
            match action:
                case Execute() | Follow() | FollowList() | Defer():
                    await self._run(await self._carry_out(action, work), work)
                case Unfollow(thread_id=thread_id):
                    if watcher := self._watchers.pop(thread_id, None):
                        watcher.close()
                case Close():
                    self._close(action)
                case ClientReply():
                    self._reply(action)
                case Crashed(error=error, method=method):
                    log.error("request.crashed", exc_info=error, extra={"method": method})

    def _close(self, action: Close) -> None:
        self._flush()
        self.closing = self.closing or action
        self._reading.cancel()

    async def _carry_out(self, action: Execute | Follow | FollowList | Defer, work: MessageWork) -> Sequence[Action]:
        try:
            match action:
                case Defer():
                    return self._session.resume(action, self._now())
                case Execute(command=command):
                    self._order.hold(self._thread_of(command), work)
                    outcome = await self._principal.execute(self._engine, command, client=self._session.client_name)
                    return self._session.done(action, outcome)
                case Follow(thread_id=thread_id):
                    self._order.hold(thread_id, work)
                    return await self._follow(action)
                case FollowList():
                    return self._follow_list(action)
        except HarnessError as error:
            log.debug("action.refused", extra={"action": type(action).__name__, "why": str(error)})
            return self._session.failed(action, error)
        except Exception:  # a bug: the client gets an answer all the same
            log.exception("request.crashed", extra={"action": type(action).__name__})
            return self._session.failed(action, HarnessError("internal error"))

    async def _follow(self, action: Follow) -> Sequence[Action]:
        thread_id = action.thread_id
        watcher = self._watchers.get(thread_id)
        if watcher is not None and watcher.closed:
            self._lose(thread_id, "the thread was closed")
            watcher = None
        if watcher is None:
            answers = action.can_answer and self._principal.can_answer
            watcher = await self._engine.follow(thread_id, answers=answers)
            if (other := self._watchers.get(thread_id)) is not None:  # another message followed it meanwhile
                watcher.close()
                watcher = other
            else:
                self._start(watcher)
        state = watcher.state
        begin = blank(thread_id, foreign=state.foreign)
        history = await self._engine.changes_between(begin, state) if action.replay else ()
        return self._session.followed(action, state, history, self._now())

    def _follow_list(self, _action: FollowList) -> Sequence[Action]:
        raise InvalidCommand("the thread list cannot be followed on this connection")

    def _reply(self, reply: ClientReply) -> None:
        if waiting := self._asked.pop(reply.request_id, None):
            waiting.send_nowait(reply)
            waiting.close()

    # -- changes

    def _start(self, watcher: Watcher) -> None:
        watcher.client = self
        self._watchers[watcher.state.id] = watcher
        self._tasks.start_soon(self._tell_changes, watcher)

    async def _tell_changes(self, watcher: Watcher) -> None:
        thread_id = watcher.state.id
        while changes := await watcher.next():
            for first in range(0, len(changes), CHANGES_AT_ONCE):
                await self._outbox.room()
                await self._order.until_released(thread_id)
                if self._watchers.get(thread_id) is not watcher:
                    return
                self._tell(watcher, changes[first : first + CHANGES_AT_ONCE])
        if watcher.cut_off:
            log.warning("client.slow", extra={"thread_id": thread_id, "why": watcher.cut_off})
            await self._outbox.room()
        await self._order.until_released(thread_id)
        if self._watchers.get(thread_id) is watcher:
            work = MessageWork()
            self._order.hold(thread_id, work)
            try:
                await self._go_on(watcher)
                self._flush()
            finally:
                self._order.finish(work)

    async def _go_on(self, watcher: Watcher) -> None:
        """After the watcher has ended: catch up if it was cut off; otherwise the thread was closed."""
        why = "the thread was closed"
        if watcher.cut_off:
            try:
                found = await self._engine.follow_again(watcher)
                if found.state.seq < watcher.state.seq:
                    raise StorageFailed("the database has lost what was written last: open the thread again")
                if self._watchers.get(watcher.state.id) is watcher:
                    self._start(found)
                else:  # a message followed it again, or left it
                    found.close()
                return
            except HarnessError as error:
                why = str(error)
        self._lose(watcher.state.id, why)

    def _lose(self, thread_id: ThreadId, why: str) -> None:
        log.info("thread.lost", extra={"thread_id": thread_id, "why": why})
        if watcher := self._watchers.pop(thread_id, None):
            watcher.close()
        if close := self._session.lost(thread_id, why):
            self._close(close)

    def _tell(self, watcher: Watcher, changes: list[Change]) -> None:
        close = None
        try:
            close = self._session.tell(changes, self._now())
        except Exception:  # a bug, and the client's other threads are not to blame for it
            log.exception("change.not_told", extra={"thread_id": watcher.state.id, "seq": changes[-1].record.seq})
        watcher.state = changes[-1].after
        self._flush()
        if close is not None:
            self._close(close)

    def _flush(self) -> None:
        if data := self._session.take_output():
            self._outbox.write(data)
        deadline = self._session.next_deadline()
        if deadline is not None and (self._timer is None or deadline < self._timer):
            self._timer = deadline
            self._tasks.start_soon(self._expire, deadline)

    async def _expire(self, deadline: float) -> None:
        await self._engine.clock.sleep(max(0.0, deadline - self._now()))
        if self._timer == deadline:
            self._timer = None
        await self._do(MessageWork(), self._session.expire(self._now()))
