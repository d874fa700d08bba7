"""The look through a workspace before a command: complete at first, cheap afterwards, and never late by a command."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hames.sandbox.walls import workspace_survey
from hames.sandbox.walls.hard_links import find_shared_files
from hames.sandbox.walls.workspace_survey import WorkspaceSurvey


def linked_names(survey: WorkspaceSurvey) -> list[str]:
    return sorted(Path(name.path).name for name in survey.look().linked)


def age(*directories: Path) -> None:
    """As if nothing had happened there for a while."""
    for directory in directories:
        os.utime(directory, ns=(10**18, 10**18))


def test_links_sockets_and_environments_are_found_however_deep(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c"
    deep.mkdir(parents=True)
    (deep / "one").write_text("x")
    (tmp_path / "two").hardlink_to(deep / "one")
    (deep / "pyvenv.cfg").touch()
    before = Path.cwd()
    os.chdir(deep)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
    os.chdir(before)
    (tmp_path / "link").symlink_to("a/b")
    seen = WorkspaceSurvey(str(tmp_path)).look()
    assert sorted(name.path for name in seen.linked) == [f"{deep}/one", f"{tmp_path}/two"]
    assert seen.sockets == (f"{deep}/s",)
    assert seen.environments == (str(deep),)
    assert seen.complete


def test_a_later_look_reads_only_directories_that_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "b/c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    monkeypatch.setattr(workspace_survey, "_SETTLED_NS", -1)
    # Otherwise so small a workspace is read as a whole each time.
    monkeypatch.setattr(workspace_survey, "_ALWAYS_FULL_SECONDS", -1.0)
    monkeypatch.setattr(workspace_survey, "_PAUSE_FULL", 10**9)
    survey = WorkspaceSurvey(str(tmp_path))
    survey.look()
    read: list[str] = []
    scan = os.scandir

    def scandir(path: str) -> object:
        read.append(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    survey.look()
    assert read == []
    (tmp_path / "b/c/more").hardlink_to(tmp_path / "a/file")
    assert linked_names(survey) == ["more"], "the other name is in a directory that has not changed"
    assert read == [f"{tmp_path}/b/c"]


def test_a_small_workspace_is_looked_at_as_a_whole_each_time(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "ws", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (workspace / "file").touch()
    survey = WorkspaceSurvey(str(workspace))
    assert linked_names(survey) == []
    age(workspace)
    assert linked_names(survey) == []
    (outside / "file").hardlink_to(workspace / "file")
    assert linked_names(survey) == ["file"]


def test_a_look_that_takes_too_long_ends_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(600):
        (tmp_path / str(number)).mkdir()
    monkeypatch.setattr(workspace_survey, "BUDGET_SECONDS", 0.0)
    assert not WorkspaceSurvey(str(tmp_path)).look().complete


def test_what_was_there_and_is_gone_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one").touch()
    (tmp_path / "two").hardlink_to(tmp_path / "a/one")
    survey = WorkspaceSurvey(str(tmp_path))
    assert linked_names(survey) == ["one", "two"]
    (tmp_path / "a/one").unlink()
    (tmp_path / "a").rmdir()
    assert linked_names(survey) == []


MOVES = st.lists(
    st.tuples(st.sampled_from(["link", "unlink", "mkdir", "rename", "write"]), st.integers(0, 5), st.integers(0, 5)),
    max_size=12,
)


@given(moves=MOVES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_looking_again_finds_what_a_first_look_would_find(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, int, int]]
) -> None:
    base = tmp_path_factory.mktemp("survey")
    root, outside = base / "ws", base / "outside"
    for directory in (root, outside):
        directory.mkdir()
    (outside / "file").touch()
    survey = WorkspaceSurvey(str(root))
    for number, (move, one, other) in enumerate(moves):
        source, target = root / f"d{one}", root / f"d{other}"
        try:
            match move:
                case "mkdir":
                    target.mkdir()
                case "link":
                    (source / f"l{number}").hardlink_to(outside / "file")
                case "unlink":
                    next(source.iterdir()).unlink()
                case "rename":
                    source.rename(target / f"d{number}")
                case _:
                    (source / "plain").write_text("x")
        except (OSError, StopIteration):
            pass
        seen, fresh = survey.look(), WorkspaceSurvey(str(root)).look()
        assert set(seen.linked) == set(fresh.linked)
        assert {name.path for name in find_shared_files([seen], [str(root)])} == {name.path for name in fresh.linked}
