"""THREATS, resources: output without end, patterns that explode, pictures that unfold."""

import os
import struct
import zlib
from pathlib import Path

import anyio
import psutil
import pytest

from hames.tools.ripgrep import find_ripgrep
from toolbench import workshop

GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    "command",
    ["head -c 1G /dev/zero", "yes | head -c 1G", "head -c 1G /dev/zero | tr '\\0' x"],
    ids=["binary", "short lines", "one line"],
)
@pytest.mark.slow
async def test_res_1_a_gigabyte_of_output_costs_neither_memory_nor_the_loop(tmp_path: Path, command: str) -> None:
    process = psutil.Process()
    ticks = 0
    peak = 0

    async def tick() -> None:
        nonlocal ticks, peak
        while True:
            await anyio.sleep(0.02)
            ticks += 1
            peak = max(peak, process.memory_info().rss)

    async with workshop(tmp_path / "w") as shop:
        before = process.memory_info().rss
        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tick)
                done = await shop.do("shell", command=command)
                tasks.cancel_scope.cancel()
    assert not done.failed
    assert len(done.told) <= (1 << 20) + 100
    assert f"{GIGABYTE - (1 << 20):,} bytes omitted" in done.told
    assert len(done.text) < 31_000
    assert peak - before < 64 << 20
    assert ticks > 5


async def test_res_1_a_million_short_lines_are_counted(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        with anyio.fail_after(60):
            done = await shop.do("shell", command="seq 1 1000000")
    assert done.told.startswith("1\n2\n")
    assert done.told.endswith("\n1000000\n")
    assert f"{6_888_896 - (1 << 20):,} bytes omitted" in done.told


PATTERNS = ["(a+)+$", "(a|a)*$", "(a|aa)+$", "(.*a){20}", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y"]


@pytest.mark.skipif(not find_ripgrep() and os.environ.get("CI") != "true", reason="ripgrep is not here")
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_res_4_no_pattern_takes_for_ever(tmp_path: Path, pattern: str) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_text("a" * 50_000 + "!\n" + "x" * 50_000 + "\n")
        with anyio.fail_after(60):
            await shop.do("grep", pattern=pattern)
            assert (await shop.do("grep", pattern="!", output="count")).text == "f:1"


async def test_res_4_a_pattern_too_large_to_compile_is_refused(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_text("a\n")
        with anyio.fail_after(60):
            done = await shop.do("grep", pattern="((a{1000}){1000}){100}")
        assert done.failed
        assert "size limit" in done.text


async def test_res_4_finding_the_nearest_text_is_bounded(tmp_path: Path) -> None:
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "f").write_text(("ab" * 2000 + "\n") * 1000)
        with anyio.fail_after(60):
            done = await shop.do("edit", path="f", old_string="ba" * 2000 + "c", new_string="x")
        assert done.failed


def bomb(width: int, height: int) -> bytes:
    """A real PNG of a few kilobytes that unfolds into `width` × `height` grey pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    body = zlib.compress(bytes(1 << 20), 9)
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(100_000, 100_000), (2**31 - 1, 1), (1, 9_000), (0, 10)])
async def test_res_5_a_picture_is_refused_by_the_size_it_declares(tmp_path: Path, width: int, height: int) -> None:
    content = bomb(width, height)
    assert len(content) < 10_000
    async with workshop(tmp_path / "w") as shop:
        (shop.root / "bomb.png").write_bytes(content)
        (shop.root / "fine.png").write_bytes(bomb(100, 100))
        done = await shop.do("read", path="bomb.png")
        assert done.failed
        assert not done.pictures
        assert (await shop.do("read", path="fine.png")).pictures
