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
from codex_side import CONFIG, called
from request_clients import note_client
from served import Finished, documented, run_client, served

from conftest import HOME, install_once, run_command
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.openai import OPENAI
from hames.testing.services.server import ProviderServer, SeenRequest, ServerReply, ServerTalk, talk, use

FOLDER = HOME / "mcp"
NPM = ("@modelcontextprotocol/inspector@2.12.0", "@anthropic-ai/claude-code@2.1.325", "opencode-ai@1.18.33")
PAGE = "mcp-server.md"
GREETING = "Hello from Hames."
TRANSPORTS = ("stdio", "HTTP")
pytestmark = pytest.mark.timeout(1200)


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


def _has_result(request: SeenRequest) -> bool:
    return GREETING in request.raw.decode()


def as_claude(request: SeenRequest) -> ServerTalk:
    """It looks for the tool first: Claude Code tells its model only the names of MCP tools."""
    names = {tool.get("name") for tool in request.body.get("tools", [])}
    if not names:
        return talk('{"title": "A title"}')
    if _has_result(request):
        return talk("It said: done.")
    if "ToolSearch" in names and "tool_result" not in request.raw.decode():
        return use("ToolSearch", query="select:mcp__hames__hames", max_results=5)
    called_once = request.raw.decode().count('"tool_use"') > 1
    return talk("The call failed.") if called_once else use("mcp__hames__hames", prompt="Greet me")


def as_opencode(request: SeenRequest) -> ServerTalk:
    if not any(tool.get("name") == "hames_hames" for tool in request.body.get("tools", [])):
        return talk("A title")
    return talk("It said: done.") if _has_result(request) else use("hames_hames", prompt="Greet me")


def as_codex(request: SeenRequest) -> ServerTalk | ServerReply:
    if "function_call_output" in request.raw.decode():
        return talk("It said: done." if _has_result(request) else "The call failed.")
    return called("call_1", "hames", namespace="mcp__hames", prompt="Greet me")


@asynccontextmanager
async def places(folder: Path, transport: str) -> AsyncGenerator[tuple[Place, str]]:
    async with place(folder) as here:
        if transport == "stdio":
            yield here, ""
            return
        async with served(here) as url:
            yield here, url


def settle(client: str, version: str, transport: str, done: Finished, model: ProviderServer) -> None:
    assert done.code == 0, done.text
    tried = any(GREETING in seen.raw.decode() for seen in model.seen)
    offered = [[tool.get("name") for tool in seen.body.get("tools", [])] for seen in model.seen]
    assert tried, f"{done.text}\n{offered}\n{[seen.raw.decode()[-600:] for seen in model.seen]}"
    note_client("mcp", f"{client}, {transport}", version, {"list": True, "call": "It said: done." in done.out})


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_claude_code(modules: Path, tmp_path: Path, transport: str) -> None:
    async with (
        places(tmp_path, transport) as (here, url),
        ProviderServer(ANTHROPIC, then=as_claude, strict=False) as model,
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
        settle("Claude Code", "2.1.325", transport, done, model)


@pytest.mark.skip(reason="Codex's model finds MCP tools with tool_search, which the scripted model does not call yet")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_codex(node_modules: Path, tmp_path: Path, transport: str) -> None:
    async with (
        places(tmp_path, transport) as (here, url),
        ProviderServer(OPENAI, then=as_codex, strict=False) as model,
    ):
        home = tmp_path / "codex-home"
        home.mkdir()
        shown = {"http://127.0.0.1:4800": url} if url else {}
        block = documented(PAGE, 'url = "http://127.0.0.1:4800/mcp"' if url else 'args = ["mcp", "serve"]', shown)
        # Codex approves calls of this server by itself, as its user does once and for all.
        text = CONFIG.format(model="gpt-5.5", url=model.url) + block
        (home / "config.toml").write_text(text)
        codex = str(node_modules / ".bin" / "codex")
        words = ("exec", "--skip-git-repo-check", "Ask Hames")
        token = {"HAMES_TOKEN": "none"} if url else {}
        path = path_with_hames(here)
        done = await run_client(here, codex, *words, CODEX_HOME=str(home), PATH=path, **token)
        settle("Codex", "0.166.0", transport, done, model)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_opencode(modules: Path, tmp_path: Path, transport: str) -> None:
    async with (
        places(tmp_path, transport) as (here, url),
        ProviderServer(ANTHROPIC, then=as_opencode, strict=False) as model,
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
        settle("opencode", "1.18.33", transport, done, model)


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
        works = {
            "list": "hames-reply" in names,
            "call": json.loads(done.out)["structuredContent"]["content"] == GREETING,
        }
        note_client("mcp", f"MCP inspector (CLI), {transport}", "2.12.0", works)
