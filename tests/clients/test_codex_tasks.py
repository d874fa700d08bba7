"""The real Codex summarises, reviews and is steered. RECORD_CODEX_TASKS names a directory for a new recording."""

import os
import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite("codex_tasks")
from codex_side import codex, ran  # noqa: E402

from codex_tasks import COMMAND, PROMPTS, REPLIES, run_other_tasks  # noqa: E402
from hames.app import open_engine  # noqa: E402
from hames.config.load import load  # noqa: E402
from hames.testing.services.server import talk  # noqa: E402
from matrix_support import PLAYER  # noqa: E402

RECORDINGS = os.environ.get("RECORD_CODEX_TASKS", "")


async def test_codex_summarises_reviews_and_is_steered(tmp_path: Path, node_modules: Path) -> None:
    binary = [str(node_modules / ".bin" / "codex")]
    if RECORDINGS:
        binary = [sys.executable, str(PLAYER.with_name("recorder.py")), *binary]
    answers = [
        talk(REPLIES["hello"]),
        talk(REPLIES["summary"]),
        talk(REPLIES["review"]),
        ran("call_1", COMMAND),
        talk(REPLIES["steer"]),
    ]
    async with codex(tmp_path, *binary, answers=answers) as live:
        environment = live.side.place.environment
        if RECORDINGS:
            environment["CODEX_RECORDINGS"] = RECORDINGS
        flags = {"cwd": str(live.side.place.work), "model": "codex/default", "sandbox": "dangerFullAccess"}
        async with open_engine(load({**flags, "approval_policy": "always"}, environment)) as engine:
            await run_other_tasks(engine)
        hello, summarised, reviewed, _, last = [request.raw.decode() for request in live.model.seen]
        assert PROMPTS["hello"] in hello
        assert REPLIES["hello"] in summarised
        assert PROMPTS["review"] in reviewed
        assert "review" in reviewed.lower()
        assert REPLIES["summary"] in last, "after the summary Codex goes on from it"
        assert REPLIES["hello"] not in last
        assert PROMPTS["steer"] in last
