"""The real Codex behind each of our protocols: the column of the matrix that `make test` plays from a recording.

RECORD_CODEX names a directory where one such conversation is written down, for that recording.
"""

import os
import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite("matrix_support")
from codex_side import codex  # noqa: E402

from matrix_support import PLAYER, play  # noqa: E402
from matrix_table import PROTOCOLS  # noqa: E402


@pytest.mark.spec("flint/plan-codex-adapter")
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_codex_works_behind_every_protocol(protocol: str, tmp_path: Path, node_modules: Path) -> None:
    async with codex(tmp_path, str(node_modules / ".bin" / "codex")) as live:
        await play(protocol, live.side)


@pytest.mark.skipif("RECORD_CODEX" not in os.environ, reason="only to make a new recording")
async def test_a_recording_is_made(tmp_path: Path, node_modules: Path) -> None:
    recorder = str(PLAYER.with_name("recorder.py"))
    async with codex(tmp_path, sys.executable, recorder, str(node_modules / ".bin" / "codex")) as live:
        live.side.place.environment["CODEX_RECORDINGS"] = os.environ["RECORD_CODEX"]
        await play("flint", live.side)
