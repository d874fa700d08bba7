"""Files that a package manager or git has linked into the workspace: a command cannot change the other name."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from home import place, put, sandbox
from walls import as_user, bubblewraps, run, users

from hames.domain.policy import ReadOnly, WorkspaceWrite
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.processes.environment import SYSTEM_PATH
from hames.sandbox.walls import hard_links

pytestmark = pytest.mark.needs("bwrap", "bash")

CHANGES = {
    "append": "echo evil >> {0}",
    "overwrite": "echo evil > {0}",
    "truncate": ": > {0}",
    "in place": "sed -i s/mine/evil/ {0}; printf evil | dd of={0} conv=notrunc 2>/dev/null",
    "mode": "chmod 777 {0}",
    "times": "touch -d 1999-01-01 {0}",
    "after chmod": "chmod u+w {0}; echo evil >> {0}",
    "another name": "ln {0} another && echo evil >> another",
    "moved first": "mv {0} moved && echo evil >> moved",
    "moved directory": "mv $(dirname {0}) away && chmod -R u+w away && echo evil >> away/$(basename {0})",
}


def linked(outside: Path, inside: Path, *, mode: int = 0o644) -> Path:
    put(outside.parent, outside.name, "mine\n")
    outside.chmod(mode)
    os.utime(outside, ns=(10**18, 10**18))
    inside.parent.mkdir(parents=True, exist_ok=True)
    inside.hardlink_to(outside)
    return outside


def unchanged(path: Path, mode: int = 0o644) -> bool:
    about = path.stat()
    return (path.read_text(), about.st_mode & 0o777, about.st_mtime_ns) == ("mine\n", mode, 10**18)


async def changed(bubblewrap: str) -> list[str]:
    wrong: list[str] = []
    for name, change in CHANGES.items():
        with place() as base:
            here = base / "ws"
            cached = linked(base / "cache/module.py", here / ".venv/lib/module.py")
            stored = linked(base / "other/objects/ab/cd", here / ".git/objects/ab/cd", mode=0o444)
            walls = sandbox(base / "home", SandboxSettings(bubblewrap=bubblewrap))
            command = "; ".join(change.format(path) for path in (".venv/lib/module.py", ".git/objects/ab/cd"))
            done = await run(command, here, sandbox=walls)
            if not unchanged(cached) or not unchanged(stored, 0o444):
                wrong.append(f"{name}: {done.text}")
            if not any("hard links" in note for note in done.notes):
                wrong.append(f"{name}: not said")
    return wrong


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("bubblewrap", bubblewraps())
def test_no_change_inside_reaches_the_other_name(bubblewrap: str, user: str) -> None:
    wrong: list[Any] = as_user(user, "test_hard_links:changed", bubblewrap)
    assert wrong == []


async def test_a_copy_keeps_everything_but_the_link() -> None:
    with place() as base:
        here = base / "ws"
        outside = linked(base / "cache/tool", here / "bin/tool", mode=0o755)
        os.setxattr(outside, "user.note", b"kept")
        done = await run("cat bin/tool", here, sandbox=sandbox(base / "home"))
        inside = here / "bin/tool"
        assert done.text == "mine\n"
        assert unchanged(inside, 0o755)
        assert os.getxattr(inside, "user.note") == b"kept"
        assert (inside.stat().st_nlink, outside.stat().st_nlink) == (1, 1)
        assert inside.stat().st_ino != outside.stat().st_ino
        assert sorted(path.name for path in (here / "bin").iterdir()) == ["tool"]


async def test_names_that_all_lie_inside_are_left_alone_and_nothing_is_said() -> None:
    with place() as base:
        here = base / "ws"
        put(here, "a/one", "mine\n")
        (here / "b").mkdir()
        for name in ("a/two", "b/three"):
            (here / name).hardlink_to(here / "a/one")
        before = (here / "a/one").stat().st_ino
        done = await run("echo more >> b/three; cat a/one", here, sandbox=sandbox(base / "home"))
        assert (done.text, done.notes) == ("mine\nmore\n", ())
        assert {(here / name).stat().st_ino for name in ("a/one", "a/two", "b/three")} == {before}


async def test_two_names_inside_stay_two_names_of_one_file() -> None:
    with place() as base:
        here = base / "ws"
        outside = linked(base / "cache/x", here / "a/x")
        (here / "b").mkdir()
        (here / "b/y").hardlink_to(outside)
        done = await run("echo more >> a/x; cat b/y", here, sandbox=sandbox(base / "home"))
        assert done.text == "mine\nmore\n"
        assert unchanged(outside)
        assert outside.stat().st_nlink == 1


async def test_names_in_another_writable_root_count_as_inside() -> None:
    with place() as base:
        here, more = base / "ws", base / "more"
        linked(more / "x", here / "x")
        policy = WorkspaceWrite(writable_roots=(str(more),))
        done = await run(f"echo more >> x; cat {more}/x", here, policy, sandbox=sandbox(base / "home"))
        assert (done.text, done.notes) == ("mine\nmore\n", ())


async def test_a_name_in_a_protected_place_of_the_workspace_counts_as_outside() -> None:
    with place() as base:
        here = base / "ws"
        (here / ".git/objects").mkdir(parents=True)
        hook = linked(here / ".git/hooks/pre-commit", here / "innocent")
        await run("echo evil >> innocent; chmod 777 innocent", here, sandbox=sandbox(base / "home"))
        assert unchanged(hook)


async def test_what_is_linked_between_two_commands_is_found_before_the_next() -> None:
    with place() as base:
        here = base / "ws"
        here.mkdir()
        walls = sandbox(base / "home")
        assert (await run("mkdir -p .venv/lib; echo x > own", here, sandbox=walls)).code == 0
        # As `uv sync` does in the user's own shell: into a directory that is there, and into new ones.
        first = linked(base / "cache/first", here / ".venv/lib/first.py")
        second = linked(base / "cache/second", here / "node_modules/.store/a/b/second.js")
        # As `git clone` or `cp -al` does: the new name is outside, and no directory here has changed.
        (base / "backup").mkdir()
        (base / "backup/own").hardlink_to(here / "own")
        await run("for f in .venv/lib/* node_modules/.store/a/b/* own; do echo evil >> $f; done", here, sandbox=walls)
        assert unchanged(first)
        assert unchanged(second)
        assert (base / "backup/own").read_text() == "x\n"
        assert (here / "own").read_text() == "x\nevil\n"


async def test_a_large_file_is_not_copied_but_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hard_links, "LARGE_BYTES", 3)
    with place() as base:
        here = base / "ws"
        names = [f"big/{number}/pack" for number in range(40)]
        for name in names:
            linked(base / f"cache/{name}", here / name, mode=0o444)
        done = await run(
            "for f in big/*/pack; do chmod u+w $f; echo evil >> $f; cat $f; done", here, sandbox=sandbox(base / "home")
        )
        assert done.text.count("mine") == 40
        assert all(unchanged(base / f"cache/{name}", 0o444) for name in names)
        assert [note for note in done.notes if "read-only" in note]


async def test_nothing_is_touched_where_nothing_can_be_written() -> None:
    with place() as base:
        here = base / "ws"
        outside = linked(base / "cache/x", here / "x")
        done = await run("echo evil >> x; chmod 777 x", here, ReadOnly(), sandbox=sandbox(base / "home"))
        assert unchanged(outside)
        assert outside.stat().st_nlink == 2
        assert done.notes == ()


async def test_a_directory_that_turns_into_a_link_meanwhile_leads_nowhere() -> None:
    """Copies are made from outside the sandbox, while another command may still run in the workspace."""
    with place() as base:
        here, victim = base / "ws", base / "victim"
        victim.mkdir()
        put(victim, "module.py", "mine\n")
        stop = threading.Event()

        def swap() -> None:
            while not stop.is_set():
                (here / "lib").mkdir()
                (here / "lib/module.py").hardlink_to(victim / "module.py")
                (here / "lib").rename(here / "away")
                (here / "lib").symlink_to(victim)
                (here / "lib").unlink()
                while (here / "away").exists():  # a copy in the middle of it can come and go
                    shutil.rmtree(here / "away", ignore_errors=True)

        here.mkdir()
        before = (victim / "module.py").stat().st_ino
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            walls = sandbox(base / "home")
            for _ in range(25):
                await run("true", here, sandbox=walls)
        finally:
            stop.set()
            thread.join()
        assert [path.name for path in victim.iterdir()] == ["module.py"]
        assert (victim / "module.py").stat().st_ino == before


@pytest.mark.needs("git")
async def test_a_local_clone_shares_nothing_with_its_source_any_more() -> None:
    with place() as base:
        environment = {"PATH": os.environ["PATH"], "HOME": str(base)}
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run([*git, "init", "-q", base / "source"], check=True, env=environment)
        put(base, "source/file", "text\n")
        for words in (["add", "-A"], ["commit", "-qm", "one"]):
            subprocess.run([*git, *words], cwd=base / "source", check=True, env=environment)
        subprocess.run([*git, "clone", "-q", base / "source", base / "ws"], check=True, env=environment)
        shared = [path for path in (base / "ws/.git/objects").rglob("*") if path.is_file() and path.stat().st_nlink > 1]
        assert shared, "git links the objects of a local clone"
        command = "for f in $(find .git/objects -type f); do chmod 644 $f; echo evil > $f; done"
        await run(command, base / "ws", sandbox=sandbox(base / "home"))
        checked = subprocess.run(
            [*git, "fsck", "--strict"], cwd=base / "source", env=environment, capture_output=True, check=False
        )
        assert checked.returncode == 0, checked.stderr


def uv() -> str:
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("needs uv")
    return found


WHEEL = """
import base64, hashlib, sys, zipfile
files = {"demo.py": "WHO = 'mine'\\n",
         "demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n",
         "demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
record = "".join(f"{name},,\\n" for name in files) + "demo-1.0.dist-info/RECORD,,\\n"
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    for name, text in {**files, "demo-1.0.dist-info/RECORD": record}.items():
        wheel.writestr(name, text)
"""


async def test_what_uv_installed_from_its_cache_cannot_poison_the_cache() -> None:
    python = shutil.which("python3", path=":".join(SYSTEM_PATH))
    if python is None:
        pytest.skip("needs the system's python3")
    with place() as base:
        home, first, second = base / "home", base / "first", base / "second"
        for path in (home, first, second, base / "wheels"):
            path.mkdir()
        subprocess.run([python, "-c", WHEEL, base / "wheels/demo-1.0-py3-none-any.whl"], check=True)
        environment = {"HOME": str(home), "PATH": ":".join(SYSTEM_PATH), "UV_LINK_MODE": "hardlink"}

        def do(where: Path, *words: str | Path) -> None:
            program = [uv(), "--quiet", *words]
            subprocess.run(program, cwd=where, check=True, env=environment, capture_output=True, timeout=60)

        for where in (first, second):
            do(where, "venv", "--python", python, ".venv")
        install = ("pip", "install", "--offline", "--no-index", "--find-links", base / "wheels", "demo")
        do(first, *install)
        module = next((first / ".venv").rglob("demo.py"))
        assert module.stat().st_nlink > 1, "uv links its cache"
        change = "for f in $(find .venv -name demo.py); do echo \"WHO = 'evil'\" > $f; done"
        command = f"{change}; .venv/bin/python -c 'import demo; print(demo.WHO)'"
        done = await run(command, first, sandbox=sandbox(home))
        assert done.text == "evil\n"
        do(second, *install)
        assert next((second / ".venv").rglob("demo.py")).read_text() == "WHO = 'mine'\n"


async def test_package_managers_are_told_to_copy() -> None:
    with place() as base:
        (base / "ws").mkdir()
        done = await run("echo $UV_LINK_MODE; cat ~/.config/pnpm/rc; env", base / "ws", sandbox=sandbox(base / "home"))
        assert done.text.startswith("copy\npackage-import-method=copy\n")
        assert "pnpm_config_package_import_method=copy" in done.text
        # npm warns about every setting it does not know.
        assert "npm_config_package" not in done.text.replace("pnpm_config", "")


async def test_a_workspace_that_holds_the_home_is_not_searched() -> None:
    with place() as base:
        linked(base / "cache/x", base / "home/x")
        done = await run("true", base / "home", sandbox=LocalSandbox(environ={"HOME": str(base / "home")}))
        assert not any("hard links" in note for note in done.notes)


@pytest.mark.parametrize("degraded", [False, True])
@pytest.mark.parametrize("data", [".harness", "data/of/ours"])
async def test_the_logs_of_threads_keep_their_second_names(data: str, degraded: bool) -> None:
    """They have one in the state directory."""
    with place() as base:
        here = base / "ws"
        log = here / data / "threads/ses_1/events.jsonl"
        kept = linked(base / "state/kept/ses_1.jsonl", log)
        hidden = (str(base / "state"), *([str(here / data)] if data != ".harness" else ()))
        program = {"bubblewrap": "/nonexistent/bwrap", "allow_degraded": True} if degraded else {}
        walls = sandbox(base / "home", SandboxSettings(hidden=hidden, **program))
        change = "" if degraded else f"echo evil >> {data}/threads/ses_1/events.jsonl; "
        done = await run(f"{change}ls -A", here, sandbox=walls)
        assert log.samefile(kept), done.text
        assert unchanged(kept)
        assert not any("hard links" in note for note in done.notes)
