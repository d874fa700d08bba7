"""What a cloned repository may bring beside its threads for Codex: nothing that leads out of its directory."""

import os
from pathlib import Path

import anyio
import pytest

from hames.agents.thread_map import Known, ThreadMap
from hames.domain.ids import ThreadId

THREAD = ThreadId("ses_planted")
KEPT = Known(thread="theirs", turns={"turn_1": "t1"})


async def _kept(memory: ThreadMap) -> Known | None:
    def keep() -> Known | None:
        memory.keep(THREAD, "theirs", {"turn_1": "t1"})
        return memory.known(THREAD)

    with anyio.fail_after(60):
        return await anyio.to_thread.run_sync(keep, abandon_on_cancel=True)


@pytest.mark.parametrize("name", ["ses_planted.json", "ses_planted.new", "ses_planted.json.{pid}.new"])
async def test_CFG_7_a_link_planted_where_codex_is_remembered_is_not_written_through(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    directory = tmp_path / "codex"
    directory.mkdir()
    (directory / name.format(pid=os.getpid())).symlink_to(victim)
    assert await _kept(ThreadMap(lambda: directory)) == KEPT
    assert victim.read_text() == "mine"


async def test_CFG_7_a_planted_directory_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "codex").symlink_to(outside)
    assert await _kept(ThreadMap(lambda: tmp_path / "codex")) is None
    assert list(outside.iterdir()) == []


async def test_CFG_7_what_never_ends_and_what_never_answers_is_not_read(tmp_path: Path) -> None:
    memory = ThreadMap(lambda: tmp_path)
    os.mkfifo(tmp_path / "ses_planted.json")
    assert await _kept(memory) == KEPT
    (tmp_path / "ses_planted.json").unlink()
    (tmp_path / "ses_planted.json").symlink_to("/dev/zero")
    assert await _kept(memory) == KEPT
