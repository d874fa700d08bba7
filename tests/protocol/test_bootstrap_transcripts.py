"""bootstrap, as its transcripts have it."""

from pathlib import Path
from typing import Any

import pytest
from transcripts import Scene, play, scenes

PROBE = {"jsonrpc": "2.0", "method": "initialize"}


def well_formed(message: Any) -> None:
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        assert set(message) == {"jsonrpc", "method", "params"}
        return
    assert set(message) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    if "error" in message:
        assert set(message["error"]) == {"code", "message"}


@pytest.mark.parametrize("scene", scenes(Path(__file__).parent / "bootstrap"), ids=str)
async def test_the_server_speaks_as_written(scene: Scene, tmp_path: Path) -> None:
    await play(scene, tmp_path, PROBE, well_formed)
