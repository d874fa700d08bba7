"""Every transcript of this folder, replayed against a real engine with real tools and a scripted model."""

from pathlib import Path

import pytest
from flint_transcripts import replay

HERE = Path(__file__).parent


NAMES = sorted(path.name for path in HERE.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
async def test_the_conversation_goes_as_written(name: str, tmp_path: Path) -> None:
    await replay(HERE / name, tmp_path)


IN_PIECES = ("interrupt.txt", "turn.txt")
"""Those that say in which pieces text comes: pieces that come at once are read as one elsewhere."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in IN_PIECES])
async def test_it_goes_the_same_way_where_another_process_runs_the_turns(name: str, tmp_path: Path) -> None:
    await replay(HERE / name, tmp_path, created_elsewhere=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in IN_PIECES])
async def test_it_goes_the_same_way_on_a_gateway_while_a_worker_runs_the_turns(
    name: str, tmp_path: Path, database: str
) -> None:
    await replay(HERE / name, tmp_path, database=database)
