"""What works with which client of ACP: noted by the tests, written to docs/reference/acp-clients.md by
`make test-clients`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "acp-clients.md"
HEAD = """\
# Clients of ACP

Programs made for the Agent Client Protocol that were run against `hames acp` and `/acp` of `hames serve` as they are.
The table is written by `make test-clients`. Every cell was tried; an empty one is something that the client does not
offer.

"""
_results: dict[str, Mapping[str, bool]] = {}


def note_acp(client: str, works: Mapping[str, bool], told: Any) -> None:
    _results[client] = works
    broken = [name for name, worked in works.items() if not worked]
    assert not broken, f"{client}: {broken}\n{json.dumps(told)}"


def write_acp_table(expected: int) -> None:
    """Only a run that tried every client writes it."""
    if len(_results) < expected:
        return
    abilities = list(dict.fromkeys(ability for works in _results.values() for ability in works))
    rows = ["| | " + " | ".join(_results) + " |", "|---" * (len(_results) + 1) + "|"]
    for ability in abilities:
        cells = [{True: "yes", False: "no", None: ""}[works.get(ability)] for works in _results.values()]
        rows.append(f"| {ability} | " + " | ".join(cells) + " |")
    PAGE.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
