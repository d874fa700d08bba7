"""Any client, any agent: every protocol passes one scenario against every kind of model."""

from pathlib import Path

import pytest

pytest.register_assert_rewrite("matrix_support")
from matrix_clients import CLIENTS  # noqa: E402
from matrix_support import SIDES, play  # noqa: E402
from matrix_table import CELLS, MODELS, PROTOCOLS, STEPS, render  # noqa: E402

EVERY_SIDE_TWICE = [
    (protocol, list(MODELS)[(number + step) % len(MODELS)])
    for number, protocol in enumerate(PROTOCOLS)
    for step in (0, 1)
]
"""The cells of `make test`: every client with two agents, and every agent. `make test-slow` has the rest."""
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.needs("bwrap", "bash")
@pytest.mark.spec(
    "flint/provider-agnostic",
    "flint/plan-codex-adapter",
    "flint/threads-persist",
    "flint/thread-resume-replays",
    "bootstrap/persist-replay-after-restart",
    "sync/flow-initial-resumed",
)
@pytest.mark.parametrize(
    ("protocol", "model"),
    [
        pytest.param(*cell, id="-".join(cell), marks=[] if cell in EVERY_SIDE_TWICE else [pytest.mark.slow])
        for cell in CELLS
    ],
)
async def test_any_client_works_with_any_agent(protocol: str, model: str, tmp_path: Path) -> None:
    async with SIDES[model](tmp_path) as side:
        await play(protocol, side)


def test_the_documentation_shows_this_table() -> None:
    assert (DOCS / "matrix.md").read_text() == render(), "run scripts/matrix.py"


def test_the_table_has_a_client_a_model_and_a_word_for_every_step() -> None:
    assert set(CLIENTS) == set(PROTOCOLS)
    assert set(SIDES) == set(MODELS)
    assert all(set(protocol.shows) == {step.name for step in STEPS} for protocol in PROTOCOLS.values())
