"""Programs of other people that start `codex app-server`, as they are and with their defaults. Here they start ours."""

import base64
import json
import shlex
import sys
import venv
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from clients_table import note_result
from real_agent import HAMES

from conftest import HOME, install_once, run_command
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import (
    ProviderServer,
    SeenRequest,
    ServerReply,
    ServerTalk,
    Thoughts,
    Use,
    Words,
    talk,
)
from matrix_support import MCP_SERVER

NPM = (
    "ai@6.0.326",
    "ai-sdk-provider-codex-app-server@1.1.7",
    "ai-sdk-provider-codex-cli@1.4.1",
    "zod@4.6.7",
)
PYPI = ("codex-app-server-client==0.1.0",)
MODEL = "anthropic/claude-sonnet-5-5"
HERE = Path(__file__).parent
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SECONDS = 600


def use(name: str, **arguments: object) -> ServerTalk:
    return ServerTalk(parts=(Use(name=name, arguments=json.dumps(arguments)),), stop="tools")


PLAN = [{"step": "Begin", "status": "inProgress"}, {"step": "End", "status": "pending"}]
REPLIES: dict[str, tuple[ServerTalk, ServerTalk]] = {
    "Make a file": (use("shell", command="touch made-by-agent"), talk("The file is there.")),
    "Make another file": (use("shell", command="touch another"), talk("As you decided.")),
    "Write a note": (use("write", path="note.txt", content="a note\n"), talk("The note is written.")),
    "Read the note": (use("read", path="note.txt"), talk("It says: a note.")),
    "Take your time": (use("shell", command="sleep 5"), talk("I sang.")),
    "Wait": (use("shell", command="sleep 600"), talk("I waited.")),
    "Add them": (use("mcp__test__add", a=40, b=2), talk("It is forty-two.")),
    "Plan": (use("plan", entries=PLAN), talk("That is the plan.")),
}
ANSWERS: dict[str, ServerTalk] = {
    "Greet me": ServerTalk(parts=(Thoughts(text="A greeting is in order."), Words(text="Hello from Hames."))),
    "Still there?": talk("Still here."),
    "Look": talk("A pixel."),
    "Count": talk('{"n": 1}'),
}


def _texts(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def reply(request: SeenRequest) -> ServerReply | ServerTalk:
    """What the model says: it goes by the last prompt that it knows, and by whether a tool has answered since."""
    messages: list[dict[str, Any]] = request.body["messages"]
    for number in range(len(messages) - 1, -1, -1):
        text = _texts(messages[number]) if messages[number]["role"] == "user" else ""
        for prompt, (first, last) in REPLIES.items():
            if prompt in text:
                return last if any(m["role"] == "assistant" for m in messages[number + 1 :]) else first
        for prompt, answer in ANSWERS.items():
            if prompt in text:
                return answer
    return talk("I do not know that prompt.")


class Place(NamedTuple):
    """`codex` is a program of ours where the clients expect Codex's. `asked` is what the model was asked."""

    codex: str
    workspace: Path
    picture: Path
    model: ProviderServer

    def asked(self, *texts: str) -> bool:
        """Whether one request had all of these in it."""
        return any(all(text in seen.raw.decode() for text in texts) for seen in self.model.seen)


@asynccontextmanager
async def place(folder: Path) -> AsyncGenerator[Place]:
    workspace, picture, codex = folder / "workspace", folder / "pixel.png", folder / "codex"
    workspace.mkdir()
    picture.write_bytes(base64.b64decode(PIXEL))
    async with ProviderServer(ANTHROPIC, then=reply, strict=False) as model:
        settings = {
            "HAMES_STATE": folder / "state",
            "HAMES_CONFIG": folder / "config.toml",
            "HAMES_MODEL": MODEL,
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "test",
        }
        words = [f"{name}={value}" for name, value in settings.items()]
        codex.write_text(f'#!/bin/sh\nexec env {shlex.join([*words, HAMES])} "$@"\n')
        codex.chmod(0o755)
        yield Place(str(codex), workspace, picture, model)


@pytest.fixture(scope="session")
def ai_sdk() -> Path:
    folder = HOME / "ai-sdk"
    words = ("npm", "install", "--no-audit", "--no-fund", "--omit=optional", "--prefix", str(folder), *NPM)
    install_once("ai-sdk", NPM, lambda: run_command(*words))
    return folder


@pytest.fixture(scope="session")
def app_server_client() -> str:
    folder = HOME / "app-server-client"
    python = str(folder / "bin" / "python")

    def install() -> None:
        venv.create(folder, with_pip=True, clear=True)
        run_command(python, "-m", "pip", "install", "-q", *PYPI)

    install_once("app-server-client", PYPI, install)
    return python


async def answers(*words: str) -> dict[str, Any]:
    with anyio.fail_after(SECONDS):
        done = await anyio.run_process(words, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


MCP = json.dumps([sys.executable, str(MCP_SERVER)])


@pytest.mark.parametrize("package", ["ai-sdk-provider-codex-app-server", "ai-sdk-provider-codex-cli"])
async def test_a_provider_of_the_ai_sdk_works_with_its_defaults(package: str, ai_sdk: Path, tmp_path: Path) -> None:
    driver = ai_sdk / "drive.mjs"
    driver.write_text((HERE / "drive_ai_sdk.mjs").read_text())
    async with place(tmp_path) as here:
        words = (package, here.codex, str(here.workspace), MODEL, str(here.picture), MCP)
        told = await answers("node", str(driver), *words)
        told |= await answers("node", str(driver), *words, told["kept"].get("thread", "none"))
        text = {name: got.get("text") for name, got in told.items()}
        works = {
            "text": text["text"] == "Hello from Hames.",
            "reasoning": told["text"].get("reasoning", "") == "A greeting is in order.",
            "command, default policy": text["command"] == "The file is there."
            and (here.workspace / "made-by-agent").exists(),
            "file change": text["file"] == "The note is written." and (here.workspace / "note.txt").exists(),
            "read and list": text["read"] == "It says: a note.",
            "schema": told["schema"] == {"n": 1},
            "image": text["image"] == "A pixel." and here.asked(PIXEL),
            "instructions": text["instructions"] == "Hello from Hames." and here.asked("You are a lighthouse."),
            "the client's MCP server": text["mcp"] == "It is forty-two." and here.asked("mcp__test__add", "42"),
            "resume": text["resume"] == "Still here." and here.asked("Greet me", "Still there?"),
            "steer": text["steer"] == "I sang." and here.asked("Take your time", "Also sing"),
            "interrupt": told["interrupt"].get("aborted") is True,
            "model list": told["models"].get("models", 0) > 0 and told["models"].get("isDefault") == MODEL,
        }
        if package == "ai-sdk-provider-codex-cli":  # the other one does not look at what the server says about it
            works["usage"] = bool(told["text"].get("usage", {}).get("outputTokens"))
    note_result(package, works)
    assert [name for name, worked in works.items() if not worked] == [], json.dumps(told, indent=1)


async def test_codex_app_server_client_works_with_its_defaults(app_server_client: str, tmp_path: Path) -> None:
    driver = str(HERE / "drive_app_server_client.py")
    async with place(tmp_path) as here:
        told = await answers(app_server_client, driver, here.codex, str(here.workspace), str(here.picture), MCP)
        text = {name: got.get("text") for name, got in told.items()}
        works = {
            "text": text["text"] == "Hello from Hames.",
            "reasoning": "reasoning" in told["text"].get("items", ()),
            "command, default policy": text["command"] == "The file is there."
            and (here.workspace / "made-by-agent").exists(),
            "approve, decline, for the session": told["approvals"].get("asked") == 3
            and (here.workspace / "another").exists(),
            "file change": text["file"] == "The note is written." and (here.workspace / "note.txt").exists(),
            "read and list": text["read"] == "It says: a note.",
            "plan": text["plan"] == "That is the plan.",
            "usage": told["text"].get("tokens", 0) > 0,
            "schema": json.loads(text["schema"] or "null") == {"n": 1},
            "image": text["image"] == "A pixel." and here.asked(PIXEL),
            "instructions": text["instructions"] == "Hello from Hames." and here.asked("You are a lighthouse."),
            "the client's MCP server": text["mcp"] == "It is forty-two." and here.asked("mcp__test__add", "42"),
            "resume": text["resume"] == "Still here." and here.asked("Greet me", "Still there?"),
            "steer": text["steer"] == "I sang." and here.asked("Take your time", "Also sing"),
            "interrupt": told["interrupt"].get("status") == "interrupted",
            "model list": told["models"].get("defaults") == [MODEL],
            "ephemeral": text["ephemeral"] == "Hello from Hames.",
        }
    note_result("codex-app-server-client", works)
    assert [name for name, worked in works.items() if not worked] == [], json.dumps(told, indent=1)
