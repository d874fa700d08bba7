"""Agents that speak ACP and are found on the PATH. Asked at every start, so nothing heavy is imported here."""

from collections.abc import Iterator, Mapping

from hames.domain.value import Value
from hames.executables import find_program, with_interpreter


class KnownAgent(Value):
    """`command` is how it is started in the mode that speaks ACP; `install` is what people type to get it."""

    name: str
    title: str
    command: tuple[str, ...]
    install: str
    sign_in: str
    """How people sign in to it, in words."""


KNOWN = (
    KnownAgent(
        name="claude",
        title="Claude Code",
        command=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        sign_in="run `claude` and `/login` once, or set ANTHROPIC_API_KEY",
    ),
    KnownAgent(
        name="codex-acp",
        title="Codex through codex-acp",
        command=("codex-acp",),
        install="npm install -g @agentclientprotocol/codex-acp",
        sign_in="run `codex login` once",
    ),
    KnownAgent(
        name="gemini",
        title="Gemini CLI",
        command=("gemini", "--acp"),
        install="npm install -g @google/gemini-cli",
        sign_in="run `gemini` once, or set GEMINI_API_KEY",
    ),
    KnownAgent(
        name="goose",
        title="goose",
        command=("goose", "acp"),
        install="npm install -g @aaif/goose",
        sign_in="run `goose configure` once",
    ),
    KnownAgent(
        name="opencode",
        title="OpenCode",
        command=("opencode", "acp"),
        install="npm install -g opencode-ai",
        sign_in="run `opencode auth login` once",
    ),
    KnownAgent(
        name="qwen",
        title="Qwen Code",
        command=("qwen", "--acp"),
        install="npm install -g @qwen-code/qwen-code",
        sign_in="run `qwen` once, or set OPENAI_API_KEY",
    ),
    KnownAgent(
        name="vibe",
        title="Mistral Vibe",
        command=("vibe-acp",),
        install="uv tool install mistral-vibe",
        sign_in="run `vibe` once, or set MISTRAL_API_KEY",
    ),
)


def find_known(environment: Mapping[str, str], workspace: str = "") -> Iterator[tuple[KnownAgent, list[str]]]:
    """Those that are installed, with the command line that starts each. Programs of the workspace do not count."""
    path = environment.get("PATH")
    for agent in KNOWN:
        program, *words = agent.command
        if found := find_program(program, path=path, workspace=workspace):
            yield agent, [*with_interpreter(found, path=path, workspace=workspace), *words]
