"""Text as bytes and back, and the diff between two of them."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.ports import ToolFailed
from hames.tools.diffs import MATCHED_PAIRS, MAX_CHARS, update
from hames.tools.files.texts import decoded, lines_of
from hames.tools.patches.hunks import apply_hunks
from hames.tools.patches.unified import parse_patch


@pytest.mark.parametrize(
    ("content", "body", "words"),
    [
        (b"", "", ""),
        (b"plain\n", "plain\n", ""),
        ("naïve\n".encode(), "naïve\n", ""),
        (b"a\r\nb\r\n", "a\nb\n", "CRLF line ends"),
        (b"a\r\nb\n", "a\r\nb\n", ""),
        (b"a\rb\r\n", "a\rb\r\n", ""),
        (b"\xef\xbb\xbfx\r\n", "x\n", "a byte order mark, CRLF line ends"),
        ("\ufeffx\n".encode("utf-16-le"), "x\n", "UTF-16"),
        ("\ufeffx\r\n".encode("utf-16-be"), "x\n", "UTF-16, CRLF line ends"),
        ("café\n".encode("latin-1"), "café\n", "not UTF-8, shown as Latin-1"),
        ("a\u2028b\x0cc\x85d\n".encode(), "a\u2028b\x0cc\x85d\n", ""),
    ],
)
def test_text_is_understood_and_written_back_as_it_was(content: bytes, body: str, words: str) -> None:
    text = decoded(content)
    assert text is not None
    assert (text.body, text.peculiarities) == (body, words)
    assert text.encoded(text.body, "f") == content


@pytest.mark.parametrize(
    "content",
    [b"\x7fELF\0\0", b"\xff\xfe\0\0x\0\0\0", b"\xff\xfex", b"\xfe\xff\xd8\0\0A", "\ufeffa\0".encode("utf-16-le")],
)
def test_what_is_no_text_is_not_taken_for_one(content: bytes) -> None:
    assert decoded(content) is None


def test_a_character_the_file_cannot_hold_is_refused() -> None:
    latin, utf8 = decoded("café\n".encode("latin-1")), decoded(b"x")
    assert latin and utf8
    assert latin.encoded("un café, deux cafés", "f") == "un café, deux cafés".encode("latin-1")
    with pytest.raises(ToolFailed, match="'ü' cannot be written"):
        latin.encoded("über", "f")
    with pytest.raises(ToolFailed, match="lone surrogate"):
        utf8.encoded("\ud800", "f")


@given(st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")))
def test_reading_and_writing_back_loses_nothing(content: bytes) -> None:
    text = decoded(content)
    assert text is None or text.encoded(text.body, "f") == content


lines = st.lists(st.sampled_from(["a", "b", "", "  a", "-- x", "++ y", "@@", "\\", "a\rb", "é\u2028"]), max_size=30)
files = st.tuples(lines, st.booleans()).map(lambda file: "\n".join(file[0]) + "\n" * file[1])


@given(files, files)
def test_a_diff_put_onto_the_old_text_gives_the_new(old: str, new: str) -> None:
    shown = update("/w/f", "f", old.encode(), new.encode())
    if old == new:
        assert shown.diff == ""
        return
    [part] = parse_patch(shown.diff)
    assert apply_hunks(old, part.hunks, "f") == (new, False)


@given(files, files)
def test_only_the_lines_around_a_change_are_shown(old: str, new: str) -> None:
    body = update("/w/f", "f", old.encode(), new.encode()).diff.split("\n@@")
    for hunk in body[1:]:
        signs = [line[:1] for line in hunk.split("\n")[1:] if line and line[0] in " +-"]
        runs = "".join(signs).strip(" ").replace("+", "-").split("-")
        assert all(len(run) <= 6 for run in runs)


@pytest.mark.skipif(not shutil.which("patch"), reason="the program `patch` is not here")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb\nc", "a\nb\nc\n"),
        ("a\nb\nc\n", "a\nb\nc"),
        ("", "first\n"),
        ("x\n" * 30, "x\n" * 3 + "y\n" + "x\n" * 20 + "z"),
        ("".join(f"{n}\n" for n in range(100)), "".join(f"{n}\n" for n in range(0, 100, 7))),
    ],
)
def test_the_program_patch_reads_our_diffs(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "f").write_text(old)
    diff = update("/w/f", "f", old.encode(), new.encode()).diff
    subprocess.run(["patch", "-p1", "-s", "-F0"], input=diff, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "f").read_text() == new


def test_adding_deleting_and_modes_are_said_in_the_head() -> None:
    assert update("/w/f", "f", None, b"x\n").diff == "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"
    assert update("/w/f", "f", b"x\n", None).diff == "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    assert update("/w/f", "f", None, b"", mode=0o755).diff == "new file mode 100755\n"
    assert update("/w/f", "/w/f", None, b"x\n").diff.startswith("--- /dev/null\n+++ b/w/f\n")
    assert update("/w/f", "f", b"\0", b"\0\0").diff == "Binary files a/f and b/f differ\n"


def test_kept_line_ends_are_no_noise_and_changed_ones_show() -> None:
    assert update("/w/f", "f", b"a\r\nb\r\n", b"a\r\nc\r\n").diff.count("\r") == 0
    assert "-a\r\n+a\n" in update("/w/f", "f", b"a\r\n", b"a\n").diff


def test_a_change_too_big_to_compare_is_shown_as_out_with_the_old_in_with_the_new() -> None:
    old = "same\n" * (MATCHED_PAIRS // 100)
    new = "first\n" + "other\nsame\n" * (MATCHED_PAIRS // 100) + "last\n"
    diff = update("/w/f", "f", old.encode(), new.encode()).diff
    assert diff.count("\n-same") == MATCHED_PAIRS // 100
    [part] = parse_patch(diff)
    assert apply_hunks(old, part.hunks, "f") == (new, False)


def test_a_diff_without_end_is_cut_and_says_so() -> None:
    diff = update("/w/f", "f", None, b"x" * (MAX_CHARS * 2)).diff
    assert len(diff) < MAX_CHARS + 100
    assert "characters of this diff omitted" in diff


def test_only_a_line_feed_ends_a_line() -> None:
    assert lines_of("a\u2028b\x0b\x0c\x85\rc\nd") == ["a\u2028b\x0b\x0c\x85\rc\n", "d"]
    assert lines_of("") == []
