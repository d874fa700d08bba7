"""Commands for threads that other nodes of a shared store write, and calls of tools that clients of other nodes carry
out: letters in the store instead of connections.

All nodes together look like one peer. Whoever writes the thread when the letter is read carries it out, so a command
outlives the node that it was meant for.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import anyio

from hames.domain.commands import Command, DeleteThread, ResolveApproval, Standing
from hames.domain.errors import ApprovalNotFound, HarnessError, Stopping, StorageFailed, ThreadInUse, ThreadNotFound
from hames.domain.ids import ThreadId
from hames.domain.items import ToolResult
from hames.ports import (
    ClientToolCall,
    CommandPending,
    Letter,
    Letters,
    NobodyThere,
    Peer,
    PeerAnswer,
    PeerLost,
    ToolClient,
)
from hames.server.peers import wire

log = logging.getLogger(__name__)

ANSWER_SECONDS = 60.0
LOOK_SECONDS = 1.0
"""A hint that was lost costs so much."""
COMMANDS_AT_ONCE = 64
KEPT_STANDINGS_SECONDS = 1.0
DISCARD_SECONDS = 5.0
ALIVE_SECONDS = 15.0
"""While a client carries out a tool, both nodes look so often whether the other one lives."""
MAY_RUN = "Whether it is carried out is not known: it may be, within a minute"
"""`LETTER_SECONDS` in the store."""


class StorePeers:
    def __init__(self, letters: Letters) -> None:
        self._letters = letters
        self._start_task: Callable[..., object] | None = None
        self._here: Peer | None = None
        self._link: StoreLink | None = None
        self._wake = anyio.Event()
        self._at_once = anyio.Semaphore(COMMANDS_AT_ONCE)
        self._started = self._closed = False
        self._under_way: set[str] = set()
        """The keys of the letters that this node has taken and not answered."""

    def attach(self, start_task: Callable[..., object], here: Peer) -> None:
        self._start_task, self._here = start_task, here
        self._link = StoreLink(self._letters, start_task, self._start)
        self._letters.watch(self.look, here.hear_news)
        here.start_news()

    def look(self) -> None:
        """There may be letters for us."""
        self._wake.set()

    async def start(self) -> None:
        self._start()
        self.look()  # a thread was opened, and commands for it may wait

    def _start(self) -> None:
        if not self._started and self._start_task is not None:
            self._started = True
            self._start_task(self._receive)

    async def links(self, *, patient: bool = False) -> "Sequence[StoreLink]":  # noqa: ARG002 - the store answers for all
        return [self._link] if self._link is not None and not self._closed else []

    def send_news(self) -> None:
        self._letters.send_news()

    async def tool_clients(self, thread_id: ThreadId) -> Sequence[ToolClient]:
        try:
            nodes = await self._letters.tool_nodes(thread_id)
        except StorageFailed as problem:
            log.warning("tool_nodes.not_found", extra={"thread_id": thread_id, "error": str(problem)})
            return ()
        return [NodeTools(self._letters, one.node, one.tools) for one in nodes]

    async def close(self) -> None:
        self._closed = True
        self._wake.set()

    async def _receive(self) -> None:
        here = self._here
        assert self._start_task is not None and here is not None
        while not self._closed:
            self._wake = anyio.Event()
            letters: Sequence[Letter] = ()
            try:
                letters = await self._letters.receive(list(here.standings()), list(self._under_way))
            except StorageFailed as problem:
                log.warning("letters.not_received", extra={"error": str(problem)})
            for letter in letters:
                self._under_way.add(letter.key)
                request = wire.decode_line(letter.body)
                if isinstance(request, wire.PeerRequest) and request.do == "call_tool":
                    self._start_task(self._call_tool, letter, request)
                else:
                    await self._at_once.acquire()
                    self._start_task(self._carry_out, letter)
            with anyio.move_on_after(LOOK_SECONDS):
                await self._wake.wait()

    async def _call_tool(self, letter: Letter, request: wire.PeerRequest) -> None:
        """For the writer of a thread that is watched here. When nobody waits for the answer any more, the call is
        withdrawn from the client."""
        assert self._here is not None
        result = ToolResult(text="the call was sent by another version and cannot be read", failed=True)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_call, letter, tasks.cancel_scope)
                if (call := wire.decode_call(request)) is not None:
                    result = await self._here.call_tool_for_peer(call)
                await self._letters.answer(letter.key, wire.encode_line(wire.PeerReply(id=0, result=result)))
                tasks.cancel_scope.cancel()
        except* StorageFailed as problem:
            log.warning("call.not_answered", extra={"thread_id": request.thread_id, "error": str(problem)})
        finally:
            self._under_way.discard(letter.key)

    async def _watch_call(self, letter: Letter, call: anyio.CancelScope) -> None:
        while True:
            try:
                gone = await self._letters.wait_for_answer(letter.thread_id, letter.key, ALIVE_SECONDS)
                if gone is not None or not await self._letters.is_awaited(letter.key):
                    call.cancel()
                    return
            except StorageFailed:  # whoever waits for the answer waits for the database, too
                await anyio.sleep(LOOK_SECONDS)

    async def _carry_out(self, letter: Letter) -> None:
        try:
            if (reply := await self._reply(letter)) is not None:
                await self._letters.answer(letter.key, wire.encode_line(reply))
            else:
                await self._letters.put_back(letter.key)
        except StorageFailed as problem:  # whoever takes over the thread finds what was done of it
            log.warning("letter.not_answered", extra={"thread_id": letter.thread_id, "error": str(problem)})
        except Exception:
            log.exception("letter.crashed", extra={"thread_id": letter.thread_id})
        finally:
            self._under_way.discard(letter.key)
            self._at_once.release()

    async def _reply(self, letter: Letter) -> wire.PeerReply | None:
        """None: the thread is another node's by now, and so is the letter."""
        here, request = self._here, wire.decode_line(letter.body)
        assert here is not None
        if not isinstance(request, wire.PeerRequest):
            return wire.refusal(0, HarnessError("the command was sent by another version and cannot be read"))
        try:
            repeated = request.repeated or letter.repeated
            command = wire.decode_command(request)
            answer = await here.execute_for_peer(
                command, letter.key, seen=request.seen, repeated=repeated, thread_id=letter.thread_id
            )
            return wire.PeerReply(id=0, answer=answer)
        except (ThreadInUse, StorageFailed, Stopping) as problem:
            log.info("letter.left", extra={"thread_id": letter.thread_id, "why": str(problem)})
            return None
        except HarnessError as error:
            return wire.refusal(0, error)
        except Exception:  # a bug: whoever waits gets an answer all the same
            log.exception("letter.crashed", extra={"thread_id": letter.thread_id, "command": request.command})
            return wire.refusal(0, HarnessError("internal error"))


class StoreLink:
    """The other nodes of the store, whichever of them writes a thread."""

    name = "another node"
    gone = False

    def __init__(
        self, letters: Letters, start_task: Callable[..., object], start_receiving: Callable[[], None]
    ) -> None:
        self._letters = letters
        self._start_task = start_task
        self._start_receiving = start_receiving
        self._standings: Mapping[ThreadId, Standing] = {}
        self._standings_at = -KEPT_STANDINGS_SECONDS

    async def owns(self, thread_id: ThreadId, *, patient: bool = False) -> bool:  # noqa: ARG002
        try:
            return await self._letters.has_other_writer(thread_id)
        except StorageFailed as problem:
            raise PeerLost(str(problem)) from problem

    async def standings(self) -> Mapping[ThreadId, Standing]:
        try:
            if anyio.current_time() - self._standings_at >= KEPT_STANDINGS_SECONDS:
                self._standings_at, self._standings = anyio.current_time(), await self._letters.standings()
            return self._standings
        except StorageFailed as problem:
            raise PeerLost(str(problem)) from problem

    async def execute(self, command: Command, key: str, *, seen: int, repeated: bool = False) -> PeerAnswer:
        body = wire.encode_line(wire.command_request(0, command, key, seen, repeated=repeated))
        try:
            thread_id = await self._thread_of(command)
        except StorageFailed as problem:
            raise PeerLost(str(problem)) from problem
        await self._tell_viewing()  # who sends a command may carry out the tools that it calls
        try:
            await self._letters.send(thread_id, key, body)
            answer = await self._letters.wait_for_answer(thread_id, key, ANSWER_SECONDS)
            if answer is None and await self._letters.withdraw(key):
                raise NobodyThere(
                    f"no node took the command within {ANSWER_SECONDS:g} s: `hames nodes` lists the workers that run"
                )
        except StorageFailed as problem:
            raise CommandPending(f"{problem}. {MAY_RUN}") from problem
        if answer is None:
            raise CommandPending(f"{self.name} took the command and does not answer. {MAY_RUN}")
        if not answer and isinstance(command, DeleteThread):  # the letter went with its thread
            return PeerAnswer()
        if not answer:
            raise ThreadNotFound(f"no thread {thread_id!r}")
        reply = wire.decode_line(answer)
        if not isinstance(reply, wire.PeerReply):
            raise HarnessError("the answer was sent by another version and cannot be read")
        if reply.answer is None:
            raise wire.raised(reply)
        return reply.answer

    async def _thread_of(self, command: Command) -> ThreadId:
        if isinstance(command, ResolveApproval):
            found = await self._letters.find_approval(command.approval_id)
            if found is None:
                raise ApprovalNotFound(f"no approval {command.approval_id!r} waits for an answer")
            return found
        thread_id: ThreadId | None = getattr(command, "thread_id", None)
        if thread_id is None:
            raise HarnessError(f"{type(command).__name__} is not for another node")
        return thread_id

    def tell_viewing(self, thread_id: ThreadId, *, answers: bool | None, tools: int = 0) -> None:
        self._letters.set_viewing(thread_id, answers=answers, tools=tools)
        if tools:
            self._start_receiving()
            self._start_task(self._tell_viewing)

    async def _tell_viewing(self) -> None:
        try:
            await self._letters.tell_viewing()
        except StorageFailed as problem:  # it is told with the next renewal of the lease
            log.info("viewing.not_told", extra={"error": str(problem)})

    def ask_for_news(self) -> None:
        """They are always sent."""


class NodeTools:
    """Implements `ports.ToolClient`: the clients of another node, as far as they carry out tools of one thread."""

    def __init__(self, letters: Letters, node: str, rank: int) -> None:
        self._letters = letters
        self._node = node
        self._rank = rank

    def tool_rank(self, thread_id: ThreadId) -> int:  # noqa: ARG002 - it was asked about this thread alone
        return self._rank

    async def call_tool(self, call: ClientToolCall) -> ToolResult:
        key, mailbox = f"{call.thread_id}:{call.item_id}", self._letters.mailbox(self._node)
        body = wire.encode_line(wire.call_request(0, call))
        try:
            answer = await self._answer(mailbox, key, body)
        finally:  # the turn was interrupted, the time is over, or it is done
            with anyio.move_on_after(DISCARD_SECONDS, shield=True), suppress(StorageFailed):
                await self._letters.discard(mailbox, key)
        reply = wire.decode_line(answer) if answer else None
        if isinstance(reply, wire.PeerReply) and reply.result is not None:
            return reply.result
        words = f"the node whose client carries out {call.tool!r} has ended: the tool may or may not have run"
        return ToolResult(text=words, failed=True)

    async def _answer(self, mailbox: ThreadId, key: str, body: bytes) -> bytes | None:
        """None: the node has gone."""
        sent = False
        while True:
            try:
                if not sent:
                    await self._letters.send(mailbox, key, body)
                    sent = True
                answer = await self._letters.wait_for_answer(mailbox, key, ALIVE_SECONDS)
                if answer is not None or not await self._letters.is_live(self._node):
                    return answer
            except StorageFailed:  # the turn waits for the database, or its node stops it
                await anyio.sleep(LOOK_SECONDS)
