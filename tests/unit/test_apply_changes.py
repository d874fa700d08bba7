"""Changing files: whole or not at all, one or several, and nothing left behind."""

import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hames.ports import FileEdit
from hames.ports.workspace import Denied, LinkInTheWay, Missing, NotRegular, Unsteady
from hames.tools.files import apply_changes as atomic
from hames.tools.files.apply_changes import apply
from toolbench import as_somebody_else, open_descriptors

OLD, NEW = b"old\n" * 1000, b"new\n" * 1000


def change(root: Path, path: str, before: bytes | None, after: bytes | None, mode: int | None = None) -> FileEdit:
    return FileEdit(root=str(root), path=path, before=before, after=after, mode=mode)


@pytest.fixture(params=["unnamed", "named"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """New content is written under no name; where a file system cannot do that, under a private one."""
    if request.param == "named":
        monkeypatch.setattr(atomic, "_DESCRIPTORS", "/nowhere")
    yield


pytestmark = pytest.mark.usefixtures("_way")


def everything(root: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))}


def test_a_file_is_created_with_its_directories(tmp_path: Path) -> None:
    apply([change(tmp_path, "a/b/c.txt", None, NEW)])
    assert everything(tmp_path) == {"a": None, "a/b": None, "a/b/c.txt": NEW}


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        apply([change(tmp_path, "plain", None, NEW), change(tmp_path, "tool", None, NEW, mode=0o755)])
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "tool").stat().st_mode) == 0o755


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o664])
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "f"
    file.write_bytes(OLD)
    file.chmod(mode)
    apply([change(tmp_path, "f", OLD, NEW)])
    assert file.read_bytes() == NEW
    assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.root
def test_a_replaced_file_keeps_its_owner(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    (tmp_path / "f").write_bytes(OLD)
    os.chown(tmp_path / "f", 1234, 2345)
    apply([change(tmp_path, "f", OLD, NEW)])
    found = (tmp_path / "f").stat()
    assert (found.st_uid, found.st_gid, (tmp_path / "f").read_bytes()) == (1234, 2345, NEW)


@pytest.mark.root
def test_a_file_whose_owner_would_be_lost_is_left_alone() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    with as_somebody_else() as (directory, act):
        (directory / "f").write_bytes(OLD)
        (directory / "f").chmod(0o666)

        def write() -> str:
            with pytest.raises(Denied) as refusal:
                apply([change(directory, "f", OLD, NEW)])
            return str(refusal.value)

        assert "belongs to another user" in act(write)
        assert everything(directory) == {"f": OLD}


def test_a_read_only_file_is_left_alone() -> None:
    with as_somebody_else() as (directory, act):
        directory.joinpath("f").write_bytes(OLD)
        directory.joinpath("f").chmod(0o444)

        def write() -> str:
            with pytest.raises(Denied) as refusal:
                apply([change(directory, "f", OLD, NEW)])
            return str(refusal.value)

        assert "read-only" in act(write)
        assert everything(directory) == {"f": OLD}


def test_extended_attributes_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(OLD)
    try:
        os.setxattr(file, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    apply([change(tmp_path, "f", OLD, NEW)])
    assert os.getxattr(file, "user.note") == b"kept"


def test_another_name_of_the_same_file_keeps_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(OLD)
    (tmp_path / "other").hardlink_to(tmp_path / "f")
    apply([change(tmp_path, "f", OLD, NEW)])
    assert everything(tmp_path) == {"f": NEW, "other": OLD}


def test_a_file_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(OLD)
    apply([change(tmp_path, "f", OLD, None)])
    assert everything(tmp_path) == {}


@pytest.mark.parametrize(("before", "words"), [(b"something else", "has changed"), (None, "has appeared")])
def test_a_file_that_is_not_what_it_was_is_left_alone(tmp_path: Path, before: bytes | None, words: str) -> None:
    (tmp_path / "f").write_bytes(OLD)
    with pytest.raises(Unsteady, match=words):
        apply([change(tmp_path, "f", before, NEW)])
    assert everything(tmp_path) == {"f": OLD}


def test_content_is_on_the_disk_before_it_has_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(OLD)
    calls: list[str] = []

    def noted(name: str) -> Callable[..., None]:
        real: Callable[..., None] = getattr(os, name)

        def call(*args: object, **named: object) -> None:
            calls.append(name)
            real(*args, **named)

        return call

    for name in ("fsync", "rename"):
        monkeypatch.setattr(atomic.os, name, noted(name))
    apply([change(tmp_path, "f", OLD, NEW)])
    assert calls == ["fsync", "rename", "fsync"]


def test_a_file_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(Missing):
        apply([change(tmp_path, "d/f", OLD, NEW)])
    assert everything(tmp_path) == {}


def test_links_and_directories_are_never_written_through(tmp_path: Path) -> None:
    outside, inside = tmp_path / "out", tmp_path / "in"
    (outside / "d").mkdir(parents=True)
    inside.mkdir()
    (outside / "f").write_bytes(OLD)
    (inside / "file").symlink_to(outside / "f")
    (inside / "dangling").symlink_to(outside / "made")
    (inside / "way").symlink_to(outside / "d")
    (inside / "real").mkdir()
    for path, refusal in (
        ("file", LinkInTheWay),
        ("dangling", LinkInTheWay),
        ("way/x", LinkInTheWay),
        ("real", NotRegular),
        ("file/x", LinkInTheWay),
    ):
        for before in (None, OLD):
            with pytest.raises(refusal):
                apply([change(inside, path, before, NEW)])
    with pytest.raises(LinkInTheWay):
        apply([change(inside, "file", OLD, None)])
    assert everything(outside) == {"d": None, "f": OLD}


def test_several_change_together(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(OLD)
    apply([change(tmp_path, "a", OLD, NEW), change(tmp_path, "b", OLD, None), change(tmp_path, "n/c", None, NEW)])
    assert everything(tmp_path) == {"a": NEW, "n": None, "n/c": NEW}


def test_one_that_cannot_be_changed_stops_all(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(OLD)
    with pytest.raises(Unsteady):
        apply([change(tmp_path, "n/c", None, NEW), change(tmp_path, "a", OLD, NEW), change(tmp_path, "b", NEW, OLD)])
    assert everything(tmp_path) == {"a": OLD, "b": OLD}


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_what_fails_half_way_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """Each change ends with a rename, a link or an unlink; each of these calls fails once."""
    (tmp_path / "a").write_bytes(OLD)
    (tmp_path / "a").chmod(0o751)
    (tmp_path / "b").write_bytes(OLD)
    (tmp_path / "b").chmod(0o640)
    count = 0

    def breaking(real: Callable[..., None]) -> Callable[..., None]:
        def step(*args: object, **named: object) -> None:
            nonlocal count
            count += 1
            if count == failing:
                raise OSError(5, "Input/output error")
            real(*args, **named)

        return step

    for name in ("rename", "link", "unlink"):
        monkeypatch.setattr(atomic.os, name, breaking(getattr(os, name)))
    with pytest.raises(Denied, match="input/output error"):
        apply([change(tmp_path, "a", OLD, NEW), change(tmp_path, "b", OLD, None), change(tmp_path, "n/c", None, NEW)])
    monkeypatch.undo()
    assert everything(tmp_path) == {"a": OLD, "b": OLD}
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [0o751, 0o640]


def test_what_cannot_even_be_undone_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(OLD)
    real, calls = os.rename, 0

    def rename(*args: object, **named: object) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(5, "Input/output error")
        real(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(atomic.os, "rename", rename)
    with pytest.raises(Denied, match="a could not be restored"):
        apply([change(tmp_path, "a", OLD, NEW), change(tmp_path, "b", OLD, NEW)])


def test_a_full_disk_leaves_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(OLD)

    def limited() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))  # as a full disk: the write stops half-way
        try:
            apply([change(tmp_path, "n/g", None, NEW), change(tmp_path, "f", OLD, NEW)])
        except Denied as refusal:
            return 7 if "too large" in str(refusal) else 1
        return 2

    child = os.fork()
    if child == 0:
        os._exit(limited())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert everything(tmp_path) == {"f": OLD}


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(OLD)
    before = open_descriptors()
    apply([change(tmp_path, "a/b", None, NEW), change(tmp_path, "f", OLD, NEW)])
    with pytest.raises(Unsteady):
        apply([change(tmp_path, "x/y", None, NEW), change(tmp_path, "f", OLD, NEW)])
    assert open_descriptors() == before
