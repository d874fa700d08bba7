"""SDKs that start `codex exec`: OpenAI's for TypeScript, and openai-codex-sdk of PyPI. Here they start `hames exec`."""

import json
import shutil
import venv
from pathlib import Path
from typing import Any

import pytest
from client_support import HERE, MCP, Place, answers, place
from clients_table import common, settle, texts

from conftest import HOME, install_once, run_command

NPM = ("@openai/codex-sdk@0.163.0",)
PYPI = ("openai-codex-sdk==0.1.11",)


@pytest.fixture(scope="session")
def typescript_sdk() -> Path:
    """The package alone: it need not bring a Codex along."""
    folder = HOME / "exec-sdk"
    words = ("npm", "install", "--no-audit", "--no-fund", "--omit=optional", "--prefix", str(folder), *NPM)
    install_once("exec-npm", NPM, lambda: run_command(*words))
    return folder


@pytest.fixture(scope="session")
def python_sdk() -> str:
    folder = HOME / "exec-python"
    python = str(folder / "bin" / "python")

    def install() -> None:
        venv.create(folder, with_pip=True, clear=True)
        run_command(python, "-m", "pip", "install", "-q", *PYPI)

    install_once("exec-pypi", PYPI, install)
    return python


def kinds(told: dict[str, Any], name: str) -> list[str]:
    return [item["type"] for item in told[name].get("items", ())]


def of_exec(told: dict[str, Any], here: Place) -> dict[str, bool]:
    """What both SDKs offer: they hand Codex's items over as they are."""
    text = texts(told)
    steps = [item["items"] for item in told["plan"].get("items", ()) if item["type"] == "todo_list"]
    works = {
        **common(told, here),
        "reasoning": kinds(told, "text") == ["reasoning", "agent_message"],
        "plan": text["plan"] == "That is the plan." and [len(todo) for todo in steps] == [2],
        "usage": (told["text"].get("usage") or {}).get("output_tokens", 0) > 0,
        "interrupt": told["interrupt"].get("aborted") is True,
        "resume": text["resume"] == "Still here." and here.asked("Greet me", "Still there?"),
        "schema": json.loads(text["schema"] or "null") == {"n": 1},
    }
    works["command, default policy"] &= kinds(told, "command") == ["command_execution", "agent_message"]
    works["file change"] &= kinds(told, "file") == ["file_change", "agent_message"]
    works["read and list"] &= kinds(told, "read") == ["mcp_tool_call", "mcp_tool_call", "agent_message"]
    return works


async def test_the_typescript_sdk_works_with_its_defaults(typescript_sdk: Path, tmp_path: Path) -> None:
    for module in HERE.glob("*.mjs"):
        shutil.copy(module, typescript_sdk)
    driver = str(typescript_sdk / "drive_typescript_sdk.mjs")
    async with place(tmp_path) as here:
        told = await answers("node", driver, here.codex, str(here.workspace), str(here.picture), MCP)
        works = of_exec(told, here)
    settle("@openai/codex-sdk", works, told)
    assert told["again"]["text"] == "Still here."
    assert told["streamed"]["kinds"] == [
        *("thread.started", "turn.started", "item.started", "item.completed", "item.completed", "turn.completed")
    ]
    (refused,) = [item for item in told["readonly"]["items"] if item["type"] == "command_execution"]
    assert refused["status"] == "failed"
    assert "no model 'no-such-model'" in told["refused"]["error"]


async def test_the_python_sdk_of_pypi_works_with_its_defaults(python_sdk: str, tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        driver = str(HERE / "drive_exec_sdk.py")
        told = await answers(python_sdk, driver, here.codex, str(here.workspace), str(here.picture))
        works = of_exec(told, here)
    settle("openai-codex-sdk", works, told)
