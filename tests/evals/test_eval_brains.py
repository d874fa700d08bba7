"""The brains of `bench/agent.py` through Hames: whatever a model gets wrong, nothing is broken by it."""

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest


def load_bench() -> Any:
    """By its path: the names in bench/ are those of other modules, too."""
    path = Path(__file__).resolve().parents[2] / "bench" / "agent.py"
    sys.path.append(str(path.parent))  # last: for the parts that it imports
    spec = spec_from_file_location("bench_agent", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["bench_agent"] = module
    spec.loader.exec_module(module)
    return module


bench = load_bench()
peers = import_module("agent_parts.peers")
pytestmark = pytest.mark.needs("bwrap")
REWRITTEN = ("window exceeded", "reply cut inside a call", "empty reply")
"""After these the model need not be shown everything that was sent before: a summary, or a reply left out."""


@pytest.mark.parametrize("name", bench.BRAINS)
async def test_a_model_that_errs_breaks_nothing(name: str) -> None:
    row = await bench.play(peers.Hames, name)
    assert row.recovered == "yes", row
    assert row.questions == 0
    if name == "near-miss edits":
        assert "0 files changed otherwise" in row.words, row
    if name not in REWRITTEN and row.requests > 1:
        kept, of = row.prefix.split("/")
        assert kept == of, f"a request did not begin with the one before: {row}"


def test_an_agent_that_is_not_installed_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "TOOLS", tmp_path)
    with pytest.raises(FileNotFoundError, match="not installed"):
        peers.Codex().version()
    row = bench.Row("all", "Codex", "not run", "not installed; `python bench/agent.py --install` does that")
    assert list(bench.table([row]))[-1].startswith("| all | Codex | not run | not installed;")
