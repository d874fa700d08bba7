"""Opening, reading and listing below a directory, with the kernel's help and without."""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hames.ports import DirectoryEntry
from hames.ports.workspace import Denied, LinkInTheWay, Missing, NotRegular, Outside, TooLarge, Unsteady
from hames.tools.files.directory import LocalDirectory
from hames.tools.files.open_beneath import kernel_resolves, open_beneath
from hames.tools.files.refusals import folded, shown
from toolbench import as_somebody_else, open_descriptors


@pytest.fixture(params=[True, False], ids=["by the kernel", "by walking"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LocalDirectory]:
    if request.param and not kernel_resolves():
        pytest.skip("this kernel has no openat2")
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/file.txt").write_text("inside")
    (tmp_path / "secret.txt").write_text("outside")
    with LocalDirectory(str(tmp_path / "in"), by_kernel=request.param) as root:
        yield root


def _inside(root: LocalDirectory) -> Path:
    return Path(root.root)


def test_a_file_below_the_root_is_read(root: LocalDirectory) -> None:
    assert root.read("file.txt", limit=100) == b"inside"


def test_a_link_that_stays_below_is_followed_for_reading(root: LocalDirectory) -> None:
    (_inside(root) / "deep/link").symlink_to("../file.txt")
    (_inside(root) / "chain").symlink_to("deep/link")
    assert root.read("chain", limit=100) == b"inside"


@pytest.mark.parametrize("target", ["../secret.txt", "deep/../../secret.txt", "{outside}/secret.txt"])
def test_a_link_that_leaves_is_refused(root: LocalDirectory, target: str) -> None:
    (_inside(root) / "link").symlink_to(target.format(outside=_inside(root).parent))
    with pytest.raises(Outside):
        root.read("link", limit=100)


def test_a_directory_that_is_a_link_out_is_refused(root: LocalDirectory) -> None:
    (_inside(root) / "way").symlink_to("..")
    with pytest.raises(Outside):
        root.read("way/secret.txt", limit=100)
    with pytest.raises(Outside):
        list(root.walk("way", depth=1, limit=10))


def test_dots_that_leave_are_refused(root: LocalDirectory) -> None:
    with pytest.raises(Outside):
        root.read("deep/../../secret.txt", limit=100)
    assert root.read("deep/../file.txt", limit=100) == b"inside"


def test_links_in_a_circle_end(root: LocalDirectory) -> None:
    (_inside(root) / "a").symlink_to("b")
    (_inside(root) / "b").symlink_to("a")
    with pytest.raises(LinkInTheWay):
        root.read("a", limit=100)


def test_without_following_every_link_is_refused(root: LocalDirectory) -> None:
    (_inside(root) / "link").symlink_to("file.txt")
    (_inside(root) / "way").symlink_to("deep")
    for path in ("link", "way", "way/x"):
        with pytest.raises(LinkInTheWay):
            root.look(path, follow=False)


def test_a_magic_link_of_proc_is_not_followed(root: LocalDirectory) -> None:
    (_inside(root) / "magic").symlink_to("/proc/self/root/etc/passwd")
    with pytest.raises(Outside):
        root.read("magic", limit=100_000)


@pytest.mark.parametrize("path", ["gone", "deep/gone", "file.txt/below", "dangling"])
def test_what_is_not_there_is_missing(root: LocalDirectory, path: str) -> None:
    (_inside(root) / "dangling").symlink_to("nowhere")
    with pytest.raises(Missing):
        root.read(path, limit=100)


def test_a_name_that_is_too_long_is_refused_and_not_a_crash(root: LocalDirectory) -> None:
    with pytest.raises(Denied, match="too long"):
        root.read("x" * 300, limit=100)


def test_a_root_that_is_gone_is_missing(tmp_path: Path) -> None:
    with pytest.raises(Missing):
        LocalDirectory(str(tmp_path / "never"))


def test_special_files_are_refused_by_what_they_are(root: LocalDirectory) -> None:
    os.mkfifo(_inside(root) / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(_inside(root) / "socket"))
        for path, kind in (("fifo", "FIFO"), ("socket", "socket"), ("deep", "directory"), (".", "directory")):
            with pytest.raises(NotRegular, match=kind):
                root.read(path, limit=100)


def test_looking_at_a_fifo_wakes_nobody(root: LocalDirectory) -> None:
    os.mkfifo(_inside(root) / "fifo")
    writer = subprocess.Popen(["sh", "-c", "echo woken >fifo"], cwd=root.root)
    try:
        for _ in range(100):
            with pytest.raises(NotRegular):
                root.read("fifo", limit=100)
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(0.3)
    finally:
        writer.kill()
        writer.wait()


@pytest.mark.parametrize("path", ["proc/self/mem", "proc/version", "sys/kernel/mm/transparent_hugepage/enabled"])
def test_what_the_kernel_makes_up_is_refused(path: str) -> None:
    if not Path("/", path).exists():
        pytest.skip(f"no /{path} here")
    with LocalDirectory("/") as root, pytest.raises(NotRegular):
        root.read(path, limit=1 << 20)


def test_a_device_is_refused() -> None:
    with LocalDirectory("/dev") as root, pytest.raises(NotRegular, match="device"):
        root.read("zero", limit=100)


def test_a_sparse_file_is_refused_by_its_size(root: LocalDirectory) -> None:
    with (_inside(root) / "sparse").open("wb") as file:
        file.truncate(10 << 30)
    with pytest.raises(TooLarge, match="10,737,418,240"):
        root.read("sparse", limit=1 << 20)


def test_a_file_is_read_up_to_its_limit_and_not_beyond(root: LocalDirectory) -> None:
    (_inside(root) / "exact").write_bytes(b"x" * 100)
    assert len(root.read("exact", limit=100)) == 100
    with pytest.raises(TooLarge):
        root.read("exact", limit=99)


def test_a_file_that_grows_while_it_is_read_is_refused_and_not_followed(root: LocalDirectory) -> None:
    path = _inside(root) / "growing"
    path.write_bytes(b"x" * (4 << 20))
    stop = threading.Event()

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            while not stop.is_set() and file.tell() < 64 << 20:
                file.write(b"y" * 4096)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        # A read may fall between two writes; a few of them do not.
        with pytest.raises(Unsteady):
            for _ in range(50):
                root.read("growing", limit=128 << 20)
    finally:
        stop.set()
        writer.join()


def test_a_file_nobody_may_read_is_denied() -> None:
    with as_somebody_else() as (directory, act):
        (directory / "file.txt").write_text("private")
        (directory / "file.txt").chmod(0)

        def look() -> str:
            with LocalDirectory(str(directory)) as root:
                try:
                    return root.read("file.txt", limit=100).decode()
                except Denied as refusal:
                    return str(refusal)

        assert act(look) == "'file.txt': permission denied"


def test_a_directory_is_listed_in_order_with_what_things_are(root: LocalDirectory) -> None:
    (_inside(root) / "deep/inner.txt").write_text("12345")
    (_inside(root) / "link").symlink_to("/etc")
    assert list(root.walk(".", depth=2, limit=10)) == [
        DirectoryEntry(path="deep", kind="directory"),
        DirectoryEntry(path="deep/inner.txt", kind="file", size=5),
        DirectoryEntry(path="file.txt", kind="file", size=6),
        DirectoryEntry(path="link", kind="link", target="/etc"),
    ]


def test_a_listing_stops_at_its_depth_its_limit_and_at_links(root: LocalDirectory) -> None:
    (_inside(root) / "deep/a/b").mkdir(parents=True)
    (_inside(root) / "loop").symlink_to(".")
    names = [entry.path for entry in root.walk(".", depth=2, limit=100)]
    assert names == ["deep", "deep/a", "file.txt", "loop"]
    assert [entry.path for entry in root.walk(".", depth=9, limit=2)] == ["deep", "deep/a"]
    assert [entry.path for entry in root.walk(".", depth=9, limit=9, skip=frozenset({"deep"}))] == [
        "deep",
        "file.txt",
        "loop",
    ]


def test_no_descriptor_is_left_open(root: LocalDirectory) -> None:
    (_inside(root) / "out").symlink_to("/etc/passwd")
    before = open_descriptors()
    for path in ("file.txt", "out", "gone", "deep"):
        try:
            root.read(path, limit=3)
        except Exception:
            continue
    walk = root.walk(".", depth=3, limit=100)
    next(walk)
    walk.close()
    with pytest.raises(Missing):
        list(root.walk("file.txt", depth=1, limit=1))
    assert open_descriptors() == before


def test_both_ways_of_opening_agree(tmp_path: Path) -> None:
    """A small zoo of paths and links, each opened both ways: the same file, or the same refusal."""
    (tmp_path / "r/d/e").mkdir(parents=True)
    (tmp_path / "r/d/f").write_text("x")
    links = {"up": "d/..", "abs": f"{tmp_path}/r/d", "out": "../..", "self": ".", "far": "d/e/../../d/f", "dead": "zz"}
    for name, target in links.items():
        (tmp_path / "r" / name).symlink_to(target)
    root = os.open(tmp_path / "r", os.O_PATH)

    def answer(path: str, follow: bool, by_kernel: bool) -> tuple[int, ...]:
        try:
            fd = open_beneath(root, path, os.O_PATH, follow=follow, by_kernel=by_kernel)
        except OSError as error:
            return (error.errno or 0,)
        found = os.fstat(fd)
        os.close(fd)
        return found.st_dev, found.st_ino

    heads = [*links, "d", "d/e", "d/f", "gone", ".", ".."]
    for path in [*heads, *(f"{head}/{tail}" for head in heads for tail in ("f", "..", "../d/f", "d", ".", "up"))]:
        for follow in (True, False):
            assert answer(path, follow, True) == answer(path, follow, False), (path, follow)
    os.close(root)


def test_names_are_shown_without_what_a_terminal_would_obey() -> None:
    assert shown("a\x1b[31m\n") == "a\\x1b[31m\\n"
    assert shown(os.fsdecode(b"\xff.txt")) == "\\xff.txt"
    assert shown("naïve 日本.py") == "naïve 日本.py"


def test_names_that_a_folding_file_system_takes_for_the_same_are_the_same() -> None:
    same = {folded(name) for name in (".git", ".GIT", ".Git.", ".g\u200cit", ".ｇit", ".git ")}
    assert same == {".git"}
