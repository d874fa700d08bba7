"""The read tool: text with line numbers, pictures, and what it will not open."""

import base64
import struct
import zlib
from pathlib import Path

import pytest

from hames.domain.approvals import Harmless
from hames.domain.items import ToolCall
from hames.domain.pictures import MAX_SIDE_PX, Shape, shape
from hames.tools.read import PICTURE_BYTES, ReadLimits
from hames.tools.registry import ToolLimits
from toolbench import Workshop, workshop


def png(width: int, height: int, *, padding: int = 0) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"tEXt", b"x" * padding) + chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    comment = b"\xff\xfe" + struct.pack(">H", 2 + 300) + b"\xff\xc0" * 150  # looks like a frame, and is a comment
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return b"\xff\xd8" + b"\xff\xe0\x00\x04ab" + comment + b"\xff" + frame + b"\xff\xd9"


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


PICTURES = {
    "image/png": png(640, 480),
    "image/gif": b"GIF89a" + struct.pack("<HH", 640, 480) + bytes(20),
    "image/jpeg": jpeg(640, 480),
    "image/webp": webp(b"VP8X", bytes(4) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")),
}


async def read(shop: Workshop, content: bytes, **arguments: int) -> str:
    (shop.root / "f").write_bytes(content)
    done = await shop.do("read", path="f", **arguments)
    return f"! {done.text}" if done.failed else done.text


async def test_lines_come_with_their_numbers(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        work = await shop.prepare("read", path="f")
        assert work.intent == Harmless(reads=(str(shop.root / "f"),))
        assert isinstance(work.item, ToolCall)
        assert await read(shop, b"one\n  two\n\n") == "     1\tone\n     2\t  two\n     3\t"


async def test_a_range_of_lines_says_where_it_is(tmp_path: Path) -> None:
    content = "".join(f"line {n}\n" for n in range(1, 101)).encode()
    async with workshop(tmp_path / "w") as shop:
        assert await read(shop, content, offset=3, limit=2) == (
            "     3\tline 3\n     4\tline 4\n[lines 3 to 4 of 100; go on with offset 5]"
        )
        assert (await read(shop, content, offset=100)).endswith("line 100\n[lines 100 to 100 of 100]")
        assert await read(shop, content, offset=101) == "[f has only 100 lines]"
        assert await read(shop, b"") == "[f is empty]"


async def test_long_files_and_long_lines_are_bounded(tmp_path: Path) -> None:
    limits = ToolLimits(read=ReadLimits(lines=10, line_chars=20, told_chars=100))
    async with workshop(tmp_path / "w", limits=limits) as shop:
        text = await read(shop, b"x\n" * 1000)
        assert text.endswith("[lines 1 to 10 of 1000; go on with offset 11]")
        text = await read(shop, b"y" * 1000 + b"\nz\n")
        assert f"{'y' * 20} [… 980 more characters]" in text
        assert "1 long line cut" in text
        text = await read(shop, b"abcdefgh\n" * 10)
        assert text.count("abcdefgh") == 6
        assert "go on with offset 7" in text


async def test_what_is_unusual_about_a_file_is_said(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert await read(shop, b"a\r\nb\r\n") == "     1\ta\n     2\tb\n[CRLF line ends]"
        assert await read(shop, "\ufeffé\n".encode("utf-16-le")) == "     1\té\n[UTF-16]"
        assert await read(shop, "café\n".encode("latin-1")) == "     1\tcafé\n[not UTF-8, shown as Latin-1]"
        assert await read(shop, b"a") == "     1\ta\n[no newline at the end of the file]"


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01\0\0\0", b"\xff\xfe\0\0a\0\0\0", bytes(100)])
async def test_a_binary_file_is_politely_refused(tmp_path: Path, content: bytes) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert (await read(shop, content)).startswith("! 'f' is not a text file")


@pytest.mark.parametrize("kind", PICTURES)
async def test_a_picture_is_shown(tmp_path: Path, kind: str) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_bytes(PICTURES[kind])
        done = await shop.do("read", path="f")
    assert done.text == f"f: {kind}, 640 × 480 pixels"
    [picture] = done.pictures
    assert picture.media_type == kind
    assert base64.b64decode(picture.base64) == PICTURES[kind]


async def test_a_picture_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        assert "8,001 × 10 pixels" in await read(shop, png(MAX_SIDE_PX + 1, 10))
        assert (await read(shop, png(MAX_SIDE_PX, MAX_SIDE_PX))).startswith("f: image/png")
        assert "the limit is 3,750,000" in await read(shop, png(10, 10, padding=PICTURE_BYTES))


@pytest.mark.parametrize(
    ("data", "width", "height"),
    [
        (webp(b"VP8L", b"\x2f" + (639 | 479 << 14).to_bytes(4, "little") + bytes(9)), 640, 480),
        (webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", 640 | 0x4000, 480) + bytes(9)), 640, 480),
        (webp(b"VP8X", bytes(4) + b"\xff" * 6), 1 << 24, 1 << 24),
    ],
)
def test_every_kind_of_webp_declares_its_size(data: bytes, width: int, height: int) -> None:
    assert shape(data) == Shape(media_type="image/webp", width=width, height=height)


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_cut_anywhere_is_none_or_says_the_same(kind: str) -> None:
    whole = shape(PICTURES[kind])
    assert whole is not None
    assert {shape(PICTURES[kind][:size]) for size in range(len(PICTURES[kind]))} <= {None, whole}


def test_a_jpeg_that_goes_in_circles_ends() -> None:
    assert shape(b"\xff\xd8" + b"\xff\xe0\x00\x00" * 1000) is None
    assert shape(b"\xff\xd8" + b"\xff" * 100_000) is None


async def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "dir").mkdir()
        for path, words in (
            ("gone", "no file 'gone'"),
            ("dir", "is a directory"),
            (".", "is a directory"),
            ("/etc/passwd", "outside the workspace"),
            ("~/x", "home directory"),
            ("a\0b", "not a path"),
        ):
            done = await shop.do("read", path=path)
            assert done.failed, path
            assert words in done.text


async def test_an_absolute_path_into_the_workspace_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "w").symlink_to("real")
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_text("x\n")
        for path in ("f", "./f", "d/../f", f"{tmp_path}/w/f", f"{tmp_path}/real/f", f"{tmp_path}//w/./f"):
            assert (await shop.do("read", path=path)).text == "     1\tx", path
