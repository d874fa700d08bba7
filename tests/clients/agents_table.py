"""What works with which agent behind Hames: noted by the tests, written to docs/reference/acp-agents.md by
`make test-clients`."""

from collections import defaultdict
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "acp-agents.md"
TEXT = """\
# Agents of ACP

Programs that speak ACP, run by `make test-clients` as they are, with a model on the loopback interface. Each runs
behind the named protocols; those that want a login are started, and the sentence that people read then is checked.

"""
COLUMNS = ("flint", "sync", "terminal", "killed", "start")
_results: dict[str, dict[str, str]] = defaultdict(dict)
_versions: dict[str, int] = {}


def note_agent(name: str, version: int, column: str, what: str) -> None:
    _results[name][column] = what
    _versions[name] = version


def write_agents_table(expected: int) -> None:
    """Only a run that tried every agent writes it."""
    if len(_results) < expected:
        return
    rows = ["| agent | ACP | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
    for name, told in sorted(_results.items()):
        cells = " | ".join(told.get(column, "") for column in COLUMNS)
        rows.append(f"| {name} | {_versions[name]} | {cells} |")
    PAGE.write_text(TEXT + "\n".join(rows) + "\n", encoding="utf-8")
