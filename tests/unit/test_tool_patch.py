"""The patch tool: two formats, several files, all or nothing."""

import shutil
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.domain.approvals import ChangeFiles
from hames.domain.items import FileChange
from hames.ports import ToolFailed
from hames.tools.patches import begin_patch, unified
from toolbench import Workshop, workshop

ABC = "a\nb\nc\nd\ne\nf\ng\n"


def tree(shop: Workshop) -> dict[str, str]:
    files = (p for p in sorted(shop.root.rglob("*")) if p.is_file() and ".git" not in p.parts)
    return {str(p.relative_to(shop.root)): p.read_text() for p in files}


async def patched(shop: Workshop, patch: str, **files: str) -> dict[str, str] | str:
    """All files afterwards, or the complaint; nothing changes with a complaint."""
    for name, content in files.items():
        (shop.root / name).write_text(content)
    before = tree(shop)
    done = await shop.do("patch", patch=patch)
    if done.failed:
        assert tree(shop) == before
        return done.text
    return tree(shop)


async def test_files_are_added_changed_and_deleted_together(tmp_path: Path) -> None:
    patch = (
        "--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n"
        "--- /dev/null\n+++ b/new/y\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        "--- a/z\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
    )
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "x").write_text(ABC)
        (shop.root / "z").write_text("gone\n")
        work = await shop.prepare("patch", patch=patch)
        assert isinstance(work.intent, ChangeFiles)
        assert [(Path(u.path).name, u.kind) for u in work.intent.changes] == [
            ("x", "modify"),
            ("y", "add"),
            ("z", "delete"),
        ]
        assert tree(shop) == {"x": ABC, "z": "gone\n"}
        done = await shop.run(work)
        assert done.text.startswith("Patched:\nchanged x\nadded new/y\ndeleted z\n--- a/x\n+++ b/x\n@@")
        assert tree(shop) == {"x": ABC.replace("c", "C"), "new/y": "one\ntwo\n"}
        assert isinstance(done.item, FileChange)
        assert done.told == "".join(update.diff for update in done.item.changes)


async def test_the_other_format_does_the_same(tmp_path: Path) -> None:
    patch = (
        "*** Begin Patch\n*** Update File: x\n@@\n b\n-c\n+C\n d\n*** Add File: new/y\n+one\n+two\n"
        "*** Delete File: z\n*** Update File: m\n*** Move to: n\n@@\n-q\n+r\n*** End Patch\n"
    )
    async with workshop(tmp_path / "w") as shop:
        assert await patched(shop, patch, x=ABC, z="gone\n", m="p\nq\n") == {
            "n": "p\nr\n",
            "new/y": "one\ntwo\n",
            "x": ABC.replace("c", "C"),
        }


async def test_an_anchor_says_which_of_several_places(tmp_path: Path) -> None:
    text = "def f():\n    return 1\n\ndef g():\n    return 1\n\ndef h():\n    return 1\n"
    patch = "*** Begin Patch\n*** Update File: x\n@@ def g():\n-    return 1\n+    return 2\n*** End Patch"
    async with workshop(tmp_path / "w") as shop:
        done = await patched(shop, patch, x=text)
        assert done == {"x": text[: text.index("def g")] + text[text.index("def g") :].replace("1", "2", 1)}
        assert "is not there" in str(await patched(shop, patch.replace("def g", "def q"), x=text))
        unanchored = patch.replace("@@ def g():", "@@")
        assert "fits at lines 2, 5, 8" in str(await patched(shop, unanchored, x=text))
        at_end = unanchored.replace("*** End Patch", "*** End of File\n*** End Patch")
        assert (await patched(shop, at_end, x=text)) == {"x": text[:-2] + "2\n"}


@pytest.mark.parametrize("stated", ["@@ -2,3 +2,3 @@", "@@ -5,3 +5,3 @@", "@@ -200 +200 @@", "@@", "@@ @@"])
async def test_numbers_may_be_wrong_when_the_lines_are_in_one_place(tmp_path: Path, stated: str) -> None:
    async with workshop(tmp_path / "w") as shop:
        patch = f"--- a/x\n+++ b/x\n{stated}\n b\n-c\n+C\n d\n"
        assert await patched(shop, patch, x=ABC) == {"x": ABC.replace("c", "C")}


async def test_the_stated_line_decides_between_equal_places(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        patch = "--- a/x\n+++ b/x\n@@ -3 +3 @@\n-a\n+A\n"
        assert await patched(shop, patch, x="a\na\na\na\n") == {"x": "a\na\nA\na\n"}
        assert "fits at lines 1, 2, 3, 4" in str(await patched(shop, patch.replace("3", "9"), x="a\na\na\na\n"))


async def test_only_whitespace_and_quotes_are_forgiven(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        for context in (" b \n", "  b\n"):
            patch = f"--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@\n{context}-c\n+C\n d\n"
            assert await patched(shop, patch, x=ABC) == {"x": ABC.replace("c", "C")}
        patch = "--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@\n B\n-c\n+C\n d\n"
        assert "does not fit" in str(await patched(shop, patch, x=ABC))
        said = await patched(shop, "--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n X\n", x=ABC)
        assert said == "hunk 1 of 'x' does not fit: line 4 is 'd', not 'X'"


async def test_one_bad_file_stops_all(tmp_path: Path) -> None:
    good = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+A\n"
    async with workshop(tmp_path / "w") as shop:
        assert "no file 'gone'" in str(
            await patched(shop, good + "--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-a\n+b\n", x=ABC)
        )
        assert "is there already" in str(
            await patched(shop, good + "--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+b\n", y="y")
        )
        leaves = good + "--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n"
        assert "does not remove" in str(await patched(shop, leaves, y="y\nz\n"))


async def test_a_file_may_be_changed_twice(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+A\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n A\n-b\n+B\n"
        assert await patched(shop, patch, x=ABC) == {"x": "A\nB\n" + ABC[4:]}


@pytest.mark.parametrize(
    ("old", "hunk", "new"),
    [
        ("a\nb", " a\n-b\n\\ No newline at end of file\n+c\n", "a\nc\n"),
        ("a\nb\n", " a\n-b\n+c\n\\ No newline at end of file\n", "a\nc"),
        ("a\nb", " a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n", "a\nc"),
        ("a\nb", " a\n-b\n+c\n", "a\nc"),
        ("a\nb", " b\n+c\n", "a\nb\nc"),
        ("a\n\nb\n", " a\n\n-b\n+c\n", "a\n\nc\n"),
    ],
    ids=["gains", "loses", "keeps", "unsaid", "after the last", "an empty line without its sign"],
)
async def test_the_newline_at_the_end_is_what_the_patch_says_or_what_it_was(
    tmp_path: Path, old: str, hunk: str, new: str
) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert await patched(shop, f"--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n{hunk}", x=old) == {"x": new}


async def test_line_ends_and_modes_are_kept(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "x").write_bytes(b"a\r\nb\r\nc\r\n")
        (shop.root / "x").chmod(0o750)
        for patch in ("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",):
            assert not (await shop.do("patch", patch=patch)).failed
        assert (shop.root / "x").read_bytes() == b"a\r\nB\r\nc\r\n"
        assert stat.S_IMODE((shop.root / "x").stat().st_mode) == 0o750
        dos = "--- a/x\r\n+++ b/x\r\n@@ -1,3 +1,3 @@\r\n a\r\n-B\r\n+Z\r\n c\r\n"
        assert not (await shop.do("patch", patch=dos)).failed
        assert (shop.root / "x").read_bytes() == b"a\r\nZ\r\nc\r\n"


async def test_git_s_own_lines_are_understood(tmp_path: Path) -> None:
    patch = (
        "diff --git a/tool b/tool\nnew file mode 100755\nindex 0000000..e69de29\n--- /dev/null\n+++ b/tool\n"
        "@@ -0,0 +1 @@\n+#!/bin/sh\n"
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n"
        "diff --git a/old name b/new name\nsimilarity index 90%\nrename from old name\nrename to new name\n"
        "--- a/old name\n+++ b/new name\n@@ -1 +1 @@\n-x\n+y\n"
        "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
        "-- \n2.39.5\n"
    )
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "old name").write_text("x\n")
        (shop.root / "old name").chmod(0o640)
        (shop.root / "run").write_text("r\n")
        (shop.root / "run").chmod(0o640)
        done = await shop.do("patch", patch=patch)
        assert not done.failed, done.text
        assert tree(shop) == {"tool": "#!/bin/sh\n", "empty": "", "new name": "y\n", "run": "r\n"}
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in shop.root.iterdir()}
        assert (modes["tool"], modes["new name"], modes["run"]) == (0o755, 0o640, 0o750)
        assert "new mode 100750" in done.told


@pytest.mark.skipif(not shutil.which("git"), reason="git is not here")
@pytest.mark.parametrize("options", [[], ["-U0"], ["-U1"], ["--no-renames"], ["-M"], ["--no-prefix"]])
async def test_what_git_writes_is_applied_as_git_means_it(tmp_path: Path, options: list[str]) -> None:
    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(command, cwd=tmp_path / "w", check=True, capture_output=True, text=True).stdout

    async with workshop(tmp_path / "w") as shop:
        long = "".join(f"line {n}\n" for n in range(60))
        for name, content in {
            "long": long,
            "moved": long + "m\n",
            "gone": "a\nb\n",
            "café": "é\n",
            "last": "x",
        }.items():
            (shop.root / name).write_text(content)
        git("init", "-q")
        git("add", ".")
        git("commit", "-qm", "before")
        (shop.root / "long").write_text(long.replace("line 3\n", "").replace("line 40\n", "-- forty\n++ plus\n"))
        (shop.root / "sub").mkdir()
        (shop.root / "moved").rename(shop.root / "sub/there")
        (shop.root / "gone").unlink()
        (shop.root / "café").write_text("è\n")
        (shop.root / "last").write_text("x\n")
        (shop.root / "added").write_text("1\n2")
        git("add", ".")
        wanted = tree(shop)
        patch = git("diff", "--cached", *options)
        git("reset", "-q", "--hard")
        done = await shop.do("patch", patch=patch)
        assert not done.failed, done.text
        assert tree(shop) == wanted


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("just words", "there is no file in this patch"),
        ("@@ -1 +1 @@\n-a\n+b\n", "a hunk before any"),
        ("--- a/x\n+++ b/x\n@@ nonsense @@\n-a\n", "is no head of a hunk"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n*b\n", "begins with none of"),
        ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "rename from"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "both sides"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n", "changes nothing"),
        ("diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 0\n", "binary"),
        ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "copies a file"),
        ("*** Begin Patch\n*** Update File: x\n", "ends with"),
        ("*** Begin Patch\n*** End Patch", "there is no file"),
        ("*** Begin Patch\n*** Update File: x\n*** End Patch", "without a change"),
        ("*** Begin Patch\n*** Add File: y\nplain\n*** End Patch", "begins with `+`"),
        ("*** Begin Patch\n*** Rename File: y\n*** End Patch", "is none of"),
        ("*** Begin Patch\n*** Update File: x\n@@\n?a\n*** End Patch", "begins with none of"),
        ("--- a/x\n+++ b/x\n@@ -50,0 +50,1 @@\n+a\n", "inserts after line 50"),
    ],
)
async def test_what_is_no_patch_is_said(tmp_path: Path, patch: str, words: str) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert words in str(await patched(shop, patch, x=ABC))


async def test_a_patch_whose_files_changed_since_is_not_applied_to_any(tmp_path: Path) -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+A\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+A\n"
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "x").write_text("a\n")
        (shop.root / "y").write_text("a\n")
        work = await shop.prepare("patch", patch=patch)
        (shop.root / "y").write_text("b\n")
        assert (await shop.run(work)).failed
        assert tree(shop) == {"x": "a\n", "y": "b\n"}


pieces = st.sampled_from(
    [
        "--- a/x",
        "+++ b/x",
        "@@ -1 +1 @@",
        "@@",
        "-a",
        "+b",
        " c",
        "",
        "\\ No newline",
        "diff --git a/x b/x",
        "rename to y",
    ]
)
markers = st.sampled_from(["*** Update File: x", "*** Add File: y", "*** Move to: z", "*** End of File", "@@ a", "+b"])


@given(st.lists(pieces | st.text(max_size=5), max_size=20))
def test_no_unified_diff_is_more_than_a_complaint(lines: list[str]) -> None:
    with suppress(ToolFailed):
        unified.parse_patch("\n".join(lines))


@given(st.lists(markers | pieces, max_size=20))
def test_no_envelope_is_more_than_a_complaint(lines: list[str]) -> None:
    with suppress(ToolFailed):
        begin_patch.parse_patch("\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


@pytest.mark.parametrize(
    "around",
    [
        "```diff\n{}\n```",
        "```\n{}\n```\n",
        "apply_patch <<'EOF'\n{}\nEOF",
        "apply_patch << PATCH\n{}\nPATCH\n",
        "<<EOF\n{}\nEOF",
        "```bash\napply_patch <<'EOF'\n{}\nEOF\n```",
    ],
)
async def test_a_fence_or_a_heredoc_around_a_patch_is_taken_off(tmp_path: Path, around: str) -> None:
    patch = "*** Begin Patch\n*** Update File: x\n@@\n b\n-c\n+C\n d\n*** End Patch"
    async with workshop(tmp_path / "w") as shop:
        assert await patched(shop, around.format(patch), x=ABC) == {"x": ABC.replace("c", "C")}


async def test_a_patch_with_other_indentation_is_put_in_with_the_files(tmp_path: Path) -> None:
    source = "class A:\n    def f(self):\n        return 1\n"
    patch = (
        "*** Begin Patch\n*** Update File: x.py\n@@\n def f(self):\n-  return 1\n+  if 1:\n+    return 2\n*** End Patch"
    )
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "x.py").write_text(source)
        assert not (await shop.do("patch", patch=patch)).failed
        expected = "class A:\n    def f(self):\n        if 1:\n            return 2\n"
        assert (shop.root / "x.py").read_text() == expected


async def test_a_path_in_full_below_the_working_directory_is_understood(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        patch = f"*** Begin Patch\n*** Add File: {shop.root}/new.txt\n+x\n*** End Patch"
        assert not (await shop.do("patch", patch=patch)).failed
        assert (shop.root / "new.txt").read_text() == "x\n"
