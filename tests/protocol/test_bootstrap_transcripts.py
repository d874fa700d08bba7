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


SCENES = scenes(Path(__file__).parent / "bootstrap")


@pytest.mark.parametrize("scene", SCENES, ids=str)
async def test_the_server_speaks_as_written(scene: Scene, tmp_path: Path) -> None:
    await play(scene, tmp_path, PROBE, well_formed)


@pytest.mark.parametrize("scene", [scene for scene in SCENES if not str(scene).startswith("the-end-of-input")], ids=str)
async def test_it_speaks_the_same_where_another_process_runs_the_turns(scene: Scene, tmp_path: Path) -> None:
    """All but the end of input, which ends the turns of this process alone."""
    await play(scene, tmp_path, PROBE, well_formed, created_elsewhere=True)


OF_ONE_PROCESS = ("the-end-of-input", "events-and-metadata-lie", "after-a-restart-a-pending", "a-turn-that-a-restart")
"""They are about the files of a process, or about turns that end with it; a worker goes on with them."""


@pytest.mark.slow
@pytest.mark.parametrize("scene", [scene for scene in SCENES if not str(scene).startswith(OF_ONE_PROCESS)], ids=str)
async def test_a_gateway_speaks_the_same_while_a_worker_runs_the_turns(
    scene: Scene, tmp_path: Path, database: str
) -> None:
    await play(scene, tmp_path, PROBE, well_formed, database=database)
