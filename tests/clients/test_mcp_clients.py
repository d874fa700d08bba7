"""Clients of MCP as they are, against `hames mcp serve` and `/mcp` of `hames serve`. The docs have their configuration.

The client is an agent with a model of its own, on the loopback interface: it calls the tool `hames` and says what came
back. Hames has a model as well.
"""

import json
import os
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from client_support import Place, place
from codex_side import CONFIG, called, searched
from request_clients import note_client
from served import Finished, documented, run_client, served

from conftest import HOME, install_once, run_command
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.openai import OPENAI
from hames.testing.services.server import ProviderServer, SeenRequest, ServerReply, ServerTalk, Use, talk

FOLDER = HOME / "mcp"
NPM = ("@modelcontextprotocol/inspector@2.12.0", "@anthropic-ai/claude-code@2.1.325", "opencode-ai@1.18.33")
PAGE = "mcp-server.md"
GREETING = "Hello from Hames."
TRANSPORTS = ("stdio", "HTTP")


@pytest.fixture(scope="session")
def modules() -> Path:
    words = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER))
    install_once("mcp-npm", NPM, lambda: run_command(*words, *NPM))
    return FOLDER / "node_modules"


def path_with_hames(here: Place) -> str:
    """A PATH on which `hames` is ours, with its model and its directories."""
    folder = here.folder / "bin"
    folder.mkdir()
    (folder / "hames").symlink_to(here.codex)
    return f"{folder}:{os.environ['PATH']}"


MOST_REQUESTS = 12
"""A client that has not come to its end by then goes in a circle."""


class Script:
    """The model of a client: it calls the tool, and says what came back. Every call and message has an id of its own,
    because clients keep their history by them."""

    def __init__(self, tool: str, *, listed: str, search: str = "") -> None:
        """`listed` is in what the client tells of another tool of ours, which this model never names."""
        self.tool, self.listed, self.search = tool, listed, search
        self.offered, self.has_result, self.requests = False, False, 0

    def note(self, request: SeenRequest) -> str:
        raw = request.raw.decode()
        self.requests += 1
        assert self.requests < MOST_REQUESTS, f"no end: {raw[-2000:]}"
        self.offered |= self.listed in raw
        self.has_result |= GREETING in raw
        return raw

    def with_anthropic(self, request: SeenRequest) -> ServerReply:
        raw, names = self.note(request), {tool.get("name") for tool in request.body.get("tools", [])}
        if not names:
            said = talk('{"title": "A title"}')
        elif GREETING in raw:
            said = talk("It said: done.")
        elif self.search in names and "tool_result" not in raw:
            said = self._use(self.search, query=f"select:{self.tool}", max_results=5)
        elif f"toolu_{self.tool}" in raw:
            said = talk("The call failed.")
        else:
            said = self._use(self.tool, prompt="Greet me")
        parts = [part.replace(b"msg_01", b"msg_%d" % self.requests) for part in ANTHROPIC.events(said)]
        return ServerReply(parts=tuple(parts))

    def _use(self, name: str, **arguments: object) -> ServerTalk:
        return ServerTalk(parts=(Use(name=name, arguments=json.dumps(arguments), id=f"toolu_{name}"),), stop="tools")

    def with_openai(self, request: SeenRequest) -> ServerTalk | ServerReply:
        raw = self.note(request)
        if "function_call_output" in raw:
            return talk("It said: done." if GREETING in raw else "The call failed.")
        may_search = any(tool.get("type") == "tool_search" for tool in request.body.get("tools", []))
        if may_search and "tool_search_output" not in raw:
            return searched("call_1", "hames")
        return called("call_2", "hames", namespace="mcp__hames", prompt="Greet me")


@asynccontextmanager
async def places(folder: Path, transport: str) -> AsyncGenerator[tuple[Place, str]]:
    async with place(folder) as here:
        if transport == "stdio":
            yield here, ""
            return
        async with served(here) as url:
            yield here, url


def settle(client: str, version: str, done: Finished, script: Script, model: ProviderServer) -> None:
    assert done.code == 0, done.text
    works = {"list": script.offered, "call": script.has_result and "It said: done." in done.out}
    seen = [seen.raw.decode()[-1500:] for seen in model.seen]
    note_client("mcp", client, version, works, [done.text, seen])


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_claude_code(modules: Path, tmp_path: Path, transport: str) -> None:
    """It tells its model the names of MCP tools, and how to look for them."""
    script = Script("mcp__hames__hames", listed="mcp__hames__hames-reply", search="ToolSearch")
    async with (
        places(tmp_path, transport) as (here, url),
        ProviderServer(ANTHROPIC, then=script.with_anthropic, strict=False) as model,
    ):
        path = path_with_hames(here)
        claude = str(modules / ".bin" / "claude")
        ours = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "test", "IS_SANDBOX": "1", "PATH": path}
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "MCP_TIMEOUT": "120000"}
        shown = {"http://127.0.0.1:4800": url} if url else {}
        lines = documented(PAGE, "claude mcp add hames --", shown).splitlines()
        words = shlex.split(next(line for line in lines if ("--transport http" in line) == bool(url)))
        added = await run_client(here, claude, *words[1:], **ours, **quiet)
        assert added.code == 0, added.text
        done = await run_client(here, claude, "-p", "Ask Hames", "--allowedTools", "mcp__hames__hames", **ours, **quiet)
        settle(f"Claude Code, {transport}", "2.1.325", done, script, model)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_codex(node_modules: Path, tmp_path: Path, transport: str) -> None:
    script = Script("hames", listed='"name":"hames_reply"')
    async with (
        places(tmp_path, transport) as (here, url),
        ProviderServer(OPENAI, then=script.with_openai, strict=False) as model,
    ):
        home = tmp_path / "codex-home"
        home.mkdir()
        shown = {"http://127.0.0.1:4800": url} if url else {}
        block = documented(PAGE, 'url = "http://127.0.0.1:4800/mcp"' if url else 'args = ["mcp", "serve"]', shown)
        # `codex exec` has nobody to ask about a call, and goes on without a server that takes long to start.
        approved = 'default_tools_approval_mode = "approve"\nrequired = true\n'
        text = CONFIG.format(model="gpt-5.5", url=model.url) + block + approved
        (home / "config.toml").write_text(text)
        codex = str(node_modules / ".bin" / "codex")
        words = ("exec", "--skip-git-repo-check", "Ask Hames")
        token = {"HAMES_TOKEN": "none"} if url else {}
        path = path_with_hames(here)
        done = await run_client(here, codex, *words, CODEX_HOME=str(home), PATH=path, **token)
        settle(f"Codex, {transport}", "0.166.0", done, script, model)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_opencode(modules: Path, tmp_path: Path, transport: str) -> None:
    script = Script("hames_hames", listed='"hames_hames-reply"')
    async with (
        places(tmp_path, transport) as (here, url),
        ProviderServer(ANTHROPIC, then=script.with_anthropic, strict=False) as model,
    ):
        shown = {"http://127.0.0.1:4800": url} if url else {}
        config: dict[str, Any] = json.loads(documented(PAGE, '"type": "remote"' if url else '"type": "local"', shown))
        config |= {
            "autoupdate": False,
            "share": "disabled",
            "model": "anthropic/claude-sonnet-4-5",
            "small_model": "anthropic/claude-haiku-4-5",
            "provider": {"anthropic": {"options": {"baseURL": f"{model.url}/v1", "apiKey": "test"}}},
        }
        (here.workspace / "opencode.json").write_text(json.dumps(config))
        folders = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        offline = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        program = str(modules / ".bin" / "opencode")
        path = path_with_hames(here)
        done = await run_client(here, program, "run", "Ask Hames", PATH=path, **folders, **offline)
        settle(f"opencode, {transport}", "1.18.33", done, script, model)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_command_line_of_the_mcp_inspector(modules: Path, tmp_path: Path, transport: str) -> None:
    async with places(tmp_path, transport) as (here, url):
        path = path_with_hames(here)
        server = (f"{url}/mcp", "--transport", "http") if url else ("hames", "mcp", "serve")
        inspector = (str(modules / ".bin" / "mcp-inspector"), "--cli", *server)
        listed = await run_client(here, *inspector, "--method", "tools/list", PATH=path)
        assert listed.code == 0, listed.text
        names = {tool["name"] for tool in json.loads(listed.out)["tools"]}
        words = ("--method", "tools/call", "--tool-name", "hames", "--tool-arg", "prompt=Greet me")
        done = await run_client(here, *inspector, *words, PATH=path)
        assert done.code == 0, done.text
        works: dict[str, bool | str] = {
            "list": "hames-reply" in names,
            "call": json.loads(done.out)["structuredContent"]["content"] == GREETING,
        }
        note_client("mcp", f"MCP inspector (CLI), {transport}", "2.12.0", works)
