"""What works with which client of MCP, AG-UI and OpenAI's APIs: noted by the tests, written to
docs/reference/request-clients.md by `make test-clients`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "request-clients.md"
TITLES = {
    "v1": "[OpenAI's APIs](../openai-api.md) (`/v1`)",
    "mcp": "[MCP](../mcp-server.md) (`hames mcp serve`, `/mcp`)",
    "agui": "[AG-UI](../agui.md) (`/agui`)",
}
EXPECTED: dict[str, tuple[str, ...]] = {
    "v1": (
        "@openai/agents",
        "AI SDK",
        "Codex",
        "langchain-openai",
        "litellm",
        "llm",
        "openai (npm)",
        "openai-agents",
        "opencode",
        "pydantic-ai",
    ),
    "mcp": tuple(
        f"{client}, {transport}"
        for client in ("Claude Code", "Codex", "MCP inspector (CLI)", "MCP SDK", "opencode")
        for transport in ("HTTP", "stdio")
    ),
    "agui": ("@ag-ui/client", "CopilotKit", "ag-ui-protocol", "assistant-ui"),
}
HEAD = """\
# Clients of MCP, AG-UI and OpenAI's APIs

Programs and libraries of other projects that were run against Hames as they are. The tables are written by
`make test-clients`, and only by a run that tried every client. `yes`: it was tried and works. `no`: it does not. A
number: the client does not offer it, and the note below the table says how. An empty cell was not tried.
"""


class _Row(NamedTuple):
    version: str
    works: Mapping[str, bool | str]


_results: dict[str, dict[str, _Row]] = {}


def note_client(protocol: str, client: str, version: str, works: Mapping[str, bool | str], told: Any = None) -> None:
    """A value is whether it works, or a note how the client does not offer it. Raises for what does not work."""
    assert client in EXPECTED[protocol], f"{client} is not in the list of {protocol}"
    _results.setdefault(protocol, {})[client] = _Row(version, works)
    broken = [name for name, worked in works.items() if worked is False]
    assert not broken, f"{client}: {broken}\n{json.dumps(told)}"


def write_request_tables() -> None:
    """Only a run that tried every client writes them: no row is older than the others."""
    if all(set(_results.get(protocol, ())) == set(clients) for protocol, clients in EXPECTED.items()):
        PAGE.write_text(HEAD + "".join(_table(protocol) for protocol in EXPECTED), encoding="utf-8")


def _table(protocol: str) -> str:
    rows = _results[protocol]
    columns = list(dict.fromkeys(name for client in EXPECTED[protocol] for name in rows[client].works))
    notes: list[str] = []

    def cell(value: bool | str | None) -> str:
        if value is None or isinstance(value, bool):
            return {True: "yes", False: "no", None: ""}[value]
        if value not in notes:
            notes.append(value)
        return str(notes.index(value) + 1)

    lines = [f"| client | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for client in EXPECTED[protocol]:
        cells = " | ".join(cell(rows[client].works.get(column)) for column in columns)
        lines.append(f"| {client} {rows[client].version} | {cells} |")
    said = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join(["", f"## {TITLES[protocol]}", "", *lines, *([""] if said else []), *said, ""])
