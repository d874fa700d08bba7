"""Programs of other people that start `codex app-server` or `codex exec`, as they are and with their defaults."""

import json
import shutil
import venv
from pathlib import Path
from typing import NamedTuple

import pytest
from client_support import HERE, MCP, MODEL, answers, place
from clients_table import common, settle, texts

from conftest import HOME, install_once, run_command

AI_SDK_6 = (
    "ai@6.0.326",
    "ai-sdk-provider-codex-app-server@1.1.7",
    "ai-sdk-provider-codex-cli@1.4.1",
    "zod@4.6.7",
)
AI_SDK_7 = ("ai@7.0.169", "ai-sdk-provider-codex-cli@2.2.1", "zod@4.6.7", "node@22.23.3")
"""It needs Node 22, which is a package, too."""
PYPI = ("codex-app-server-client==0.1.0",)


class AiSdk(NamedTuple):
    """An installation of the AI SDK: where it is, and the Node that it runs with."""

    folder: Path
    node: str

    def driver(self, name: str) -> tuple[str, str]:
        """Node finds packages from where a program is, so the drivers must be there."""
        for module in HERE.glob("*.mjs"):
            shutil.copy(module, self.folder)
        return self.node, str(self.folder / name)


def install_npm(name: str, packages: tuple[str, ...]) -> Path:
    folder = HOME / name
    words = ("npm", "install", "--no-audit", "--no-fund", "--omit=optional", "--prefix", str(folder), *packages)
    install_once(name, packages, lambda: run_command(*words))
    return folder


@pytest.fixture(scope="session")
def ai_sdk_6() -> AiSdk:
    return AiSdk(install_npm("ai-sdk-6", AI_SDK_6), "node")


@pytest.fixture(scope="session")
def ai_sdk_7() -> AiSdk:
    folder = install_npm("ai-sdk-7", AI_SDK_7)
    return AiSdk(folder, str(folder / "node_modules" / "node" / "bin" / "node"))


@pytest.fixture(scope="session")
def app_server_client() -> str:
    folder = HOME / "app-server-client"
    python = str(folder / "bin" / "python")

    def install() -> None:
        venv.create(folder, with_pip=True, clear=True)
        run_command(python, "-m", "pip", "install", "-q", *PYPI)

    install_once("app-server-client", PYPI, install)
    return python


async def drive_app_server_provider(package: str, sdk: AiSdk, folder: Path, client: str) -> None:
    async with place(folder) as here:
        words = (*sdk.driver("drive_ai_sdk.mjs"), package, here.codex, str(here.workspace))
        words = (*words, MODEL, str(here.picture), MCP)
        told = await answers(*words)
        told |= await answers(*words, told["kept"].get("thread", "none"))
        text = texts(told)
        works = {
            **common(told, here),
            "reasoning": told["text"].get("reasoning", "") == "A greeting is in order.",
            "schema": told["schema"] == {"n": 1},
            "resume": text["resume"] == "Still here." and here.asked("Greet me", "Still there?"),
            "steer": text["steer"] == "I sang." and here.asked("Take your time", "Also sing"),
            "interrupt": told["interrupt"].get("aborted") is True,
            "model list": told["models"].get("models", 0) > 0 and told["models"].get("isDefault") == MODEL,
        }
        works["instructions"] &= here.asked("Shine at night.")
        works["the client's MCP server"] &= text["mcpInProcess"] == "It is forty-two." and here.asked("sum")
        assert text["plan"] == "That is the plan.", told["plan"]
        if package == "ai-sdk-provider-codex-cli":
            works |= {
                "usage": bool(told["text"].get("usage", {}).get("outputTokens")),
                "plan": "turn/plan/updated" in told["plan"]["raw"],
                "approve, decline, for the session": here.decided and len(told["approvals"].get("asked", ())) == 3,
                "ephemeral": here.deleted({**told["text"], "saved": told["saved"]}) and len(told["saved"]) < 2,
            }
    settle(client, works, told)


async def test_ai_sdk_provider_codex_app_server_works_with_its_defaults(ai_sdk_6: AiSdk, tmp_path: Path) -> None:
    name = "ai-sdk-provider-codex-app-server"
    await drive_app_server_provider(name, ai_sdk_6, tmp_path, name)


@pytest.mark.parametrize("line", ["1.x", "2.x"])
async def test_ai_sdk_provider_codex_cli_works_with_its_defaults(
    line: str, ai_sdk_6: AiSdk, ai_sdk_7: AiSdk, tmp_path: Path
) -> None:
    name = "ai-sdk-provider-codex-cli"
    sdk = ai_sdk_6 if line == "1.x" else ai_sdk_7
    await drive_app_server_provider(name, sdk, tmp_path, f"{name} {line}")


@pytest.mark.parametrize("line", ["1.x", "2.x"])
async def test_ai_sdk_provider_codex_cli_works_with_exec(
    line: str, ai_sdk_6: AiSdk, ai_sdk_7: AiSdk, tmp_path: Path
) -> None:
    sdk = ai_sdk_6 if line == "1.x" else ai_sdk_7
    async with place(tmp_path) as here:
        words = (*sdk.driver("drive_ai_sdk_exec.mjs"), here.codex, str(here.workspace))
        told = await answers(*words, MODEL, str(here.picture), MCP)
        works = {
            **common(told, here),
            "usage": bool(told["text"].get("usage", {}).get("outputTokens")),
            "schema": told["schema"] == {"n": 1},
            "interrupt": told["interrupt"].get("aborted") is True,
        }
        works["instructions"] &= here.asked("Shine at night.")
    settle(f"ai-sdk-provider-codex-cli {line}, exec", works, told)


async def test_codex_app_server_client_works_with_its_defaults(app_server_client: str, tmp_path: Path) -> None:
    driver = str(HERE / "drive_app_server_client.py")
    async with place(tmp_path) as here:
        told = await answers(app_server_client, driver, here.codex, str(here.workspace), str(here.picture), MCP)
        text = texts(told)
        works = {
            **common(told, here),
            "reasoning": "reasoning" in told["text"].get("items", ()),
            "approve, decline, for the session": told["approvals"].get("asked") == 3 and here.decided,
            "plan": text["plan"] == "That is the plan." and "turn/plan/updated" in told["plan"].get("heard", ()),
            "usage": told["text"].get("tokens", 0) > 0,
            "schema": json.loads(text["schema"] or "null") == {"n": 1},
            "resume": text["resume"] == "Still here." and here.asked("Greet me", "Still there?"),
            "steer": text["steer"] == "I sang." and here.asked("Take your time", "Also sing"),
            "interrupt": told["interrupt"].get("status") == "interrupted",
            "model list": told["models"].get("defaults") == [MODEL],
            "ephemeral": here.deleted(told["ephemeral"]),
        }
    settle("codex-app-server-client", works, told)
