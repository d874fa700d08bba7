"""Writes the tables of clients of MCP, AG-UI and OpenAI's APIs into docs/matrix.md, from the results of
`make test-clients`.

python scripts/request_clients.py [RESULTS.json]
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / ".tools" / "clients" / "request-clients.json"
PAGE = ROOT / "docs" / "matrix.md"
BEGIN, END = "<!-- request clients: begin -->", "<!-- request clients: end -->"
TITLES = {
    "v1": ("OpenAI's APIs (`/v1`)", "openai-api.md"),
    "mcp": ("MCP (`hames mcp serve`, `/mcp`)", "mcp-server.md"),
    "agui": ("AG-UI (`/agui`)", "agui.md"),
}
HEAD = """\
## Clients of MCP, AG-UI and OpenAI's APIs

Programs and libraries of other projects that were run against Hames as they are. The tables are written from the
results of `make test-clients`. `yes` was tried and works, `no` does not, and a number is a note below the table.
"""


def tables(results: dict[str, Any]) -> str:
    parts = [HEAD]
    for protocol, (title, page) in TITLES.items():
        if clients := results.get(protocol):
            parts.append(table(title, page, clients))
    return "\n".join(parts)


def table(title: str, page: str, clients: dict[str, Any]) -> str:
    columns = list(dict.fromkeys(name for one in clients.values() for name in one["works"]))
    notes: list[str] = []

    def cell(value: bool | str | None) -> str:
        if isinstance(value, bool) or value is None:
            return {True: "yes", False: "no", None: ""}[value]
        if value not in notes:
            notes.append(value)
        return str(notes.index(value) + 1)

    rows = [f"**[{title}]({page})**", "", "| client | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, one in sorted(clients.items()):
        cells = " | ".join(cell(one["works"].get(column)) for column in columns)
        rows.append(f"| {name} {one['version']} | {cells} |")
    return "\n".join([*rows, "", *(f"{number}. {note}" for number, note in enumerate(notes, 1)), ""])


def main(source: str = str(RESULTS)) -> None:
    results = json.loads(Path(source).read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(
        f"{before.rstrip()}\n\n{BEGIN}\n{tables(results).rstrip()}\n{END}\n{after.lstrip()}", encoding="utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
