"""`hames eval` with a real local model: it is too small to solve a task, and everything about it is counted."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.needs("bwrap")
def test_a_local_model_works_on_a_task_and_is_counted(model_url: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "LOCAL_BASE_URL": model_url,
        "LOCAL_EXTRA_BODY": '{"tool_choice": "none", "max_tokens": 48}',
    }
    task = ROOT / "evals" / "tasks" / "fix-rounding"
    words = [sys.executable, "-m", "hames", "eval", str(task), "--model", "local/smollm2", "--json", "--repeat", "2"]
    done = subprocess.run(
        [*words, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    told = msgspec.json.decode(done.stdout)
    assert [result["ending"] for result in told["results"]] == ["completed", "completed"], told
    assert all(result["outputTokens"] > 0 and result["steps"] == 1 for result in told["results"])
    assert (tmp_path / "out" / "fix-rounding-2" / "trajectory.json").exists()
