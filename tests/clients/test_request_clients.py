"""Clients of AG-UI, OpenAI's APIs and MCP as they are, against `hames serve` and `hames mcp serve`."""

import json
import venv
from pathlib import Path

import pytest
from client_support import HAMES, HERE, MODEL, place
from request_clients import note_client
from served import driven, served

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


async def test_typescript_clients_of_agui_openai_and_mcp(modules: Path, tmp_path: Path) -> None:
    async with place(tmp_path) as here, served(here) as url:
        serve = [HAMES, "mcp", "serve", "--cwd", str(here.workspace), "--model", MODEL]
        told = await driven(here, "node", str(HERE / "drive_requests.mjs"), str(modules), url, json.dumps(serve))
        agui = told["agui"]
        works = {
            "answer": agui["greeting"]["texts"] == [GREETING],
            "one thread": agui["again"]["texts"] == [THERE],
            "frontend tools": agui["sunny"]["texts"] == ["It is sunny."],
            "reasoning": agui["reasoning"] == ["A greeting is in order."],
            "approvals": agui["asked"]["outcome"]["type"] == "interrupt"
            and agui["approved"]["texts"] == ["It was approved."],
            "usage": agui["greeting"]["usage"][0]["outputTokens"] > 0,
        }
        note_client("agui", "@ag-ui/client", "1.0.0", works, agui)
        api = told["openai"]
        assert api["models"][0] == "hames"
        assert (api["whole"], api["streamed"], api["first"], api["stored"]) == (GREETING, THERE, GREETING, GREETING)
        assert api["usage"]["completion_tokens"] > 0
        assert api["approved"] == "It was approved."
        for name, one in told["ai"].items():
            assert one == {"text": GREETING, "streamed": THERE, "tool": "It is sunny.", "called": ["Oslo"]}, (name, one)
        for name, one in told["mcp"].items():
            works = {
                "list": "hames-reply" in one["tools"],
                "call": (one["first"]["content"], one["first"]["status"]) == (GREETING, "completed"),
                "approvals": one["reply"]["content"] == "It was approved."
                and any("touch approved" in question for question in one["questions"]),
                "progress": "".join(one["progress"]).startswith(GREETING),
                "resources": one["resources"] > 0,
            }
            note_client("mcp", f"MCP SDK, {'HTTP' if name == 'http' else name}", "1.32.2", works, one)


async def test_the_python_package_of_agui_reads_every_event(agui_python: str, tmp_path: Path) -> None:
    async with place(tmp_path) as here, served(here) as url:
        told = await driven(here, agui_python, str(HERE / "drive_requests.py"), url)
        assert (told["kinds"][0], told["kinds"][-1]) == ("RUN_STARTED", "RUN_FINISHED")
        note_client("agui", "ag-ui-protocol", "1.0.0", {"answer": told["text"] == GREETING}, told)
