"""Clients of AG-UI as they are, against `/agui` of `hames serve`."""

from pathlib import Path

import pytest
from client_support import HERE, place
from request_clients import note_client
from served import driven, served

from conftest import HOME, install_once, run_command

FOLDER = HOME / "agui"
NPM = ("@copilotkit/runtime@1.75.0", "@copilotkit/core@1.75.0", "--before=2026-10-05")
ASSISTANT_UI = (
    "@assistant-ui/react-ag-ui@0.0.57",
    "@assistant-ui/react@0.15.17",
    "react@19",
    "react-dom@19",
    "jsdom@26",
    "--before=2026-08-31T19:20:46Z",
)
"""What they depend on has no fixed versions, so a date has: newer ones name versions that were never published."""


@pytest.fixture(scope="session")
def modules() -> Path:
    words = ("npm", "install", "--legacy-peer-deps", "--no-audit", "--no-fund", "--prefix", str(FOLDER))
    install_once("agui-npm", NPM, lambda: run_command(*words, *NPM))
    return FOLDER / "node_modules"


@pytest.fixture(scope="session")
def assistant_ui() -> Path:
    folder = HOME / "assistant-ui"
    words = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder))
    install_once("assistant-ui-npm", ASSISTANT_UI, lambda: run_command(*words, *ASSISTANT_UI))
    return folder / "node_modules"


async def test_assistant_ui(assistant_ui: Path, tmp_path: Path) -> None:
    """Its components, with its runtime for AG-UI, in a page of jsdom."""
    async with place(tmp_path) as here, served(here) as url:
        told = await driven(here, "node", str(HERE / "drive_assistant_ui.mjs"), str(assistant_ui), url)
        assert not told["errors"], told
        shown = told["messages"]
        [asked] = told["interrupts"]
        works = {
            "answer": "Hello from Hames." in shown[1],
            "one thread": shown[3] == "Still here.",
            "frontend tools": told["called"] == ["Oslo"] and "It is sunny." in shown,
            "reasoning": told["reasoning"] == ["A greeting is in order."],
            "approvals": "touch approved" in asked["message"] and shown[-1] == "It was approved.",
        }
        note_client("agui", "assistant-ui", "0.0.57", works, told)


async def test_copilotkit(modules: Path, tmp_path: Path) -> None:
    async with place(tmp_path) as here, served(here) as url:
        told = await driven(here, "node", str(HERE / "drive_copilotkit.mjs"), str(modules), url)
        assert not told["errors"], told
        works = {
            "answer": told["text"]["text"] == "Hello from Hames.",
            "one thread": told["again"]["text"] == "Still here.",
            "frontend tools": told["called"] == ["Oslo"] and told["tool"]["text"].endswith("It is sunny."),
        }
        note_client("agui", "CopilotKit", "1.75.0", works)
