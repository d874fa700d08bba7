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
_results: dict[str, Mapping[str, bool]] = {}


def note_result(client: str, works: Mapping[str, bool]) -> None:
    assert set(works) <= set(ABILITIES), set(works) - set(ABILITIES)
    _results[client] = works


def write_table() -> None:
    """Only a run that tried every client writes it."""
    if not _results:
        return
    clients = sorted(_results)
    rows = ["| | " + " | ".join(f"`{client}`" for client in clients) + " |", "|---" * (len(clients) + 1) + "|"]
    for ability in ABILITIES:
        words = [{True: "yes", False: "no", None: "–"}[_results[client].get(ability)] for client in clients]
        rows.append(f"| {ability} | " + " | ".join(words) + " |")
    PAGE.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
