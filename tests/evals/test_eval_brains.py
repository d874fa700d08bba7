"""The brains of `bench/agent.py` through Hames: whatever a model gets wrong, nothing is broken and nothing is sent twice."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import agent as bench

pytestmark = pytest.mark.needs("bwrap")
RECOVERS = ("ambiguous place", f"{bench.EDITS} edits in a row")


@pytest.mark.parametrize("name", bench.BRAINS)
async def test_a_model_that_errs_breaks_nothing(name: str) -> None:
    row = await bench.play(bench.Hames, name)
    assert row.recovered in ("yes", "no"), row
    assert row.questions == 0
    if name in RECOVERS:
        assert row.recovered == "yes", row
    if name == "near-miss edits":
        assert "0 files changed otherwise" in row.words, row
    if name != "window exceeded" and row.requests > 1:
        kept, of = row.prefix.split("/")
        assert kept == of, f"a request did not begin with the one before: {row}"


def test_an_agent_that_is_not_installed_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "TOOLS", tmp_path)
    with pytest.raises(FileNotFoundError, match="not installed"):
        bench.Codex().version()
    row = bench.Row("all", "Codex", "not run", "not installed; `python bench/agent.py --install` does that")
    assert list(bench.table([row]))[-1].startswith("| all | Codex | not run | not installed;")
