"""Clients of AG-UI, OpenAI's APIs and MCP as they are, against `hames serve` and `hames mcp serve`."""

import json
import os
import venv
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from client_support import HAMES, HERE, MODEL, Place, place

from conftest import HOME, install_once, run_command

NPM = (
    "@ag-ui/client@1.0.0",
    "openai@6.49.0",
    "@modelcontextprotocol/sdk@1.32.2",
    "ai@6.0.326",
    "@ai-sdk/openai@3.0.139",
    "@ai-sdk/openai-compatible@2.0.87",
)
PYPI = ("ag-ui-protocol==1.0.0",)
FOLDER = HOME / "requests"
SECONDS = 600
GREETING, THERE = "Hello from Hames.", "Still here."


@pytest.fixture(scope="session")
def modules() -> Path:
    install_once(
        "requests-npm",
        NPM,
        lambda: run_command("npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER), *NPM),
    )
    return FOLDER / "node_modules"


@pytest.fixture(scope="session")
def agui_python() -> str:
    python = str(FOLDER / "python" / "bin" / "python")

    def install() -> None:
        venv.create(FOLDER / "python", with_pip=True, clear=True)
        run_command(python, "-m", "pip", "install", "-q", *PYPI)

    install_once("requests-pypi", PYPI, install)
    return python


@asynccontextmanager
async def served(here: Place) -> AsyncGenerator[str]:
    """The address of a server."""
    command = [HAMES, "serve", "--port", "0", "--cwd", str(here.workspace), "--model", MODEL]
    environment = {**os.environ, **here.environment}
    process = await anyio.open_process(command, env=environment, cwd=here.workspace, stderr=None)
    try:
        assert process.stdout is not None
        said = b""
        with anyio.fail_after(60):
            while b"Ctrl+C" not in said:
                said += await process.stdout.receive()
        yield said.split()[3].decode()
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()


async def driven(here: Place, *command: str) -> dict[str, Any]:
    with anyio.fail_after(SECONDS):
        done = await anyio.run_process(command, check=False, env={**os.environ, **here.environment}, cwd=here.workspace)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"{done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()[-8000:]}") from None


async def test_typescript_clients_of_agui_openai_and_mcp(modules: Path, tmp_path: Path) -> None:
    async with place(tmp_path) as here, served(here) as url:
        serve = [HAMES, "mcp", "serve", "--cwd", str(here.workspace), "--model", MODEL]
        told = await driven(here, "node", str(HERE / "drive_requests.mjs"), str(modules), url, json.dumps(serve))
        agui = told["agui"]
        assert agui["greeting"]["texts"] == [GREETING], agui
        assert agui["reasoning"] == ["A greeting is in order."]
        assert agui["greeting"]["usage"][0]["outputTokens"] > 0
        assert agui["again"]["texts"] == [THERE]
        assert agui["sunny"]["texts"] == ["It is sunny."], agui
        assert agui["asked"]["outcome"]["type"] == "interrupt"
        assert agui["approved"]["texts"] == ["It was approved."], agui
        api = told["openai"]
        assert api["models"][0] == "hames"
        assert (api["whole"], api["streamed"], api["first"], api["stored"]) == (GREETING, THERE, GREETING, GREETING)
        assert api["usage"]["completion_tokens"] > 0
        assert api["approved"] == "It was approved."
        for name, one in told["ai"].items():
            assert one == {"text": GREETING, "streamed": THERE, "tool": "It is sunny.", "called": ["Oslo"]}, (name, one)
        for name, one in told["mcp"].items():
            assert "hames-reply" in one["tools"]
            assert (one["first"]["content"], one["first"]["status"]) == (GREETING, "completed"), name
            assert one["reply"]["content"] == "It was approved.", (name, one)
            assert any("touch approved" in question for question in one["questions"]), (name, one)
            assert "".join(one["progress"]).startswith(GREETING)
            assert one["resources"] > 0


async def test_the_python_package_of_agui_reads_every_event(agui_python: str, tmp_path: Path) -> None:
    async with place(tmp_path) as here, served(here) as url:
        told = await driven(here, agui_python, str(HERE / "drive_requests.py"), url)
        assert told["text"] == GREETING
        assert told["kinds"][0] == "RUN_STARTED"
        assert told["kinds"][-1] == "RUN_FINISHED"
