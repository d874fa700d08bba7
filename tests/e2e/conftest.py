"""What the tests in a real terminal share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    made.close()
