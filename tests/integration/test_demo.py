"""`hames demo`, which is what `make run` shows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def demo(tmp_path: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hames", "demo", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), **environment},
    )


@pytest.mark.needs("bwrap")
def test_the_demo_sees_red_asks_edits_and_sees_green(tmp_path: Path) -> None:
    done = demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    red, asked, edited, green = (
        said.index("FAILED (failures=1)"),
        said.index("allow this?"),
        said.index("+    return paid - paid * discount // 100"),
        said.index("OK"),
    )
    assert asked < red < edited < green
    assert "\x1b[" not in said
    assert not list(tmp_path.glob("hames-demo-*"))


@pytest.mark.needs("bwrap")
def test_the_demo_keeps_its_directory_and_colours_when_asked(tmp_path: Path) -> None:
    done = demo(tmp_path, "--keep", FORCE_COLOR="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b[32m" in done.stdout
    kept = next(tmp_path.glob("hames-demo-*"))
    assert "// 100" in (kept / "shop" / "cart.py").read_text()
    assert list((kept / "data" / "threads").glob("ses_*/events.jsonl"))
