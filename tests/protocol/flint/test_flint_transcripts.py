"""Every transcript of this folder, replayed against a real engine with real tools and a scripted model."""

from pathlib import Path

import pytest
from flint_transcripts import replay

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(path.name for path in HERE.glob("*.txt")))
async def test_the_conversation_goes_as_written(name: str, tmp_path: Path) -> None:
    await replay(HERE / name, tmp_path)
