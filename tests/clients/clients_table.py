"""What works with which client: noted by the tests, written to docs/reference/clients.md by `make test-clients`."""

from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "clients.md"
ABILITIES = (
    "text",
    "reasoning",
    "command, default policy",
    "approve, decline, for the session",
    "file change",
    "read and list",
    "plan",
    "usage",
    "interrupt",
    "resume",
    "image",
    "steer",
    "schema",
    "instructions",
    "the client's MCP server",
    "model list",
    "ephemeral",
)
HEAD = """\
# Clients of other projects

Programs made for Codex that were run against Hames as they are, with their own defaults. The table is written by
`make test-clients`. `yes`: tried, and it works. `no`: tried, and it does not. `–`: the client has nothing for it, or
it was not tried.

"""
CLIENTS = (
    "ai-sdk-provider-codex-app-server",
    "ai-sdk-provider-codex-cli",
    "codex-app-server-client",
    "@openai/codex",
    "openai-codex",
    "@agentclientprotocol/codex-acp",
    "@openai/codex-sdk",
)
_results: dict[str, Mapping[str, bool]] = {}


def note_all(client: str, *abilities: str) -> None:
    """For a test that has come to its end: all of these work."""
    note_result(client, dict.fromkeys(abilities, True))


def note_result(client: str, works: Mapping[str, bool]) -> None:
    assert set(works) <= set(ABILITIES), set(works) - set(ABILITIES)
    assert client in CLIENTS
    _results[client] = works


def write_table() -> None:
    """Only a run that tried every client writes it."""
    if set(_results) != set(CLIENTS):
        return
    rows = ["| | " + " | ".join(f"`{client}`" for client in CLIENTS) + " |", "|---" * (len(CLIENTS) + 1) + "|"]
    for ability in ABILITIES:
        words = [{True: "yes", False: "no", None: "–"}[_results[client].get(ability)] for client in CLIENTS]
        rows.append(f"| {ability} | " + " | ".join(words) + " |")
    PAGE.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
