"""What this process does for other processes on the same threads: it carries out their commands on those it writes."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio

from hames.core.client_tools import best_client
from hames.core.outcome import Outcome, answer_for_peer
from hames.core.repeated_command import find_effect
from hames.core.threads import Threads
from hames.domain.commands import Command, ResolveApproval, Standing
from hames.domain.errors import HarnessError, Stopping, StorageFailed, ThreadInUse
from hames.domain.events import ItemDelta
from hames.domain.ids import ThreadId
from hames.domain.items import ToolResult
from hames.domain.state import Change, ThreadState
from hames.ports import ClientToolCall, PeerAnswer, Peers, ToolClient

REMEMBERED = 256
"""So many commands of other processes are known by their keys, so that one that is sent twice counts once."""
REACH_SECONDS = 5.0


class PeerService:
    """`hear_news` is called when the list of another process has changed, or it has gone.

    `tool_clients` are those connected here that may carry out tools of a thread of another process.
    """

    def __init__(
        self,
        threads: Threads,
        peers: Peers | None,
        run_here: Callable[[Command], Awaitable[Outcome]],
        hear_news: Callable[[], None],
        tool_clients: Callable[[ThreadId], Sequence[ToolClient]],
    ) -> None:
        self.hear_news = hear_news
        self._threads = threads
        self._peers = peers
        self._run_here = run_here
        self._tool_clients = tool_clients
        self._commands: OrderedDict[str, _Received] = OrderedDict()

    def owns(self, thread_id: ThreadId) -> bool:
        return thread_id in self._threads.loaded

    def standings(self) -> Mapping[ThreadId, Standing]:
        return {thread_id: loaded.thread.state.standing for thread_id, loaded in self._threads.loaded.items()}

    async def execute_for_peer(
        self, command: Command, key: str, *, seen: int, repeated: bool = False, thread_id: ThreadId | None = None
    ) -> PeerAnswer:
        if (known := self._commands.get(key)) is not None:
            await known.done.wait()
            return known.result()
        received = self._commands[key] = _Received()
        while len(self._commands) > REMEMBERED:
            self._commands.popitem(last=False)
        try:
            received.answer = await self._execute(command, seen, thread_id, repeated=repeated)
        except HarnessError as refusal:
            received.refusal = refusal
            if isinstance(refusal, ThreadInUse | StorageFailed):  # it is another process's now, and may be ours again
                self._commands.pop(key, None)
        finally:
            received.done.set()
        return received.result()

    async def _execute(self, command: Command, seen: int, thread_id: ThreadId | None, *, repeated: bool) -> PeerAnswer:
        thread_id = getattr(command, "thread_id", thread_id)
        if thread_id is None and not isinstance(command, ResolveApproval):
            raise HarnessError(f"{type(command).__name__} is not for another process")
        if thread_id is not None and not self.owns(thread_id):
            raise ThreadInUse(f"thread {thread_id!r} is no longer held by this process")
        if thread_id is not None:
            await self._reach(thread_id, seen)
        outcome = None
        if repeated and thread_id is not None:
            outcome = await self.find_effect(command, thread_id, seen, self._threads.loaded[thread_id].thread.state)
        if outcome is None:
            outcome = await self._run_here(command)
        loaded = self._threads.loaded.get(thread_id) if thread_id is not None else None
        return answer_for_peer(outcome, thread_id, loaded.thread.state.seq if loaded is not None else 0)

    async def find_effect(self, command: Command, thread_id: ThreadId, seen: int, state: ThreadState) -> Outcome:
        """What the command gave, if another process carried it out after this record and could not answer."""
        records = [one for one in await self._threads.records(thread_id) if one.seq > seen]
        return find_effect(command, records, state)

    async def _reach(self, thread_id: ThreadId, seen: int) -> None:
        """Waits until this process has told what the asker has read in the log: that may be a moment later."""
        if (loaded := self._threads.loaded.get(thread_id)) is None or loaded.thread.state.seq >= seen:
            return
        watcher = loaded.thread.watch(answers=False)
        with anyio.move_on_after(REACH_SECONDS):
            while loaded.thread.state.seq < seen and await watcher.next():
                pass
        watcher.close()

    def set_viewer(self, viewer: object, thread_id: ThreadId, *, answers: bool | None) -> None:
        if (loaded := self._threads.loaded.get(thread_id)) is None:
            return
        if answers is None:
            loaded.thread.viewers.pop(viewer, None)
        else:
            loaded.thread.viewers[viewer] = answers

    def remove_viewer(self, viewer: object) -> None:
        for loaded in self._threads.loaded.values():
            loaded.thread.viewers.pop(viewer, None)

    def start_news(self) -> None:
        """Another process wants to hear of changes of our list."""
        if self._observe not in self._threads.observers:
            self._threads.observers.append(self._observe)

    def tool_rank(self, thread_id: ThreadId) -> int:
        rank, _ = best_client(self._tool_clients(thread_id), thread_id)
        return rank

    async def call_tool_for_peer(self, call: ClientToolCall) -> ToolResult:
        _, client = best_client(self._tool_clients(call.thread_id), call.thread_id)
        if client is None:
            return ToolResult(text=f"the client that carries out {call.tool!r} has gone", failed=True)
        return await client.call_tool(call)

    def _observe(self, change: Change) -> None:
        if isinstance(change.record.event, ItemDelta) or change.after.ephemeral or self._peers is None:
            return
        if _listed(change.before) != _listed(change.after):
            self._peers.send_news()


class _Received:
    """A command of another process, under way or done."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.answer: PeerAnswer | None = None
        self.refusal: HarnessError | None = None

    def result(self) -> PeerAnswer:
        if self.refusal is not None:
            raise self.refusal
        if self.answer is None:
            raise Stopping("the command was not finished: the harness is stopping")
        return self.answer


def _listed(state: ThreadState) -> tuple[object, ...]:
    """What of a thread a list shows."""
    settings = state.settings
    return state.format, state.title, state.preview, settings.cwd, settings.model, state.archived, state.standing
