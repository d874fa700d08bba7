"""Clients of AG-UI as they are, against `/agui` of `hames serve`."""

from pathlib import Path

import pytest
from client_support import HERE, place
from request_clients import note_client
from served import driven, served

from conftest import HOME, install_once, run_command

FOLDER = HOME / "agui"
NPM = ("@copilotkit/runtime@1.75.0", "@copilotkit/core@1.75.0")
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="session")
def modules() -> Path:
    words = ("npm", "install", "--legacy-peer-deps", "--no-audit", "--no-fund", "--prefix", str(FOLDER))
    install_once("agui-npm", NPM, lambda: run_command(*words, *NPM))
    return FOLDER / "node_modules"


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
