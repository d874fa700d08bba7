"""The TypeScript client's picture of the wire is generated from the server's types, and is today's."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_client_has_the_types_the_server_sends() -> None:
    spec = importlib.util.spec_from_file_location("wire", ROOT / "web/scripts/wire.py")
    assert spec is not None
    assert spec.loader is not None
    wire = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wire)
    assert wire.WIRE.read_text() == wire.render(), "run `python web/scripts/wire.py --write`"
