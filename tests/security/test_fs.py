"""THREATS, files: each attack by its id, against the tools as the engine calls them.

Every test ends with an honest request that works, and nothing appeared outside.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from hames.domain.approvals import ChangeFiles
from hames.domain.json import Json
from hames.ports import FileEdit, ToolFailed
from hames.ports.workspace import FileRefused
from hames.tools.files import apply_changes as atomic
from hames.tools.files.apply_changes import apply
from hames.tools.files.directory import LocalDirectory
from toolbench import Workshop, open_descriptors, workshop

SECRET = "the secret\n"


class Scene:
    """A workspace, and beside it what must stay untouched."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.inside = base / "w"
        self.outside = base / "outside"
        self.inside.mkdir(parents=True)
        (self.outside / "dir").mkdir(parents=True)
        (self.outside / "file").write_text(SECRET)
        (self.outside / "dir/file").write_text(SECRET)
        (self.inside / "honest").write_text("plain\n")

    def untouched(self) -> bool:
        return {str(p.relative_to(self.outside)): p.is_dir() or p.read_text() for p in self.outside.rglob("*")} == {
            "dir": True,
            "dir/file": SECRET,
            "file": SECRET,
        }


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def refused(shop: Workshop, scene: Scene, tool: str, **arguments: Json) -> None:
    """The call fails with a sentence, nothing leaks, nothing changes, and the next honest call works."""
    before = sorted(str(p) for p in scene.base.rglob("*"))
    done = await shop.do(tool, **arguments)
    assert done.failed, (tool, arguments, done.text)
    assert SECRET.strip() not in done.text
    assert SECRET.strip() not in done.told
    assert scene.untouched()
    assert sorted(str(p) for p in scene.base.rglob("*")) == before
    assert (await shop.do("read", path="honest")).text == "     1\tplain"


def deletion(path: str) -> str:
    return f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"


def addition(path: str) -> str:
    return f"*** Begin Patch\n*** Add File: {path}\n+planted\n*** End Patch"


EVERY_TOOL: dict[str, Callable[[str], Json]] = {
    "read": lambda path: {"path": path},
    "write": lambda path: {"path": path, "content": "planted"},
    "edit": lambda path: {"path": path, "old_string": "secret", "new_string": "planted"},
    "list": lambda path: {"path": path},
    "grep": lambda path: {"path": path, "pattern": "secret"},
    "glob": lambda path: {"path": path, "pattern": "*"},
    "artifact": lambda path: {"path": path},
    "shell": lambda path: {"command": "cat file", "cwd": path},
}


@pytest.mark.parametrize("tool", EVERY_TOOL)
@pytest.mark.parametrize(
    "path", ["file-link", "dir-link/file", "dir-link", "chain/file", "parent/link/file", "dangling", "up/outside/file"]
)
async def test_fs_1_no_tool_follows_a_link_out_of_the_workspace(scene: Scene, tool: str, path: str) -> None:
    links = {
        "file-link": scene.outside / "file",
        "dir-link": scene.outside / "dir",
        "hop": "dir-link",
        "chain": "hop",
        "dangling": scene.outside / "made",
        "up": "..",
    }
    for name, target in links.items():
        (scene.inside / name).symlink_to(target)
    (scene.inside / "parent").mkdir()
    (scene.inside / "parent/link").symlink_to("../../outside/dir")
    async with workshop(scene.inside) as shop:
        await refused(shop, scene, tool, **EVERY_TOOL[tool](path))
        await refused(shop, scene, "patch", patch=deletion(path))
        await refused(shop, scene, "patch", patch=addition(f"{path}/new"))


async def test_fs_1_a_link_that_stays_inside_is_read_and_not_written(scene: Scene) -> None:
    (scene.inside / "alias").symlink_to("honest")
    async with workshop(scene.inside) as shop:
        assert (await shop.do("read", path="alias")).text == "     1\tplain"
        await refused(shop, scene, "write", path="alias", content="planted")
        await refused(shop, scene, "edit", path="alias", old_string="plain", new_string="planted")
        await refused(shop, scene, "patch", patch=deletion("alias"))
        with pytest.raises(ToolFailed):  # before anybody is asked
            await shop.prepare("write", path="alias", content="planted")
        assert (scene.inside / "alias").is_symlink()


SWAPS = 100_000
SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
a, b = sys.argv[1].encode(), sys.argv[2].encode()
for _ in range(int(sys.argv[3])):
    if libc.renameat2(-100, a, -100, b, 2):
        sys.exit(ctypes.get_errno() or 1)
"""


@pytest.fixture
def fast_scene() -> Iterator[Scene]:
    """In memory where there is such a place: the more often somebody writes, the harder the race."""
    base = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    yield Scene(Path(base))
    shutil.rmtree(base)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "renameat2"), reason="this C library has no renameat2")
def test_fs_2_a_directory_that_becomes_a_link_a_hundred_thousand_times_leads_nowhere(fast_scene: Scene) -> None:
    scene, root = fast_scene, str(fast_scene.inside)
    (scene.inside / "d").mkdir()
    (scene.inside / "d/file").write_text("inner\n")
    (scene.inside / "e").symlink_to(scene.outside / "dir")
    words = [sys.executable, "-c", SWAPPER, str(scene.inside / "d"), str(scene.inside / "e"), str(SWAPS)]
    swapper = subprocess.Popen(words)
    seen: set[bool] = set()
    tries = wins = 0
    while swapper.poll() is None or tries < 200:
        tries += 1
        seen.add((scene.inside / "d").is_symlink())
        name = f"made-{tries}"
        attempts: list[Callable[[], object]] = [
            lambda name=name: apply([FileEdit(root=root, path=f"d/{name}", before=None, after=b"planted")]),
            lambda: apply([FileEdit(root=root, path="d/file", before=b"inner\n", after=b"inner\n", mode=0o644)]),
            lambda: apply([FileEdit(root=root, path="d/file", before=SECRET.encode(), after=b"planted")]),
            lambda: apply([FileEdit(root=root, path="d/file", before=SECRET.encode(), after=None)]),
        ]
        for attempt in attempts:
            try:
                attempt()
                wins += 1
            except FileRefused:
                continue
        for by_kernel in (True, False):
            with LocalDirectory(root, by_kernel=by_kernel) as beneath:
                try:
                    assert beneath.read("d/file", limit=100) == b"inner\n"
                    assert "file" in {entry.path for entry in beneath.walk("d", depth=2, limit=9999)}
                except FileRefused:
                    continue
    assert swapper.returncode == 0
    assert seen == {True, False}, "there was no race"
    assert wins > 0
    assert scene.untouched()


@pytest.mark.parametrize(
    "path",
    [
        *("{base}/w-evil/x", "{base}/w/../w-evil/x", "../w-evil/x", "{base}//w-evil/x", "{base}/w/./../w-evil/./x"),
        *("{base}/w./x", "{base}/W/x", "{base}/w\\x", "{base}", "/", "..", "../../../../../../etc/passwd"),
        *("~/x", "~", "/proc/self/cwd/x", "/proc/self/root/etc/passwd", "/dev/fd/0", "honest/../../outside/file"),
    ],
)
@pytest.mark.parametrize("tool", EVERY_TOOL)
async def test_fs_3_a_name_that_only_begins_like_the_workspace_is_outside(scene: Scene, tool: str, path: str) -> None:
    (scene.base / "w-evil").mkdir()
    (scene.base / "w-evil/x").write_text(SECRET)
    async with workshop(scene.inside) as shop:
        await refused(shop, scene, tool, **EVERY_TOOL[tool](path.format(base=scene.base)))
    assert (scene.base / "w-evil/x").read_text() == SECRET


async def test_fs_4_a_link_that_a_command_planted_is_not_followed_by_the_next_tool(scene: Scene) -> None:
    async with workshop(scene.inside) as shop:
        planted = await shop.do("shell", command=f"ln -s {scene.outside}/dir d; ln -s {scene.outside}/file f")
        assert not planted.failed
        for path in ("d/x", "d/file", "f"):
            await refused(shop, scene, "write", path=path, content="planted")
            await refused(shop, scene, "edit", path=path, old_string="secret", new_string="planted")
            await refused(shop, scene, "patch", patch=deletion(path))
        work = await shop.prepare("write", path="later/x", content="planted")
        await shop.do("shell", command=f"ln -s {scene.outside}/dir later")
        assert (await shop.run(work)).failed
        assert scene.untouched()


GUARD_RAILS = [
    *(
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/.git/hooks/x",
        ".git",
        ".GIT/config",
        ".Git/hooks/x",
        ".g\u200dit/x",
    ),
    *(".harness/threads/t/events.jsonl", ".harness", ".HARNESS/x", "a/b/.harness/x"),
    *(".claude/settings.json", ".codex/config.toml", ".gemini/x", ".cursor/rules", ".mcp.json", ".MCP.json"),
    *(".vscode/tasks.json", ".idea/x", "sub/.vscode/settings.json", ".envrc", ".husky/pre-commit", ".gitmodules"),
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".config/fish/config.fish", ".ssh/authorized_keys"),
    *("x/../.git/config", "./.git/./config", "{inside}/.git/config"),
    *("pkg/.git/hooks/pre-commit", "a/b/.claude/settings.json", "pkg/.vscode/tasks.json", "pkg/.mcp.json", "x/.envrc"),
    *(
        ".devcontainer/devcontainer.json",
        "pkg/.devcontainer.json",
        "pkg/.husky/pre-commit",
        ".githooks/pre-commit",
        ".hg/hgrc",
    ),
]
ORDINARY = [
    "AGENTS.md",
    "CLAUDE.md",
    ".env",
    "src/git/x",
    ".gitignore",
    ".github/workflows/x.yml",
    "mcp.json",
    "git/config",
    "src/objects/x",
    "src/refs/x",
    "HEAD",
    "hooks/pre-commit",
    ".pre-commit-config.yaml",
]


@pytest.mark.parametrize("path", GUARD_RAILS)
async def test_fs_5_a_change_of_guard_rails_says_so_even_where_nothing_is_yet(scene: Scene, path: str) -> None:
    path = path.format(inside=scene.inside)
    async with workshop(scene.inside) as shop:
        for tool, arguments in (("write", {"path": path, "content": "x"}), ("patch", {"patch": addition(path)})):
            if tool == "patch" and (".." in path or path.startswith("/")):
                await refused(shop, scene, tool, **arguments)
                continue
            work = await shop.prepare(tool, **arguments)
            assert isinstance(work.intent, ChangeFiles)
            assert work.intent.protected, (tool, path)
        target = Path(scene.inside, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("old\n")
        work = await shop.prepare("edit", path=path, old_string="old", new_string="new")
        assert isinstance(work.intent, ChangeFiles)
        assert work.intent.protected
        assert target.read_text() == "old\n"


@pytest.mark.parametrize("path", ORDINARY)
async def test_fs_5_ordinary_files_are_not_guard_rails(scene: Scene, path: str) -> None:
    async with workshop(scene.inside) as shop:
        work = await shop.prepare("write", path=path, content="x")
        assert isinstance(work.intent, ChangeFiles)
        assert not work.intent.protected


async def test_fs_5_a_guard_rail_under_another_name_is_one(scene: Scene) -> None:
    hook = scene.inside / ".git/hooks/pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("old\n")
    for name in ("objects", "refs"):
        (scene.inside / ".git" / name).mkdir()
    (scene.inside / "innocent").hardlink_to(hook)
    (scene.inside / "alias").symlink_to(".git")
    async with workshop(scene.inside) as shop:
        # A hard link: the other name gets a file of its own, the hook stays.
        assert not (await shop.do("edit", path="innocent", old_string="old", new_string="new")).failed
        assert hook.read_text() == "old\n"
        # A link to the directory: no change goes through it.
        await refused(shop, scene, "write", path="alias/hooks/pre-commit", content="x")
        # The directory moved away: it is still a git directory.
        (scene.inside / ".git").rename(scene.inside / "moved")
        work = await shop.prepare("edit", path="moved/hooks/pre-commit", old_string="old", new_string="new")
        assert isinstance(work.intent, ChangeFiles)
        assert work.intent.protected
        # Renaming something onto a guard rail, or one away, is no ordinary change.
        for before, after in (("honest", ".git/hooks/post-commit"), ("moved/hooks/pre-commit", "harmless")):
            await refused(
                shop,
                scene,
                "patch",
                patch=f"diff --git a/{before} b/{after}\nrename from {before}\nrename to {after}\n",
            )
            await refused(
                shop,
                scene,
                "patch",
                patch=f"*** Begin Patch\n*** Update File: {before}\n*** Move to: {after}\n*** End Patch",
            )


@pytest.mark.parametrize("cwd", ["/", "..", "/tmp", "../outside", "out", "out/dir", "~", "honest", "gone"])
async def test_fs_6_a_directory_outside_is_refused_and_the_writable_root_stays(scene: Scene, cwd: str) -> None:
    (scene.inside / "out").symlink_to(scene.outside)
    (scene.inside / "sub").mkdir()
    async with workshop(scene.inside) as shop:
        await refused(shop, scene, "shell", command="touch planted", cwd=cwd)
        assert not shop.sandbox.launches
        await shop.do("shell", command="true", cwd="sub")
        assert [launch.workspace for launch in shop.sandbox.launches] == [str(scene.inside)]


@pytest.mark.parametrize("tool", ["read", "write", "edit"])
@pytest.mark.parametrize("path", ["fifo", "socket", "sparse", "dir", "zero", "memory"])
async def test_fs_7_special_files_are_refused_at_once(scene: Scene, tool: str, path: str) -> None:
    os.mkfifo(scene.inside / "fifo")
    (scene.inside / "dir").mkdir()
    (scene.inside / "zero").symlink_to("/dev/zero")
    (scene.inside / "memory").symlink_to("/proc/self/mem")
    with (scene.inside / "sparse").open("wb") as file:
        file.truncate(10 << 30)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(scene.inside / "socket"))
        async with workshop(scene.inside) as shop:
            with anyio.fail_after(60):
                await refused(shop, scene, tool, **EVERY_TOOL[tool](path))
            before = open_descriptors()
            await refused(shop, scene, tool, **EVERY_TOOL[tool](path))
            assert open_descriptors() == before


async def test_fs_7_the_loop_runs_on_while_a_file_grows(scene: Scene) -> None:
    async with workshop(scene.inside) as shop:
        growing = scene.inside / "growing"
        growing.write_bytes(b"x" * (8 << 20))
        writer = subprocess.Popen(["sh", "-c", "while :; do echo more; done"], stdout=growing.open("ab"))
        try:
            with anyio.fail_after(60):
                answers = {(await shop.do("read", path="growing", limit=1)).failed for _ in range(20)}
            assert True in answers
        finally:
            writer.kill()
            writer.wait()


TRAVERSALS = [
    "../outside/file",
    "a/../../outside/file",
    "{outside}/file",
    "C:\\outside\\file",
    "..\\outside\\file",
    "C:outside",
    "//outside/file",
    "~/file",
]


@pytest.mark.parametrize("path", TRAVERSALS)
async def test_fs_8_a_patch_that_leaves_is_refused_as_a_whole(scene: Scene, path: str) -> None:
    path = path.format(outside=scene.outside)
    good = "--- a/honest\n+++ b/honest\n@@ -1 +1 @@\n-plain\n+changed\n"
    async with workshop(scene.inside) as shop:
        for bad in (
            f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+planted\n",
            f"--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+planted\n",
            f"--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-the secret\n",
            f"diff --git a/honest b/{path}\nrename from honest\nrename to {path}\n",
            f"diff --git a/x b/x\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-the secret\n+planted\n",
        ):
            await refused(shop, scene, "patch", patch=good + bad)
            await refused(shop, scene, "patch", patch=bad + good)
        for bad in (
            f"*** Add File: {path}\n+x",
            f"*** Delete File: {path}",
            f"*** Update File: honest\n*** Move to: {path}",
        ):
            await refused(shop, scene, "patch", patch=f"*** Begin Patch\n*** Add File: new\n+x\n{bad}\n*** End Patch")
        assert not (await shop.do("patch", patch=good)).failed


async def test_fs_8_links_submodules_and_devices_are_no_patch(scene: Scene) -> None:
    async with workshop(scene.inside) as shop:
        for mode in ("120000", "160000", "020000", "100777", "104755"):
            for line in (f"new file mode {mode}", f"deleted file mode {mode}", f"old mode 100644\nnew mode {mode}"):
                patch = (
                    f"diff --git a/honest b/honest\n{line}\n--- /dev/null\n+++ b/honest\n@@ -0,0 +1 @@\n+/etc/passwd\n"
                )
                await refused(shop, scene, "patch", patch=patch)
        await refused(
            shop,
            scene,
            "patch",
            patch="diff --git a/honest b/.git/hooks/pre-commit\nsimilarity index 100%\nrename from honest\n"
            "rename to .git/hooks/pre-commit\n",
        )


STEPS = ("open", "write", "fsync", "fchmod", "fchown", "link", "rename", "unlink", "mkdir", "close", "stat", "setxattr")


def _killed_at(step: int, change: FileEdit) -> bool:
    """A child makes the change and is killed before its `step`-th call of the system. False: it got to the end."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    count = 0

    def counting(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **named)

        return call

    for name in STEPS:
        setattr(os, name, counting(getattr(os, name)))
    apply([change])
    os._exit(0)


@pytest.mark.parametrize("way", ["/proc/self/fd", "/nowhere"], ids=["unnamed", "named"])
@pytest.mark.parametrize("kind", ["replace", "create", "delete"])
def test_fs_9_a_kill_at_any_step_leaves_the_old_or_the_new(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, way: str, kind: str
) -> None:
    monkeypatch.setattr(atomic, "_DESCRIPTORS", way)
    old = None if kind == "create" else b"old\n" * 5000
    new = None if kind == "delete" else b"new\n" * 5000
    target = scene.inside / "d/f"
    change = FileEdit(root=str(scene.inside), path="d/f", before=old, after=new)
    step, ends = 0, set[bytes | None]()
    while True:
        step += 1
        shutil.rmtree(target.parent, ignore_errors=True)
        target.parent.mkdir()
        if old is not None:
            target.write_bytes(old)
            target.chmod(0o741)
        killed = _killed_at(step, change)
        ends.add(target.read_bytes() if target.exists() else None)
        if target.exists() and kind == "replace":
            assert target.stat().st_mode & 0o777 == 0o741
        # Whatever the kill left behind, the next change in the directory takes it away.
        apply([FileEdit(root=str(scene.inside), path="d/next", before=None, after=b"x")])
        assert {p.name for p in target.parent.iterdir()} <= {"f", "next"}
        if not killed:
            break
    assert step > 5, "the child was never killed"
    assert ends == {old, new}


async def test_fs_9_a_full_disk_during_an_edit_leaves_the_old(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) < 3000:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data[:2048]))

    (scene.inside / "f").write_text("old\n" * 2000)
    async with workshop(scene.inside) as shop:
        work = await shop.prepare("edit", path="f", old_string="old", new_string="new", replace_all=True)
        monkeypatch.setattr(atomic.os, "write", full)
        done = await shop.run(work)
        monkeypatch.undo()
        assert done.failed
        assert "no space left" in done.text
        assert (scene.inside / "f").read_text() == "old\n" * 2000
        assert {p.name for p in scene.inside.iterdir()} == {"f", "honest"}
        work = await shop.prepare("edit", path="f", old_string="old", new_string="new", replace_all=True)
        assert not (await shop.run(work)).failed


@pytest.mark.parametrize("way", ["/proc/self/fd", "/nowhere"], ids=["unnamed", "named"])
async def test_fs_10_a_link_planted_at_a_temporary_name_is_not_written_through(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(atomic, "_DESCRIPTORS", way)
    monkeypatch.setattr(atomic.os, "urandom", bytes)
    planted = scene.inside / f".hames-{bytes(8).hex()}.tmp"
    planted.symlink_to(scene.outside / "file")
    async with workshop(scene.inside) as shop:
        await refused(shop, scene, "edit", path="honest", old_string="plain", new_string="changed")
        monkeypatch.undo()
        assert not (await shop.do("edit", path="honest", old_string="plain", new_string="changed")).failed
    assert scene.untouched()


async def test_fs_10_a_private_file_is_private_at_every_moment(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "_DESCRIPTORS", "/nowhere")
    (scene.inside / "key").write_text("old\n")
    (scene.inside / "key").chmod(0o600)
    modes: set[int] = set()
    real = os.write

    def watching(fd: int, data: bytes) -> int:
        modes.update(p.stat().st_mode & 0o777 for p in scene.inside.glob(".hames-*"))
        return real(fd, data)

    async with workshop(scene.inside) as shop:
        await shop.do("read", path="key")
        work = await shop.prepare("write", path="key", content="new\n")
        monkeypatch.setattr(atomic.os, "write", watching)
        assert not (await shop.run(work)).failed
    assert modes == {0o600}


@pytest.mark.parametrize(
    "order",
    [
        ("config", "HEAD", "objects/x", "refs/x"),
        ("HEAD", "refs/x", "config", "objects/x"),
        ("objects/x", "refs/x", "HEAD"),
        ("HEAD", "commondir"),
        ("commondir", "HEAD"),
    ],
)
async def test_fs_5_a_bare_repository_cannot_be_put_together_file_by_file(scene: Scene, order: tuple[str, ...]) -> None:
    async with workshop(scene.inside) as shop:
        for name in order[:-1]:
            work = await shop.prepare("write", path=f"pkg/{name}", content="x")
            assert isinstance(work.intent, ChangeFiles)
            target = scene.inside / "pkg" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("x")
        work = await shop.prepare("write", path=f"pkg/{order[-1]}", content="x")
        assert isinstance(work.intent, ChangeFiles)
        assert work.intent.protected
        work = await shop.prepare("patch", patch=addition(f"pkg/{order[-1]}"))
        assert isinstance(work.intent, ChangeFiles)
        assert work.intent.protected


async def test_fs_5_a_bare_repository_cannot_be_put_together_in_one_patch(scene: Scene) -> None:
    parts = [addition(f"pkg/{name}").splitlines()[1:-1] for name in ("config", "HEAD", "objects/x", "refs/x")]
    patch = "\n".join(["*** Begin Patch", *(line for part in parts for line in part), "*** End Patch"])
    async with workshop(scene.inside) as shop:
        work = await shop.prepare("patch", patch=patch)
        assert isinstance(work.intent, ChangeFiles)
        assert work.intent.protected
