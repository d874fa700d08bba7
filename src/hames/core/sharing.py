"""Threads that another process writes: they are followed here, and commands for them are sent there.

When that process has gone, the thread is opened here, and its watchers hear on without a gap. So every process on a
data directory can show every thread, and carry out every command.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup, TaskStatus

from hames.core.history import changes_between
from hames.core.outcome import Outcome
from hames.core.thread import Thread
from hames.core.threads import Threads
from hames.core.watcher import Watcher
from hames.deferred import deferred
from hames.domain.commands import Command, DeleteThread, ResolveApproval, Standing
from hames.domain.errors import ApprovalNotFound, Fenced, HarnessError, ThreadInUse, ThreadNotFound
from hames.domain.ids import ThreadId
from hames.domain.state import ThreadState
from hames.ports import CommandPending, Ids, NobodyThere, PeerAnswer, PeerLink, PeerLost, Peers, Store, ToolClient

if TYPE_CHECKING:
    from hames.core.follower import Follower
    from hames.core.peer_service import PeerService

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often followers look for the process that writes their thread, if nothing tells them earlier."""
ORPHAN_LOOKS, ORPHAN_LOOK_SECONDS = 30, 0.1
"""So many looks come sooner after a writer has gone: its lock is free a moment later than its connection."""
UNWATCHED_LOOKS = 2
"""After so many looks without a watcher a thread is no longer followed."""
PATIENCE_SECONDS = 3.0
"""How long a command waits for a process that holds the thread and cannot be reached: it may be ending."""
RETRY_SECONDS = 0.05
REACH_SECONDS = 10.0


class Sharing:
    """`run_here` carries out a command in this process alone."""

    def __init__(
        self,
        threads: Threads,
        store: Store,
        peers: Peers | None,
        ids: Ids,
        run_here: Callable[[Command], Awaitable[Outcome]],
    ) -> None:
        self.tasks: TaskGroup | None = None
        self.list_listeners: list[Callable[[], None]] = []
        """Called when the list of threads has changed because of another process."""
        self._threads = threads
        self._store = store
        self._peers = peers
        self._ids = ids
        self._run_here = run_here
        self._followers: dict[ThreadId, Follower] = {}
        self._starting = anyio.Lock()
        self._looking = False
        self._attached = False
        self._look_now = anyio.Event()
        self._news_from: set[PeerLink] = set()

        def service() -> "PeerService":
            from hames.core.peer_service import PeerService

            return PeerService(threads, peers, run_here, self._hear_news, self._tool_clients)

        self.service = deferred(service)
        self.before_take_up: Callable[[ThreadId], Awaitable[None]] | None = None
        """Called with a thread that was opened for writing, before its turn goes on."""
        threads.opened_for_writing = self._opened

    def attach(self, tasks: TaskGroup, *, at_once: bool = False) -> None:
        """`at_once`: other nodes may send commands before a thread is opened here."""
        self.tasks = tasks
        if at_once:
            self._attached_peers()

    def _attached_peers(self) -> Peers | None:
        """They are attached when they are first needed: most processes have no other beside them."""
        if self._peers is not None and self.tasks is not None and not self._attached:
            self._attached = True
            self._peers.attach(self.tasks.start_soon, self.service)
        return self._peers

    async def close(self) -> None:
        """Nobody else reaches this process from now on."""
        if self._peers is not None and self._attached:
            await self._peers.close()

    def state(self, thread_id: ThreadId) -> ThreadState | None:
        """Of a thread that is followed."""
        follower = self._followers.get(thread_id)
        return follower.state if follower is not None else None

    # -- watching

    def tell_waiting(self, message: str) -> None:
        """Says to everybody who watches anything here that the store cannot be reached."""
        for one in (*self._followers.values(), *(loaded.thread for loaded in self._threads.loaded.values())):
            one.tell_waiting(message)

    async def watch(self, thread_id: ThreadId, *, answers: bool) -> Watcher:
        """A watcher of a thread, whoever writes it."""
        while True:
            try:
                return (await self._threads.open(thread_id)).thread.watch(answers=answers)
            except (ThreadInUse, Fenced):
                follower = await self._follow(thread_id)
            if not follower.ended:
                self._look()
                return follower.watch(answers=answers)

    async def _follow(self, thread_id: ThreadId) -> "Follower":
        assert self.tasks is not None
        async with self._starting:
            if (known := self._followers.get(thread_id)) is not None:
                return known
            return await self.tasks.start(self._feed, thread_id)

    async def _feed(self, thread_id: ThreadId, *, task_status: "TaskStatus[Follower]") -> None:
        from hames.core.follower import Follower  # most processes follow no thread of another one

        follower = Follower(thread_id, self._threads.rules.defaults)
        begun = False
        try:
            with follower.scope:
                async with aclosing(self._store.follow(thread_id)) as news:
                    async for one in news:
                        follower.take(one)
                        if not begun:
                            begun = True
                            self._followers[thread_id] = follower
                            task_status.started(follower)
        except HarnessError as problem:
            if not begun:
                raise
            log.warning("thread.not_followed", extra={"thread_id": thread_id, "error": str(problem)})
        except Exception:
            if not begun:
                raise
            log.exception("follower.crashed", extra={"thread_id": thread_id})
        finally:
            if self._followers.get(thread_id) is follower:
                self._forget(follower)
        if not begun:
            raise ThreadNotFound(f"no thread {thread_id!r}")

    def _forget(self, follower: "Follower") -> None:
        del self._followers[follower.id]
        if follower.link is not None and follower.told is not None:
            follower.link.tell_viewing(follower.id, answers=None, tools=0)
        follower.end()

    def _look(self) -> None:
        """Looks after the followers now, and then from time to time."""
        self._look_now.set()
        if not self._looking and self.tasks is not None:
            self._looking = True
            self.tasks.start_soon(self._keep_looking)

    async def _keep_looking(self) -> None:
        while self._followers or self.list_listeners:
            self._look_now = anyio.Event()
            for follower in list(self._followers.values()):
                try:
                    await self._look_after(follower)
                except Exception:
                    log.exception("follower.crashed", extra={"thread_id": follower.id})
            if self.list_listeners:
                await self._ask_for_news()
            orphans = any(0 < follower.lonely_looks < ORPHAN_LOOKS for follower in self._followers.values())
            with anyio.move_on_after(ORPHAN_LOOK_SECONDS if orphans else LOOK_SECONDS):
                await self._look_now.wait()
        self._looking = False

    async def _ask_for_news(self) -> None:
        links = await self._links()
        for link in links:
            link.ask_for_news()
        if not self._news_from.issuperset(links):  # a process is new, and so may its threads be
            for listener in self.list_listeners:
                listener()
        self._news_from = set(links)

    async def _look_after(self, follower: "Follower") -> None:
        """Keeps the writer told who watches here. Where there is no writer any more, this process becomes it."""
        follower.unwatched_looks = 0 if follower.watched else follower.unwatched_looks + 1
        if follower.unwatched_looks > UNWATCHED_LOOKS and self._followers.get(follower.id) is follower:
            self._forget(follower)
            return
        if follower.link is None or follower.link.gone:
            follower.link, follower.told = await self._writer(follower.id), None
        follower.lonely_looks = follower.lonely_looks + 1 if follower.link is None else 0
        if follower.link is None:
            await self._take_over(follower.id)
        else:
            self._tell_viewing(follower)

    def _tell_writer(self, thread_id: ThreadId, link: PeerLink) -> None:
        """Before a command: whoever sends it may carry out the tools that it calls."""
        if (follower := self._followers.get(thread_id)) is not None:
            follower.link = follower.link or link
            self._tell_viewing(follower)

    def _tell_viewing(self, follower: "Follower") -> None:
        """Tells the writer who watches here, if it does not know."""
        viewing = follower.answerable, self.service.tool_rank(follower.id)
        if follower.link is not None and follower.told != viewing:
            follower.told = viewing
            follower.link.tell_viewing(follower.id, answers=viewing[0], tools=viewing[1])

    async def _take_over(self, thread_id: ThreadId) -> None:
        try:
            await self._threads.open(thread_id)
        except ThreadInUse:  # by a process that does not listen, or not yet
            return
        except HarnessError as problem:
            log.info("thread.not_taken_over", extra={"thread_id": thread_id, "error": str(problem)})

    async def _opened(self, thread: Thread) -> None:
        """This process writes the thread from now on. Whoever followed it here watches it here."""
        if (peers := self._attached_peers()) is not None:
            thread.find_peer_clients = partial(peers.tool_clients, thread.id)
            await peers.start()
        if self.before_take_up is not None:
            await self.before_take_up(thread.id)
        follower = self._followers.get(thread.id)
        if follower is None:
            return
        follower.paused = True  # what is written from now on is told by the thread
        meanwhile = thread.watch(answers=False)  # a turn may go on while the log is read
        try:
            records = await self._threads.records(thread.id)
            missed = changes_between(records, follower.state, meanwhile.state)
            thread.adopt(follower.hand_over([*missed, *meanwhile.drain()]))
        finally:
            meanwhile.close()
            if self._followers.pop(thread.id, None) is not None:
                follower.end()
        log.info("thread.taken_over", extra={"thread_id": thread.id})

    def _tool_clients(self, thread_id: ThreadId) -> list[ToolClient]:
        """Who is connected here and may carry out tools of a thread that is followed."""
        follower = self._followers.get(thread_id)
        return follower.tool_clients() if follower is not None else []

    # -- commands

    async def execute(self, command: Command, thread_id: ThreadId, *, before: int | None = None) -> Outcome:
        """Carries out a command for a thread that another process writes.

        `before`: it was begun here when the thread was that far. If the other process ends before it answers, the
        thread is opened here. What it wrote of the command is found in the log: a prompt is not sent twice.
        """
        key, sent = self._ids.new("command"), before is not None
        begun = sent
        before = before if before is not None else await self._seq(thread_id)
        deadline, unreachable = anyio.current_time() + PATIENCE_SECONDS, ""
        tries, link, pending = 0, None, None
        while True:
            tries += 1
            if self.before_take_up is not None:  # this node may be about to leave it, because its lease ended
                began = anyio.current_time()
                await self.before_take_up(thread_id)
                deadline += anyio.current_time() - began
            try:
                # Somebody writes it. If nobody said so at once, that process may only be slow on a busy machine.
                if (link := pending or await self._writer(thread_id, patient=tries > 1)) is not None:
                    sent = True
                    self._tell_writer(thread_id, link)
                    answer = await link.execute(command, key, seen=before, repeated=begun)
                    return await self._outcome(answer)
            except PeerLost as lost:
                nobody = isinstance(lost, NobodyThere)
                pending = None if nobody else link if isinstance(lost, CommandPending) else pending
                if nobody or isinstance(lost, CommandPending):
                    unreachable = str(lost)
                elif pending is None:
                    unreachable = f"thread {thread_id!r} is held by another process: {lost}"
                if pending is not None:  # carried out here now, it could be carried out twice
                    if tries > 1 and anyio.current_time() > deadline:
                        raise ThreadInUse(unreachable) from None
                    await anyio.sleep(RETRY_SECONDS)
                    continue
            except ThreadInUse:  # it is no longer the writer
                unreachable = ""
            try:
                return await self._execute_here(command, thread_id, before if sent else None)
            except (ThreadInUse, Fenced) as problem:
                if tries > 1 and anyio.current_time() > deadline:
                    raise ThreadInUse(unreachable or str(problem)) from None
            await anyio.sleep(RETRY_SECONDS)

    async def _execute_here(self, command: Command, thread_id: ThreadId, before: int | None) -> Outcome:
        """`before`: what the other process wrote after this record may be what it did of the command."""
        if before is not None:
            try:
                state = (await self._threads.open(thread_id)).thread.state
            except ThreadNotFound:
                if isinstance(command, DeleteThread):
                    return None
                raise
            if (done := await self.service.find_effect(command, thread_id, before, state)) is not None:
                return done
        return await self._run_here(command)

    async def resolve(self, command: ResolveApproval) -> Outcome:
        """An approval that no thread of this process waits for. Raises `ApprovalNotFound`."""
        for follower in list(self._followers.values()):
            if any(approval.id == command.approval_id for approval in follower.state.approvals):
                return await self.execute(command, follower.id)
        for link in await self._links():
            try:
                return await self._outcome(await link.execute(command, self._ids.new("command"), seen=0))
            except CommandPending as lost:
                raise ThreadInUse(str(lost)) from None
            except (ApprovalNotFound, PeerLost):
                continue
        raise ApprovalNotFound(f"no approval {command.approval_id!r} waits for an answer")

    async def _outcome(self, answer: PeerAnswer) -> Outcome:
        found = (
            answer.turn,
            answer.prompt,
            answer.servers,
            answer.processes,
            answer.context,
            answer.undo,
            answer.worktree,
        )
        outcome = next((one for one in found if one is not None), None)
        if answer.thread_id is None:
            return outcome
        if outcome is None:
            return await self._state(answer.thread_id, answer.seq)
        if (follower := self._followers.get(answer.thread_id)) is not None:
            await follower.reach(answer.seq, REACH_SECONDS)
        return outcome  # whether or not the store can be read now: the command was carried out

    async def _state(self, thread_id: ThreadId, seq: int) -> ThreadState:
        """The thread once it is that far: a client that got its answer finds it in the state."""
        follower = self._followers.get(thread_id)
        if follower is not None and await follower.reach(seq, REACH_SECONDS):
            return follower.state
        return await self._threads.look(thread_id)

    async def _seq(self, thread_id: ThreadId) -> int:
        follower = self._followers.get(thread_id)
        return (follower.state if follower is not None else await self._threads.look(thread_id)).seq

    # -- other processes

    async def _links(self, *, patient: bool = False) -> list[PeerLink]:
        peers = self._attached_peers()
        return list(await peers.links(patient=patient)) if peers is not None else []

    async def _writer(self, thread_id: ThreadId, *, patient: bool = False) -> PeerLink | None:
        if patient:
            return await self._patient_writer(thread_id)
        for link in await self._links():
            try:
                if await link.owns(thread_id):
                    return link
            except PeerLost:
                continue
        return None

    async def _patient_writer(self, thread_id: ThreadId) -> PeerLink | None:
        """Asks all at once and gives them time: one that is stopped must not keep us from the others."""
        found: list[PeerLink] = []

        async def ask(link: PeerLink, others: TaskGroup) -> None:
            with suppress(PeerLost):
                if await link.owns(thread_id, patient=True):
                    found.append(link)
                    others.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for link in await self._links(patient=True):
                tasks.start_soon(ask, link, tasks)
        return found[0] if found else None

    async def standings(self) -> Mapping[ThreadId, Standing]:
        """Of the threads that other processes write."""
        found: dict[ThreadId, Standing] = {}
        for link in await self._links():
            try:
                found |= await link.standings()
            except PeerLost:
                continue
        return found

    def follow_lists(self, listener: Callable[[], None]) -> None:
        """Calls the listener from now on when another process changes the list of threads."""
        self.list_listeners.append(listener)
        self._look()

    def list_changed(self) -> None:
        """A thread of this process was deleted, which no event tells."""
        if self._peers is not None and self._attached:
            self._peers.send_news()

    def _hear_news(self) -> None:
        for listener in self.list_listeners:
            listener()
        self._look_now.set()
