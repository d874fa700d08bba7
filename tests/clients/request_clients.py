"""What works with which client of MCP, AG-UI and OpenAI's APIs: noted by the tests in a file, from which
`scripts/request_clients.py` writes the tables of docs/matrix.md."""

import json
from collections.abc import Mapping

from conftest import HOME

RESULTS = HOME / "request-clients.json"


def note_client(protocol: str, client: str, version: str, works: Mapping[str, bool | str]) -> None:
    """A value is whether it works, or a note why the client does not offer it. Raises for what does not work."""
    noted = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    noted.setdefault(protocol, {})[client] = {"version": version, "works": dict(works)}
    RESULTS.write_text(json.dumps(noted, indent=1, sort_keys=True))
    broken = [name for name, worked in works.items() if worked is False]
    assert not broken, f"{client}: {broken}"
