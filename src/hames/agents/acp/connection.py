"""A started ACP agent: the greeting that chooses the protocol's version, and its sessions.

Agents are asked for version 2 with a request that version 1 understands as well. Some answer 2 and speak 1: then the
shape of the answer counts.
"""

import os
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from hames.agents.acp.known import KNOWN
from hames.agents.acp.options import AgentCatalog, AgentOption, read_options
from hames.agents.process import AgentProcess, ProgramRefused
from hames.domain.errors import InvalidCommand, ProviderError
from hames.domain.json import Json
from hames.domain.options import ThreadServer
from hames.executables import find_program

LATEST = 2
NOT_SIGNED_IN = -32000
ABOUT: Json = {"name": "hames", "title": "Hames", "version": "1"}
ELICITATION: Json = {"form": {}, "url": {}}


class AcpConnection:
    """`version` is what the agent speaks. Requests raise `ProgramRefused` and `ProviderError`."""

    def __init__(self, process: AgentProcess, name: str, environment: Mapping[str, str]) -> None:
        self.process = process
        self.name = name
        self.version = 0
        self.title = ""
        self.sign_in: tuple[str, ...] = ()
        """How the agent says that people sign in."""
        self._capabilities: dict[str, Json] = {}
        self._environment = environment

    async def greet(self, wanted: int = LATEST, *, runs_commands: bool = False) -> None:
        """`runs_commands`: the agent may ask us to run commands, and to read and write files."""
        theirs: Json = {
            "fs": {"readTextFile": runs_commands, "writeTextFile": runs_commands},
            "terminal": runs_commands,
            "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
            "elicitation": ELICITATION,
            "_meta": {"terminal_output": True},
        }
        params: dict[str, Json] = {"protocolVersion": wanted, "clientInfo": ABOUT, "clientCapabilities": theirs}
        if wanted >= LATEST:
            params |= {"info": ABOUT, "capabilities": {"elicitation": ELICITATION}}
        try:
            answer = await self.process.call("initialize", params)
        except ProgramRefused:
            if wanted < LATEST:
                raise
            await self.greet(1, runs_commands=runs_commands)
            return
        self._read_greeting(answer)

    def _read_greeting(self, answer: Json) -> None:
        match answer:
            case {"protocolVersion": 2, "info": dict(about)}:
                self.version, offered = 2, answer.get("capabilities")
            case {"protocolVersion": 1 | 2}:
                self.version, offered, about = 1, answer.get("agentCapabilities"), answer.get("agentInfo")
            case {"protocolVersion": version}:
                raise ProviderError(f"{self.name} speaks version {version!r} of ACP; version 1 or 2 is needed")
            case _:
                raise ProviderError(f"{self.name} does not speak ACP: it answered 'initialize' with something else")
        self._capabilities = offered if isinstance(offered, dict) else {}
        if isinstance(about, dict):
            title = about.get("title") or about.get("name")
            self.title = title if isinstance(title, str) and title.isprintable() else ""
        methods = answer.get("authMethods")
        ways = [one for one in (methods if isinstance(methods, list) else []) if isinstance(one, dict)]
        self.sign_in = tuple(str(one.get("description") or one.get("name") or "") for one in ways)

    @property
    def takes_images(self) -> bool:
        match self.version, self._capabilities:
            case 1, {"promptCapabilities": {"image": True}}:
                return True
            case 2, {"session": {"prompt": {"image": dict()}}}:
                return True
            case _:
                return False

    @property
    def _sessions(self) -> dict[str, Json]:
        found = self._capabilities.get("session" if self.version == LATEST else "sessionCapabilities")
        return found if isinstance(found, dict) else {}

    @property
    def reopens(self) -> bool:
        """Whether it can open a session again."""
        return self._reopening != ""

    @property
    def _reopening(self) -> str:
        """Without its history where that is possible."""
        if self.version == LATEST or self._sessions.get("resume") is not None:
            return "session/resume"
        return "session/load" if self._capabilities.get("loadSession") is True else ""

    async def new_session(self, cwd: str, servers: Sequence[ThreadServer], roots: Sequence[str] = ()) -> Json:
        opened = await self.process.call("session/new", self._place(cwd, servers, roots))
        if not isinstance(opened, dict) or not isinstance(opened.get("sessionId"), str):
            raise ProviderError(f"{self.name} opened no session")
        return opened

    async def reopen_session(
        self, session: str, cwd: str, servers: Sequence[ThreadServer], roots: Sequence[str] = ()
    ) -> Json:
        """What it replays of the session's history stays unread."""
        return await self.process.call(self._reopening, {"sessionId": session, **self._place(cwd, servers, roots)})

    def _place(self, cwd: str, servers: Sequence[ThreadServer], roots: Sequence[str]) -> dict[str, Json]:
        place: dict[str, Json] = {"cwd": cwd, "mcpServers": [self._server(one) for one in servers]}
        if roots and self._sessions.get("additionalDirectories") is not None:
            place["additionalDirectories"] = list(roots)
        return place

    async def set_option(self, session: str, option: AgentOption, value: str) -> None:
        about: dict[str, Json] = {"sessionId": session}
        match option.how:
            case "mode":
                await self.process.call("session/set_mode", {**about, "modeId": value})
            case "model":
                await self.process.call("session/set_model", {**about, "modelId": value})
            case "boolean":
                chosen = {"configId": option.id, "type": "boolean", "value": value == "true"}
                await self.process.call("session/set_config_option", {**about, **chosen})
            case "config":
                kind = {"type": "id"} if self.version == LATEST else {}
                chosen = {"configId": option.id, **kind, "value": value}
                await self.process.call("session/set_config_option", {**about, **chosen})

    def catalog(self, before: AgentCatalog, opened: Json, *, is_new: bool = True) -> AgentCatalog:
        """What the agent offers, after it has opened a session."""
        learned = before.learned(read_options(opened), is_new=is_new).with_commands(opened)
        return replace(learned, images=self.takes_images, title=self.title or self.name)

    def refusal(self, refused: ProgramRefused) -> ProviderError:
        """What to tell people when a session could not be opened."""
        if refused.code != NOT_SIGNED_IN:
            return ProviderError(f"{self.name} refused: {refused}")
        known = next((one.sign_in for one in KNOWN if one.name == self.name), "")
        way = known or next((one for one in self.sign_in if one), "")
        words = f"{self.name} is not signed in: {str(refused).rstrip('.')}{'. To sign in, ' + way if way else ''}"
        return ProviderError(words, info="Unauthorized")

    def _server(self, server: ThreadServer) -> Json:
        """An MCP server of the client's. Raises `InvalidCommand` for one whose secrets are gone."""
        if None in (*server.env.values(), *server.headers.values()):
            words = f"the environment and headers of the MCP server {server.name!r} are not kept: send them again"
            raise InvalidCommand(words)
        environment = self._environment
        if server.url:
            headers = {**server.headers}
            headers |= {name: environment[its] for name, its in server.env_headers.items() if its in environment}
            if token := environment.get(server.bearer_token_env_var, ""):
                headers["Authorization"] = f"Bearer {token}"
            named = [{"name": name, "value": value} for name, value in headers.items()]
            return {"type": "http", "name": server.name, "url": server.url, "headers": named}
        known = {name: environment[name] for name in server.env_vars if name in environment} | server.env
        env = [{"name": name, "value": value} for name, value in known.items()]
        program, path = server.command, environment.get("PATH")
        absolute = program if os.path.isabs(program) else find_program(program, path=path)  # noqa: PTH117
        kind = {"type": "stdio"} if self.version == LATEST else {}
        return {**kind, "name": server.name, "command": absolute or program, "args": list(server.args), "env": env}
