"""Which names are guarded inside a writable root, and what stands in for those that do not exist."""

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from hames.domain.guardrails import GUARDED
from hames.sandbox.walls.guarded_paths import SAME_DIRECTORY, find_guarded_paths
from hames.sandbox.walls.placeholders import SLOWLY, Placeholders

HOME = "/home/nobody-here"


def how(root: Path, home: str = HOME) -> dict[str, str]:
    return {
        str(Path(mount.path).relative_to(root) if mount.path.startswith(str(root)) else mount.path): mount.how
        for mount in find_guarded_paths(str(root), home=home).mounts
    }


def leave(placeholders: Placeholders) -> list[str]:
    """Leaves, and waits for what a busy disk has not done yet."""
    notes = placeholders.remove()
    for thread in threading.enumerate():
        if thread.name == SLOWLY:
            thread.join()
    return notes


def repository(root: Path, config: str = "") -> Path:
    for name in ("hooks", "objects", "refs"):
        (root / ".git" / name).mkdir(parents=True)
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git/config").write_text(config)
    return root


def test_what_does_not_exist_is_guarded_too(tmp_path: Path) -> None:
    found = find_guarded_paths(str(tmp_path), home=HOME)
    # `git init` may make a repository; what it holds is looked at when the command has ended.
    assert {Path(path).name for path in found.directories} == set(GUARDED) - {".git"}
    assert {mount.how for mount in found.mounts} == {"hidden"}


def test_a_repository_takes_commits_and_keeps_its_programs(tmp_path: Path) -> None:
    found = how(repository(tmp_path))
    assert found[".git"] == "write"
    assert found[".git/hooks"] == found[".git/config"] == found[".git/commondir"] == "read"
    assert find_guarded_paths(str(tmp_path), home=HOME).files == ((str(tmp_path / ".git/commondir"), SAME_DIRECTORY),)


def test_submodules_and_worktrees_inside_the_root_can_be_changed_and_other_worktrees_cannot(tmp_path: Path) -> None:
    root = repository(tmp_path / "ws")
    (root / ".git/modules").mkdir()
    for name, place in (("own", root / "own"), ("foreign", tmp_path / "elsewhere")):
        (root / ".git/worktrees" / name).mkdir(parents=True)
        (root / ".git/worktrees" / name / "gitdir").write_text(f"{place}/.git\n")
    found = how(root)
    assert ".git/modules" not in found
    assert ".git/worktrees" not in found
    assert ".git/worktrees/own" not in found
    assert found[".git/worktrees/foreign"] == "read"


def test_what_a_hook_leads_to_is_guarded_with_all_directories_above_it(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/check").write_text("")
    (tmp_path / ".git/hooks/pre-commit").symlink_to("../../scripts/check")
    found = how(tmp_path)
    assert found["scripts"] == "write"
    assert found["scripts/check"] == "read"


def test_hooks_that_settings_from_outside_take_from_the_root_are_guarded(tmp_path: Path) -> None:
    top = repository(tmp_path / "top", "[core]\n\thooksPath = pkg/hooks\n")
    for name in ("pkg/hooks", "pkg/scripts"):
        (top / name).mkdir(parents=True)
    (top / "pkg/scripts/check").touch()
    (top / ".git/hooks/pre-push").symlink_to("../../pkg/scripts/check")
    found = how(top / "pkg")
    assert found["hooks"] == found["scripts/check"] == "read"
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text("[core]\n\thooksPath = .githooks\n")
    assert how(top / "pkg", home=str(tmp_path / "home"))[".githooks"] == "hidden"


def test_missing_parts_of_a_repository_get_placeholders(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / ".git/hooks").rmdir()
    (tmp_path / ".git/config").unlink()
    found = find_guarded_paths(str(tmp_path), home=HOME)
    assert str(tmp_path / ".git/hooks") in found.directories
    assert (str(tmp_path / ".git/config"), "") in found.files


def test_hooks_and_settings_inside_the_tree_are_held_with_all_directories_above_them(tmp_path: Path) -> None:
    config = "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../conf/git/shared\n"
    repository(tmp_path, config)
    for name in ("tools/hooks", "conf/git"):
        (tmp_path / name).mkdir(parents=True)
    found = how(tmp_path)
    assert found["tools"] == found["conf"] == found["conf/git"] == "write"
    assert found["tools/hooks"] == "read"
    assert found["conf/git/shared"] == "read"
    assert (str(tmp_path / "conf/git/shared"), "") in find_guarded_paths(str(tmp_path), home=HOME).files


def test_holding_a_directory_does_not_reopen_one_that_is_shut(tmp_path: Path) -> None:
    repository(tmp_path, "[include]\n\tpath = ../.vscode/git/shared\n")
    (tmp_path / ".vscode/git").mkdir(parents=True)
    (tmp_path / ".vscode/git/shared").write_text("")
    found = how(tmp_path)
    assert found[".vscode"] == "read"
    assert ".vscode/git" not in found


def test_worktree_settings_are_guarded_where_they_are_obeyed(tmp_path: Path) -> None:
    repository(tmp_path, "[extensions]\n\tworktreeConfig = true\n")
    assert how(tmp_path)[".git/config.worktree"] == "read"


def test_shell_start_files_are_guarded_at_home_and_elsewhere_when_they_exist(tmp_path: Path) -> None:
    assert ".bashrc" not in how(tmp_path)
    assert how(tmp_path, home=str(tmp_path))[".bashrc"] == "hidden"
    (tmp_path / ".zshrc").write_text("")
    assert how(tmp_path)[".zshrc"] == "read"


def test_a_linked_worktree_may_commit_to_the_repository_that_knows_it(tmp_path: Path) -> None:
    main, linked = repository(tmp_path / "main"), tmp_path / "linked"
    admin = main / ".git/worktrees/linked"
    admin.mkdir(parents=True)
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {admin}\n")
    (admin / "commondir").write_text("../..\n")
    (admin / "gitdir").write_text(f"{linked}/.git\n")
    found = how(linked)
    assert found[".git"] == "read"
    assert found[f"{main}/.git"] == found[str(admin)] == "write"
    assert found[f"{main}/.git/hooks"] == found[f"{main}/.git/HEAD"] == found[f"{admin}/commondir"] == "read"


@pytest.mark.parametrize("missing", ["commondir", "gitdir"])
def test_a_git_file_that_points_anywhere_opens_nothing(tmp_path: Path, missing: str) -> None:
    victim, workspace = repository(tmp_path / "victim"), tmp_path / "ws"
    admin = victim / ".git/worktrees/x"
    admin.mkdir(parents=True)
    workspace.mkdir()
    (workspace / ".git").write_text(f"gitdir: {admin}\n")
    (admin / "commondir").write_text("../..\n")
    (admin / "gitdir").write_text(f"{workspace}/.git\n")
    (admin / missing).write_text("/somewhere/else\n")
    assert not any(path.startswith(str(victim)) for path in how(workspace))


def test_placeholders_come_and_go(tmp_path: Path) -> None:
    repository(tmp_path)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    placeholders = Placeholders(str(tmp_path))
    placeholders.lock()
    placeholders.create(find_guarded_paths(str(tmp_path), home=HOME))
    assert stat.S_IMODE((tmp_path / ".claude").stat().st_mode) == 0o555
    assert (tmp_path / ".git/commondir").read_text() == SAME_DIRECTORY
    assert leave(placeholders) == []
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_the_last_to_leave_takes_them_away(tmp_path: Path) -> None:
    first, second = Placeholders(str(tmp_path)), Placeholders(str(tmp_path))
    for placeholders in (first, second):
        placeholders.lock()
        placeholders.create(find_guarded_paths(str(tmp_path), home=HOME))
    leave(first)
    assert (tmp_path / ".claude").is_dir()
    leave(second)
    assert list(tmp_path.iterdir()) == []


def test_placeholders_of_a_run_that_was_killed_are_taken_away_by_the_next(tmp_path: Path) -> None:
    repository(tmp_path)
    killed = Placeholders(str(tmp_path))
    killed.create(find_guarded_paths(str(tmp_path), home=HOME))
    following = Placeholders(str(tmp_path))
    following.lock()
    found = find_guarded_paths(str(tmp_path), home=HOME)
    assert {mount.how for mount in found.mounts if mount.path.endswith(".claude")} == {"hidden"}
    following.create(found)
    leave(following)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".git"]
    assert not (tmp_path / ".git/commondir").exists()


@pytest.mark.parametrize("mode", [0o600, 0o555])
def test_a_file_whose_content_was_never_written_is_mended_and_taken_away(tmp_path: Path, mode: int) -> None:
    commondir = repository(tmp_path) / ".git/commondir"
    commondir.touch()
    commondir.chmod(mode)
    placeholders = Placeholders(str(tmp_path))
    placeholders.lock()
    placeholders.create(find_guarded_paths(str(tmp_path), home=HOME))
    assert commondir.read_text() == SAME_DIRECTORY
    leave(placeholders)
    assert not commondir.exists()


@pytest.mark.parametrize(("content", "mode"), [("", 0o644), ("elsewhere\n", 0o600)])
def test_a_file_of_other_people_stays_as_it_is(tmp_path: Path, content: str, mode: int) -> None:
    commondir = repository(tmp_path) / ".git/commondir"
    commondir.write_text(content)
    commondir.chmod(mode)
    placeholders = Placeholders(str(tmp_path))
    placeholders.lock()
    placeholders.create(find_guarded_paths(str(tmp_path), home=HOME))
    leave(placeholders)
    assert commondir.read_text() == content


@pytest.mark.parametrize("unnamed", [True, False], ids=["unnamed files", "none"])
def test_a_placeholder_is_made_where_a_file_system_has_no_unnamed_files(
    tmp_path: Path, unnamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not unnamed:
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY | os.O_CREAT)  # EINVAL, as an old kernel answers
    commondir = repository(tmp_path) / ".git/commondir"
    placeholders = Placeholders(str(tmp_path))
    placeholders.lock()
    placeholders.create(find_guarded_paths(str(tmp_path), home=HOME))
    assert commondir.read_text() == SAME_DIRECTORY
    assert stat.S_IMODE(commondir.stat().st_mode) == 0o555
    leave(placeholders)
    assert not commondir.exists()


def test_what_a_person_put_there_in_the_meantime_stays(tmp_path: Path) -> None:
    placeholders = Placeholders(str(tmp_path))
    placeholders.lock()
    placeholders.create(find_guarded_paths(str(tmp_path), home=HOME))
    (tmp_path / ".claude").chmod(0o755)
    (tmp_path / ".claude/settings.json").write_text("{}")
    leave(placeholders)
    assert [path.name for path in tmp_path.iterdir()] == [".claude"]


def test_a_guarded_link_that_was_replaced_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / ".claude").symlink_to("shared")
    placeholders = Placeholders(str(tmp_path))
    placeholders.lock()
    found = find_guarded_paths(str(tmp_path), home=HOME)
    assert str(tmp_path / "shared") in {mount.path for mount in found.mounts if mount.how == "read"}
    placeholders.create(found)
    (tmp_path / ".claude").unlink()
    (tmp_path / ".claude").mkdir()
    (note,) = leave(placeholders)
    assert ".claude" in note
    assert (tmp_path / ".claude").readlink() == Path("shared")


@pytest.mark.needs("git")
def test_git_does_not_mind_the_placeholder_of_its_common_directory(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        settings = {"GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        done = subprocess.run(["git", *words], cwd=tmp_path, env=settings, capture_output=True, check=True)
        return done.stdout.decode()

    git("init", "-q")
    git("config", "user.email", "me@example.org")
    git("config", "user.name", "me")
    placeholders = Placeholders(str(tmp_path))
    placeholders.create(find_guarded_paths(str(tmp_path), home=HOME))
    (tmp_path / "file").write_text("x")
    git("add", "file")
    git("commit", "-qm", "one")
    assert git("status", "--porcelain") == ""
    assert git("log", "--format=%s") == "one\n"
