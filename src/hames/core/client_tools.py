"""Tools that a client declared for its thread and carries out itself: the call goes to it, its answer to the model.

The client may be connected to another process on the same threads: the call is passed on to that process then. A call
goes to one client, and is not made again elsewhere if that client goes: the tool may have run.
"""

from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from hames.core.thread import Thread
from hames.domain.approvals import Harmless
from hames.domain.ids import ThreadId
from hames.domain.items import ToolCall
from hames.domain.options import ClientTool
from hames.domain.policy import SandboxPolicy
from hames.ports import ClientToolCall, Job, Tell, Tool, ToolClient, ToolFailed, ToolSpec

DEADLINE_SECONDS = 3600.0
"""How long a client may take: it may ask a person, but a turn does not wait for ever."""
RECONNECT_SECONDS, RETRY_SECONDS = 3.0, 0.1
"""A thread that was just taken over from another process waits so long for clients of other processes to find it."""


def client_tools(thread: Thread) -> dict[str, Tool]:
    """The tools of the thread's client, by the name that the model knows."""
    adapted = (ThreadClientTool(tool, thread) for tool in thread.state.settings.client_tools)
    return {tool.spec.name: tool for tool in adapted}


class ThreadClientTool:
    """Implements `ports.Tool`. Nobody is asked about it: what the client does itself is the client's own affair."""

    def __init__(self, tool: ClientTool, thread: Thread) -> None:
        self.tool = tool
        self.thread = thread
        name = f"{tool.namespace}__{tool.name}" if tool.namespace else tool.name
        # A declaration does not say whether the tool changes something, so it may.
        schema = {**tool.schema, "type": "object"}
        self.spec = ToolSpec(name=name, description=tool.description, schema=schema, writes=True)

    async def prepare(self, job: Job) -> "ClientToolWork":
        return ClientToolWork(self, job)


class ClientToolWork:
    def __init__(self, tool: ThreadClientTool, job: Job) -> None:
        self.item = ToolCall(
            id=job.item_id, step=job.step, call_id=job.call.id, name=job.call.name, arguments=job.arguments
        )
        self.intent = Harmless()
        self._tool = tool
        self._call = ClientToolCall(
            thread_id=job.place.thread_id,
            turn_id=job.place.turn_id,
            item_id=job.item_id,
            tool=tool.tool.name,
            namespace=tool.tool.namespace,
            arguments=job.arguments,
        )

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolCall:  # noqa: ARG002 - it runs at the client's
        client = await self._find_client()
        if client is None:
            raise ToolFailed(f"no client that carries out {self._call.tool!r} is connected to this thread")
        try:
            with anyio.fail_after(DEADLINE_SECONDS):
                result = await client.call_tool(self._call)
        except TimeoutError:
            words = (
                f"the client did not answer the call of {self._call.tool!r} within {DEADLINE_SECONDS / 60:g} minutes"
            )
            raise ToolFailed(words) from None
        return replace(self.item, status="failed" if result.failed else "completed", result=result)

    async def _find_client(self) -> ToolClient | None:
        """One of another process only if it has a higher rank than those of this one."""
        thread = self._tool.thread
        find = thread.find_peer_clients
        while True:
            elsewhere = await find() if find is not None else ()
            _, found = best_client([*elsewhere, *thread.tool_clients()], thread.id)
            is_new_here = anyio.current_time() - thread.opened_at < RECONNECT_SECONDS
            if found is not None or find is None or not is_new_here:
                return found
            await anyio.sleep(RETRY_SECONDS)


def best_client(clients: Sequence[ToolClient], thread_id: ThreadId) -> tuple[int, ToolClient | None]:
    """The highest rank, and the last of the clients that has it."""
    ranked = [(client.tool_rank(thread_id), client) for client in clients]
    best = max((rank for rank, _ in ranked), default=0)
    return best, next((client for rank, client in reversed(ranked) if rank == best), None) if best else None
