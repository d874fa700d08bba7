"""The order of mounts, and which directories become writable."""

from pathlib import Path

import pytest

from hames.domain.errors import SandboxUnavailable
from hames.sandbox.paths import is_inside
from hames.sandbox.walls.bubblewrap import Bubblewrap, BubblewrapView, mounts, options
from hames.sandbox.walls.mounts import Mount, sort_mounts, writable_roots


def test_parents_are_mounted_before_their_children_and_the_last_word_counts() -> None:
    layers = [
        Mount(path="/w/.git/hooks", how="read"),
        Mount(path="/w", how="read"),
        Mount(path="/", how="read"),
        Mount(path="/w/.git", how="write"),
        Mount(path="/w", how="write"),
    ]
    assert [(mount.path, mount.how) for mount in sort_mounts(layers)] == [
        ("/", "read"),
        ("/w", "write"),
        ("/w/.git", "write"),
        ("/w/.git/hooks", "read"),
    ]


def test_a_prefix_of_a_name_is_not_a_parent() -> None:
    assert is_inside("/w/app", "/w/app")
    assert is_inside("/w/app/x", "/w/app")
    assert not is_inside("/w/app-evil/x", "/w/app")
    assert is_inside("/anything", "/")


def test_roots_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert writable_roots(str(tmp_path / "link"), ()) == {str(tmp_path / "link"): str(tmp_path / "real")}


def test_a_root_inside_a_writable_directory_is_never_resolved(tmp_path: Path) -> None:
    """What the agent can replace by a link must not decide what becomes writable next."""
    workspace, outside = tmp_path / "ws", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (workspace / "build").symlink_to(outside)
    assert writable_roots(str(workspace), (str(workspace / "build"),)) == {str(workspace): str(workspace)}
    assert writable_roots(str(workspace / "build"), (str(workspace),)) == {str(workspace): str(workspace)}


@pytest.mark.parametrize("root", ["/proc", "/proc/1", "/sys/fs/cgroup", "/dev", "relative"])
def test_the_kernels_own_directories_are_no_roots(tmp_path: Path, root: str) -> None:
    with pytest.raises(SandboxUnavailable, match="cannot be a writable root"):
        writable_roots(str(tmp_path), (root,))


def test_a_missing_workspace_is_said_and_a_missing_root_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="no directory"):
        writable_roots(str(tmp_path / "missing"), ())
    assert writable_roots(str(tmp_path), (str(tmp_path.parent / "missing"),)) == {str(tmp_path): str(tmp_path)}


def test_a_named_root_is_not_covered_and_a_secret_below_it_is(tmp_path: Path) -> None:
    for name in (".ssh", ".docker"):
        (tmp_path / name).mkdir()
    view = BubblewrapView(
        workspace=str(tmp_path),
        roots=(str(tmp_path), str(tmp_path / ".docker")),
        guards=(),
        home=str(tmp_path),
    )
    how = {mount.path: mount.how for mount in mounts(view)}
    assert how[str(tmp_path)] == "write"
    assert how[str(tmp_path / ".ssh")] == "hidden"
    assert how[str(tmp_path / ".docker")] == "write"


def test_a_workspace_that_is_everything_does_not_hide_what_comes_after() -> None:
    view = BubblewrapView(workspace="/", roots=("/",), guards=(), home="/nonexistent")
    words = options(Bubblewrap(path="bwrap", version="0.8.0", sizes=True), view, mounts(view), cwd="/", filter_fd=3)
    assert words[words.index("--bind") :][:5] == ["--bind", "/", "/", "--dev", "/dev"]
    assert words.count("/") == 3
