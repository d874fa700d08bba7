"""Tools that a client declared for its thread and carries out itself: the call goes to it, its answer to the model."""

from msgspec.structs import replace

from hames.core.thread import Thread
from hames.domain.approvals import Harmless
from hames.domain.items import ToolCall
from hames.domain.options import ClientTool
from hames.domain.policy import SandboxPolicy
from hames.ports import ClientToolCall, Job, Tell, Tool, ToolFailed, ToolSpec


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
        thread_id = self._call.thread_id
        ranked = [(client.tool_rank(thread_id), client) for client in self._tool.thread.tool_clients()]
        best = max((rank for rank, _ in ranked), default=0)
        if not best:
            raise ToolFailed(f"no client that carries out {self._call.tool!r} is connected to this thread")
        newest = next(client for rank, client in reversed(ranked) if rank == best)
        result = await newest.call_tool(self._call)
        return replace(self.item, status="failed" if result.failed else "completed", result=result)
