"""Commands for threads that other nodes of a shared store write: letters in the store instead of connections.

All nodes together look like one peer. Whoever writes the thread when the letter is read carries it out, so a command
outlives the node that it was meant for.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

import anyio

from hames.domain.commands import Command, DeleteThread, ResolveApproval, Standing
from hames.domain.errors import ApprovalNotFound, HarnessError, Stopping, StorageFailed, ThreadInUse, ThreadNotFound
from hames.domain.ids import ThreadId
from hames.ports import Letter, Letters, NobodyThere, Peer, PeerAnswer, PeerLost, ToolClient
from hames.server.peers import wire

log = logging.getLogger(__name__)

ANSWER_SECONDS = 60.0
LOOK_SECONDS = 1.0
"""A hint that was lost costs so much."""
COMMANDS_AT_ONCE = 64
KEPT_STANDINGS_SECONDS = 1.0


class StorePeers:
    def __init__(self, letters: Letters) -> None:
        self._letters = letters
        self._start_task: Callable[..., object] | None = None
        self._here: Peer | None = None
        self._link: StoreLink | None = None
        self._wake = anyio.Event()
        self._at_once = anyio.Semaphore(COMMANDS_AT_ONCE)
        self._started = self._closed = False

    def attach(self, start_task: Callable[..., object], here: Peer) -> None:
        self._start_task, self._here = start_task, here
        self._link = StoreLink(self._letters)
        self._letters.watch(self.look, here.hear_news)
        here.start_news()

    def look(self) -> None:
        """There may be letters for us."""
        self._wake.set()

    async def start(self) -> None:
        if not self._started and self._start_task is not None:
            self._started = True
            self._start_task(self._receive)
        self.look()  # a thread was opened, and commands for it may wait

    async def links(self, *, patient: bool = False) -> "Sequence[StoreLink]":  # noqa: ARG002 - the store answers for all
        return [self._link] if self._link is not None and not self._closed else []

    def send_news(self) -> None:
        self._letters.send_news()

    async def tool_clients(self, thread_id: ThreadId) -> Sequence[ToolClient]:  # noqa: ARG002
        """None: letters go to the node that writes a thread, and there are none in the other direction."""
        return ()

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
                if held := here.standings():
                    letters = await self._letters.receive(list(held))
            except StorageFailed as problem:
                log.warning("letters.not_received", extra={"error": str(problem)})
            for letter in letters:
                await self._at_once.acquire()
                self._start_task(self._carry_out, letter)
            with anyio.move_on_after(LOOK_SECONDS):
                await self._wake.wait()

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

    def __init__(self, letters: Letters) -> None:
        self._letters = letters
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
            await self._letters.send(thread_id, key, body)
            answer = await self._letters.wait_for_answer(thread_id, key, ANSWER_SECONDS)
            if answer is None and await self._letters.withdraw(key):
                raise NobodyThere(
                    f"no node took the command within {ANSWER_SECONDS:g} s: `hames nodes` lists the workers that run"
                )
        except StorageFailed as problem:
            raise PeerLost(str(problem)) from problem
        if answer is None:
            raise PeerLost(f"{self.name} does not answer")
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

    def tell_viewing(self, thread_id: ThreadId, *, answers: bool | None) -> None:
        self._letters.set_viewing(thread_id, answers=answers)

    def ask_for_news(self) -> None:
        """They are always sent."""
