"""What works with which agent behind Hames: noted by the tests, written to docs/reference/acp-agents.md by
`make test-clients`. A run of some of the tests writes the cells that it tried, and leaves the others as they are."""

from collections import defaultdict
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "acp-agents.md"
TEXT = """\
# Agents of ACP

Programs that speak ACP, run by `make test-clients` as they are, with a model on the loopback interface. Each runs
behind the named protocols; those that want a login are started, and the sentence that people read then is checked. An
empty cell was not tried, or did not work.

"""
COLUMNS = ("flint", "sync", "terminal", "killed", "start")
_results: dict[str, dict[str, str]] = defaultdict(dict)
_versions: dict[str, str] = {}


def note_agent(name: str, version: int, column: str, what: str) -> None:
    """`what` is empty when a test begins, so that a failure leaves its cell empty."""
    _results[name][column] = what
    _versions[name] = str(version)


def read_agents_table(text: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The versions and the cells of each agent."""
    versions: dict[str, str] = {}
    found: dict[str, dict[str, str]] = {}
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    columns = [cell.strip() for cell in lines[0].strip("|").split("|")][2:] if lines else []
    for line in lines[1:]:
        name, version, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        versions[name] = version
        found[name] = dict(zip(columns, cells, strict=True))
    return versions, found


def write_agents_table() -> None:
    if not _results:
        return
    versions, found = read_agents_table(PAGE.read_text(encoding="utf-8"))
    for name, told in _results.items():
        found[name] = {**found.get(name, {}), **told}
    versions |= _versions
    rows = ["| agent | ACP | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
    for name, told in sorted(found.items()):
        cells = " | ".join(told.get(column, "") for column in COLUMNS)
        rows.append(f"| {name} | {versions[name]} | {cells} |")
    PAGE.write_text(TEXT + "\n".join(rows) + "\n", encoding="utf-8")
