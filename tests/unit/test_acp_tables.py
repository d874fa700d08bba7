"""The tables of ACP clients and agents in the docs have a row for everything that `make test-clients` runs."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "tests" / "clients"
REFERENCE = ROOT / "docs" / "reference"


def _keys(source: str, name: str) -> set[str]:
    """The keys of a dictionary that a module assigns to this name."""
    for node in ast.parse(source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name) and target.id == name:
            assert isinstance(node.value, ast.Dict)
            return {key.value for key in node.value.keys if isinstance(key, ast.Constant)}  # type: ignore[misc]
    raise AssertionError(name)


def test_the_table_of_agents_has_every_agent_that_is_tried() -> None:
    source = (CLIENTS / "test_acp_agents.py").read_text()
    rows = [line for line in (REFERENCE / "acp-agents.md").read_text().splitlines() if line.startswith("| ")]
    assert {row.split("|")[1].strip() for row in rows[1:]} == _keys(source, "AGENTS") | _keys(source, "LOGINS")


def test_the_table_of_clients_has_every_client_that_is_tried() -> None:
    transports = {f"TypeScript SDK, v{version}, {way}" for version in (1, 2) for way in ("stdio", "http", "ws")}
    source = (CLIENTS / "test_acp_clients.py").read_text()
    assert source.count("note_acp(") == 3, "a new client: name it here, and run make test-clients"
    [head, *_] = [line for line in (REFERENCE / "acp-clients.md").read_text().splitlines() if line.startswith("| ")]
    shown = {cell.strip() for cell in head.strip("|").split("|")} - {""}
    assert shown == transports | {"Python SDK, v1, stdio", "acpx, v1, stdio", "Toad, v1, stdio"}
