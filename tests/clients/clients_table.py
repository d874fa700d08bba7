"""What works with which client: noted by the tests, written to docs/reference/clients.md by `make test-clients`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from client_support import PIXEL, Place

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
`make test-clients`: every cell was tried, except those of things that the client does not offer. `yes`: it works.
`no`: it does not. A number: the client does not offer it, and the note below the table says why.

"""
CHOSEN = """\
Some cells need a setting of the client. Codex's terminal has `--sandbox workspace-write`, as in a directory that its
user trusts, and `show_raw_agent_reasoning=true` for the thoughts (Ctrl+T shows them); its instructions and ephemeral
threads are those of `/side`. For MCP servers the AI SDK's providers have `autoApprove` or the policy `never`, because
nobody answers them there. The plan is one of the raw chunks of `ai-sdk-provider-codex-cli`. `openai-codex` asks through
its `CodexClient`.
"""
NO_ANSWERS = "it starts one process for each prompt and answers no questions: whatever would ask is declined"
ONE_PROCESS = "a running process takes no further input"
EXEC_MODELS = "`codex exec` has no list of models"
EXEC_PROVIDER = {
    "reasoning": "the provider passes on text and tool calls only",
    "approve, decline, for the session": NO_ANSWERS,
    "plan": "the provider passes on text and tool calls only",
    "resume": "the provider starts a new thread for each prompt",
    "steer": ONE_PROCESS,
    "model list": EXEC_MODELS,
    "ephemeral": "the thread is always kept",
}
NOT_OFFERED: dict[str, dict[str, str]] = {
    "@openai/codex": {
        "schema": "the terminal asks for no output schema",
        "the client's MCP server": "with `--remote` the terminal uses the MCP servers of the server",
    },
    "openai-codex": {},
    "@openai/codex-sdk": {
        "approve, decline, for the session": NO_ANSWERS,
        "steer": ONE_PROCESS,
        "model list": EXEC_MODELS,
        "ephemeral": "the thread is always kept",
    },
    "@agentclientprotocol/codex-acp": {
        "schema": "the Agent Client Protocol has no output schema",
        "ephemeral": "a session of an editor is always kept",
    },
    "ai-sdk-provider-codex-app-server": {
        "approve, decline, for the session": "the provider answers no request of the server",
        "plan": "the provider ignores plans",
        "usage": "the provider reports 0 tokens, whatever the server says",
        "ephemeral": "the thread is always kept",
    },
    "ai-sdk-provider-codex-cli 1.x": {},
    "ai-sdk-provider-codex-cli 1.x, exec": EXEC_PROVIDER,
    "ai-sdk-provider-codex-cli 2.x": {},
    "ai-sdk-provider-codex-cli 2.x, exec": EXEC_PROVIDER,
    "codex-app-server-client": {},
    "openai-codex-sdk": {
        "approve, decline, for the session": NO_ANSWERS,
        "steer": ONE_PROCESS,
        "instructions": "the SDK passes on no settings but its own few",
        "the client's MCP server": "the SDK passes on no settings but its own few",
        "model list": EXEC_MODELS,
        "ephemeral": "the thread is always kept",
    },
}
"""The columns, and why a cell is empty."""
_results: dict[str, Mapping[str, bool]] = {}


def note_result(client: str, works: Mapping[str, bool]) -> None:
    """A cell is tried or not offered, and never both."""
    offered = set(ABILITIES) - NOT_OFFERED[client].keys()
    assert set(works) == offered, set(works) ^ offered
    _results[client] = works


def texts(told: dict[str, Any]) -> dict[str, Any]:
    return {name: got.get("text") for name, got in told.items() if isinstance(got, dict)}


def common(told: dict[str, Any], here: Place) -> dict[str, bool]:
    """What nearly every client offers. The drivers tell it in the same words."""
    text = texts(told)
    works = {
        "text": text["text"] == "Hello from Hames.",
        "command, default policy": text["command"] == "The file is there." and here.has("made-by-agent"),
        "file change": text["file"] == "The note is written." and here.has("note.txt"),
        "read and list": text["read"] == "It says: a note." and here.asked("Read the note", "made-by-agent"),
        "image": text["image"] == "A pixel." and here.asked(PIXEL),
    }
    if "instructions" in told:
        works["instructions"] = text["instructions"] == "Hello from Hames." and here.asked("You are a lighthouse.")
    if "mcp" in told:
        works["the client's MCP server"] = text["mcp"] == "It is forty-two." and here.asked("mcp__test__add", "42")
    return works


def settle(client: str, works: dict[str, bool], told: dict[str, Any]) -> None:
    note_result(client, works)
    broken = [name for name, worked in works.items() if not worked]
    assert not broken, f"{client}: {broken}\n{json.dumps(told)}"


def write_table() -> None:
    """Only a run that tried every client writes it."""
    if set(_results) != set(NOT_OFFERED):
        return
    notes = list(dict.fromkeys(reason for reasons in NOT_OFFERED.values() for reason in reasons.values()))
    rows = ["| | " + " | ".join(f"`{client}`" for client in NOT_OFFERED) + " |", "|---" * (len(NOT_OFFERED) + 1) + "|"]
    for ability in ABILITIES:
        rows.append(f"| {ability} | " + " | ".join(_cell(client, ability, notes) for client in NOT_OFFERED) + " |")
    rows += ["", *(f"{number}. {note}" for number, note in enumerate(notes, start=1)), "", CHOSEN.rstrip()]
    PAGE.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")


def _cell(client: str, ability: str, notes: list[str]) -> str:
    if (reason := NOT_OFFERED[client].get(ability)) is not None:
        return str(notes.index(reason) + 1)
    return "yes" if _results[client][ability] else "no"
