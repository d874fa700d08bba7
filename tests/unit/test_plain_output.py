"""What the model is told of output that was made for a terminal, and files for output that is too long."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.tools.output_files import OutputFiles, OutputLimits, OutputSpool
from hames.tools.plain_output import PlainOutput, complete_end, plain
from hames.tools.registry import ToolLimits
from hames.tools.shell import ShellLimits
from toolbench import workshop


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"plain\n", b"plain\n"),
        (b"\x1b[1;31mred\x1b[0m \x1b[38;5;12mblue\x1b[m\n", b"red blue\n"),
        (b"a\r\nb\r\n", b"a\nb\n"),
        (b" 10%\r 20%\r 30%\ndone\n", b" 30%\ndone\n"),
        (b" 10%\r 20%\r", b" 20%"),
        (b"\x1b]0;title\x07text\n", b"text\n"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", b"link\n"),
        (b"\x1b[2K\x1b[1Gspin /\x1b[2K\x1b[1Gspin -\n", b"spin -\n"),
        (b"N\bNA\bA\n", b"NA\n"),
        (b"bell\x07\n", b"bell\n"),
        (b"\x1b(B\x1b[?25lhidden cursor\x1b[?25h\n", b"hidden cursor\n"),
    ],
)
def test_escapes_and_overwritten_text_are_left_out(said: bytes, shown: bytes) -> None:
    assert plain(said) == shown


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\x1b[31m", b"\x1b]0;t\x07", b"\xc3\xa9", b"\b", b"12%"])))
def test_a_stream_is_as_plain_as_the_whole(pieces: list[bytes]) -> None:
    stream = PlainOutput()
    assert b"".join([*map(stream.feed, pieces), stream.finish()]) == plain(b"".join(pieces))


def test_an_endless_progress_bar_takes_no_room() -> None:
    stream = PlainOutput()
    assert b"".join(stream.feed(b"\r%6d%%" % number) for number in range(100_000)) == b""
    assert stream.finish() == b" 99999%"


@pytest.mark.parametrize(
    ("text", "end"), [(b"abc", 3), (b"ab\xc3", 2), (b"ab\xc3\xa9", 4), (b"ab\x1b", 2), (b"ab\x1b[3", 2), (b"", 0)]
)
def test_what_can_be_told_now_ends_with_a_whole_character(text: bytes, end: int) -> None:
    assert complete_end(text) == end


async def test_the_model_is_told_plain_text_and_people_see_the_stream(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        done = await shop.do("shell", command="printf '\\033[32mok\\033[0m\\n 1%%\\r 2%%\\r100%%\\n'")
    assert done.text == "ok\n100%\n[exit code 0]"
    assert done.told == "\x1b[32mok\x1b[0m\n 1%\r 2%\r100%\n"


async def test_a_long_output_is_paged_with_read(tmp_path: Path) -> None:
    limits = ToolLimits(shell=ShellLimits(told_bytes=400))
    async with workshop(tmp_path / "w", limits=limits) as shop:
        done = await shop.do("shell", command="seq 1 3000")
        path = done.text.partition("with `read`: ")[2].partition("]")[0]
        page = await shop.do("read", path=path, offset=1500, limit=2)
        assert page.text.startswith("  1500\t1500\n  1501\t1501\n")
        assert (await shop.do("read", path=f"{path}/../../x")).failed
        assert not (await shop.do("shell", command="echo short")).text.count("`read`")
    assert not Path(path).exists()


def test_files_are_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    files = OutputFiles(str(tmp_path / "outputs"), OutputLimits(file_bytes=1000, total_bytes=2500))
    spools = [OutputSpool(files, 10) for _ in range(4)]
    for spool in spools:
        for _ in range(20):
            spool.feed(b"x" * 100)
        spool.close()
    assert [bool(files.find(spool.path)) for spool in spools] == [False, False, True, True]
    assert Path(spools[-1].path).stat().st_size == 1000
    assert "the first 1,000 bytes" in spools[-1].note() and spools[0].note() == ""
    files.close()
    assert list((tmp_path / "outputs").iterdir()) == []


def test_what_a_killed_harness_left_is_deleted_by_the_next(tmp_path: Path) -> None:
    abandoned = tmp_path / "hames-output-old"
    abandoned.mkdir()
    (abandoned / ".lock").touch()
    used, mine = OutputFiles(str(tmp_path)), OutputFiles(str(tmp_path))
    assert used.create() and mine.create()
    assert not abandoned.exists()
    assert len(list(tmp_path.iterdir())) == 2
    used.close()
    mine.close()
