"""Another agent program, driven over ACP: it runs the turn with its own loop, tools and model.

Each turn has a process of its own. The agent keeps a history of its own, and which of its sessions belongs to which
thread is remembered; a session that it no longer has, or cannot load, is begun anew with the conversation as text.
Its commands run with its own rights and not in our sandbox: every question that it asks is asked here.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from hames.agents.acp.turn import AcpTurn
from hames.agents.history import past_messages, shown_content
from hames.agents.process import AgentProcess, ProgramRefused, running
from hames.agents.thread_map import ThreadMap
from hames.domain.errors import InvalidCommand, ProviderError
from hames.domain.events import Noticed
from hames.domain.items import ImageInput, TextInput, UserMessage
from hames.domain.json import Json
from hames.domain.options import ThreadServer
from hames.domain.servers import ServerStatus
from hames.domain.state import ThreadState, Turn
from hames.ports import Ability, Prompt, Task, TurnHandle
from hames.ports.sandbox import ProcessGuard

START_SECONDS = 60.0


class AcpAgent:
    """Implements `ports.Agent`. `memory` is the directory that says which of its sessions is whose."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        memory: Callable[[], Path | None],
        environment: Mapping[str, str],
        guard: ProcessGuard | None = None,
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.environment = dict(environment)
        self.guard = guard
        self.sessions = ThreadMap(memory)

    @asynccontextmanager
    async def open(self, state: ThreadState) -> AsyncGenerator["AcpThread"]:  # noqa: ARG002 - each turn starts anew
        yield AcpThread(self)


def acp_agents(
    commands: Mapping[str, Sequence[str]],
    *,
    memory: Callable[[str], Path | None],
    environment: Mapping[str, str],
    guard: ProcessGuard | None,
) -> dict[str, AcpAgent]:
    """The agents of a configuration, by name."""
    return {
        name: AcpAgent(name, command, memory=partial(memory, name), environment=environment, guard=guard)
        for name, command in commands.items()
    }


class AcpThread:
    """Implements `ports.AgentThread`."""

    abilities: frozenset[Ability] = frozenset({"mcpServers"})

    def __init__(self, agent: AcpAgent) -> None:
        self._agent = agent

    async def run(self, task: Task, turn: TurnHandle) -> str:
        if not isinstance(task, Prompt):
            raise InvalidCommand(f"{self._agent.name} can only be sent prompts")
        turn.step = 1
        agent = self._agent
        async with running(
            agent.command,
            name=agent.name,
            cwd=turn.settings.cwd,
            environment=agent.environment,
            guard=agent.guard,
            version=True,
        ) as process:
            try:
                with anyio.fail_after(START_SECONDS):
                    offered = await self._initialize(process)
                    session, unseen = await self._session(process, turn, offered)
            except ProgramRefused as refusal:
                raise ProviderError(f"{agent.name} refused: {refusal}") from None
            except TimeoutError:
                raise ProviderError(f"{agent.name} did not start in {START_SECONDS:g} s") from None
            process.forget_unread()  # the history that it replayed
            running_turn = AcpTurn(process, turn, session, agent.name)
            try:
                reason = await running_turn.run(_prompt(task.message, unseen))
            except anyio.get_cancelled_exc_class():
                await running_turn.cancel()
                raise
            agent.sessions.keep(turn.thread_id, session, {turn.turn_id: ""})
            return reason

    async def steer(self, message: UserMessage) -> None:  # noqa: ARG002
        raise InvalidCommand(f"{self._agent.name} does not accept messages while it works")

    def servers(self) -> Mapping[str, ServerStatus]:
        """None of ours: the agent starts them."""
        return {}

    async def _initialize(self, process: AgentProcess) -> Json:
        about = {"name": "hames", "title": "Hames", "version": "1"}
        params: Json = {"protocolVersion": 1, "clientInfo": about, "clientCapabilities": {"session": {"notices": {}}}}
        answer = await process.call("initialize", params)
        version = answer.get("protocolVersion") if isinstance(answer, dict) else None
        if version != 1:
            raise ProviderError(f"{self._agent.name} speaks version {version!r} of ACP; version 1 is needed")
        found = answer.get("agentCapabilities")
        return found if isinstance(found, dict) else {}

    async def _session(self, process: AgentProcess, turn: TurnHandle, offered: Json) -> tuple[str, list[Turn]]:
        """The agent's session for our thread, and the turns that it has not seen."""
        place: dict[str, Json] = {"cwd": turn.settings.cwd, "mcpServers": [_server(one) for one in turn.mcp_servers]}
        earlier = [one for one in turn.state.turns if one.id != turn.turn_id]
        known = None if turn.state.foreign else self._agent.sessions.known(turn.thread_id)
        if known is not None and (method := _reopening(offered)):
            try:
                opened = await process.call(method, {"sessionId": known.thread, **place})
                await self._choose_mode(process, turn, known.thread, opened)
                return known.thread, [one for one in earlier if one.id not in known.turns]
            except ProgramRefused:
                words = f"{self._agent.name} no longer has this thread, so it gets the conversation so far as text"
                notice = Noticed(source=self._agent.name, name="history_lost", message=words, turn_id=turn.turn_id)
                await turn.emit(notice)
        opened = await process.call("session/new", place)
        session = opened.get("sessionId") if isinstance(opened, dict) else None
        if not isinstance(session, str):
            raise ProviderError(f"{self._agent.name} opened no session")
        await self._choose_mode(process, turn, session, opened)
        self._agent.sessions.keep(turn.thread_id, session, {one.id: "" for one in earlier})
        return session, earlier

    async def _choose_mode(self, process: AgentProcess, turn: TurnHandle, session: str, opened: Json) -> None:
        """A thread that must change nothing needs a mode of the agent's own that changes nothing."""
        if turn.settings.agent == "code":
            return
        modes = opened.get("modes") if isinstance(opened, dict) else None
        there: list[Json] = modes.get("availableModes") or [] if isinstance(modes, dict) else []
        if not any(isinstance(one, dict) and one.get("id") == "plan" for one in there):
            words = "has no mode 'plan', so it cannot be kept from changing files; use the agent 'code'"
            raise ProviderError(f"{self._agent.name} {words}")
        await process.call("session/set_mode", {"sessionId": session, "modeId": "plan"})


def _reopening(offered: Json) -> str:
    """How a session is opened again; without its history where that is possible."""
    sessions = offered.get("sessionCapabilities")
    if isinstance(sessions, dict) and sessions.get("resume") is not None:
        return "session/resume"
    return "session/load" if offered.get("loadSession") is True else ""


def _prompt(message: UserMessage, unseen: list[Turn]) -> list[Json]:
    blocks: list[Json] = []
    if past := past_messages(unseen):
        said = [f"{one.role}: {part.text}" for one in past for part in one.content if isinstance(part, TextInput)]
        text = "\n\n".join(("The conversation so far, which you have not seen:", *said, "What follows is new."))
        blocks.append({"type": "text", "text": text})
    for part in shown_content(message):
        match part:
            case TextInput(text=text):
                blocks.append({"type": "text", "text": text})
            case ImageInput(url=url) if url.startswith("data:") and ";base64," in url:
                kind, _, data = url.removeprefix("data:").partition(";base64,")
                blocks.append({"type": "image", "mimeType": kind, "data": data})
            case ImageInput(url=url):
                blocks.append({"type": "resource_link", "uri": url, "name": url.rpartition("/")[2] or url})
    return blocks


def _server(server: ThreadServer) -> Json:
    if server.url:
        headers = [{"name": name, "value": value or ""} for name, value in server.headers.items()]
        return {"type": "http", "name": server.name, "url": server.url, "headers": headers}
    env = [{"name": name, "value": value or ""} for name, value in server.env.items()]
    return {"name": server.name, "command": server.command, "args": list(server.args), "env": env}
