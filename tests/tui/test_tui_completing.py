"""Which files can be completed: enough of them, and never a whole disk."""

from pathlib import Path

import pytest

from hames.tui import completing


@pytest.mark.needs("rg")
def test_files_below_are_found_and_no_more_than_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        (tmp_path / f"{number}.txt").touch()
    assert completing.list_files(tmp_path) == [f"{number}.txt" for number in range(9)]
    monkeypatch.setattr(completing, "MOST_FILES", 4)
    assert len(completing.list_files(tmp_path)) == 4


def test_a_list_without_end_is_cut_off(tmp_path: Path) -> None:
    endless = ["/bin/sh", "-c", "yes name | tr '\\n' '\\0'"]
    assert completing._first_files(endless, tmp_path) == ["name"] * completing.MOST_FILES


def test_a_list_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "LIST_SECONDS", 0.2)
    assert completing._first_files(["/bin/sh", "-c", "printf 'a\\0'; exec sleep 600"], tmp_path) == ["a"]
