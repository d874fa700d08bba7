"""The edit tool: exact where it can be, once, and helpful when it is not."""

from pathlib import Path

import pytest

from hames.domain.approvals import ChangeFiles
from hames.tools.files.apply_changes import MAX_BYTES
from toolbench import Workshop, workshop


async def edit(shop: Workshop, content: bytes, old: str, new: str, **more: bool) -> bytes | str:
    """The new content, or the complaint."""
    (shop.root / "f").write_bytes(content)
    done = await shop.do("edit", path="f", old_string=old, new_string=new, **more)
    if done.failed:
        assert (shop.root / "f").read_bytes() == content
        return done.text
    return (shop.root / "f").read_bytes()


async def test_the_one_place_is_replaced(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert await edit(shop, b"a\nb\nc\n", "b\n", "B\nB\n") == b"a\nB\nB\nc\n"
        assert await edit(shop, b"a\nb\nc", "\nc", "") == b"a\nb"


async def test_the_diff_and_the_line_are_told(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_text("a\nb\nc\n")
        work = await shop.prepare("edit", path="f", old_string="b", new_string="x")
        assert isinstance(work.intent, ChangeFiles)
        [update] = work.intent.changes
        assert (update.kind, update.diff) == ("modify", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n")
        done = await shop.run(work)
        shown = "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c"
        assert (done.told, done.text) == (update.diff, f"Edited f: 1 replacement, first at line 2\n{shown}")


async def test_several_places_are_named_unless_all_are_meant(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert "more than once in 'f', at lines 1, 3;" in str(await edit(shop, b"a\nb\na\n", "a", "x"))
        assert await edit(shop, b"a\nb\na\n", "a", "x", replace_all=True) == b"x\nb\nx\n"
        assert "at lines 1, 1;" in str(await edit(shop, b"aaa\n", "aa", "x"))
        assert "10, …;" in str(await edit(shop, b"a\n" * 50, "a", "x"))


async def test_the_nearest_text_is_shown_when_there_is_none(tmp_path: Path) -> None:
    source = b"import os\n\ndef area(w, h):\n    # size\n    return w * h\n"
    async with workshop(tmp_path / "w") as shop:
        said = str(await edit(shop, source, "def area(w, h):\n  # sizes\n  return w*h\n", "x"))
        assert "`old_string` is not in 'f'. The nearest text is:" in said
        assert "     3\tdef area(w, h):\n     4\t    # size\n     5\t    return w * h" in said
        assert "Nothing in the file looks like it" in str(await edit(shop, source, "zzzz qqqq", "x"))


async def test_a_file_that_changed_since_it_was_read_is_said_when_it_matters(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_text("one\n")
        await shop.do("read", path="f")
        assert "changed since you read it" in str(await edit(shop, b"two\n", "one", "x"))
        assert await edit(shop, b"two one\n", "one", "x") == b"two x\n"


async def test_a_file_that_changed_since_it_was_prepared_is_left_alone(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_text("one\n")
        work = await shop.prepare("edit", path="f", old_string="one", new_string="two")
        (shop.root / "f").write_text("one, and more\n")
        assert (await shop.run(work)).failed
        assert (shop.root / "f").read_text() == "one, and more\n"


@pytest.mark.parametrize(
    ("content", "result"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nX\r\nY\r\nc\r\n"),
        (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nX\nY\n"),
        ("\ufeffa\r\nb\r\n".encode("utf-16-le"), "\ufeffa\r\nX\r\nY\r\n".encode("utf-16-le")),
        ("é\na\nb\n".encode("latin-1"), "é\na\nX\nY\n".encode("latin-1")),
        (b"x\na\r\nb\r\n", b"x\na\r\nX\r\nY\r\n"),
        (b"a\nb", b"a\nX\nY"),
    ],
    ids=["crlf", "mark", "utf-16", "latin-1", "mixed line ends", "no newline at the end"],
)
async def test_the_form_of_the_file_is_kept(tmp_path: Path, content: bytes, result: bytes) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert await edit(shop, content, "a\nb", "a\nX\nY") == result


async def test_a_character_that_the_encoding_may_not_have_is_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert "is not UTF-8" in str(await edit(shop, "café\n".encode("latin-1"), "caf", "über"))
        assert await edit(shop, "café\n".encode("latin-1"), "café", "le café") == "le café\n".encode("latin-1")


async def test_what_cannot_be_edited_is_said(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert "are the same" in str(await edit(shop, b"a", "a", "a"))
        assert "not a text file" in str(await edit(shop, b"a\0", "a", "b"))
        assert "at least 1 character" in str(await edit(shop, b"a", "", "b"))
        assert "`write` creates one" in (await shop.do("edit", path="gone", old_string="a", new_string="b")).text


async def test_a_small_replacement_that_multiplies_is_refused_before_it_is_made(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        said = await edit(shop, b"a" * 1_000_000, "a", "b" * 1_000_000, replace_all=True)
        assert f"more than {MAX_BYTES:,} bytes" in str(said)
