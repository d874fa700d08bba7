"""The network attacks of the threat list (12: WebSocket messages), against the real listener."""

import struct
from pathlib import Path

import anyio
import psutil
import pytest
from net_support import MIB, house, raw_socket
from websockets.exceptions import ConnectionClosed

from server_support import following

# NET-12


def frame(opcode: int, payload: bytes, *, final: bool = True, reserved: int = 0) -> bytes:
    """A client's frame, masked with nothing."""
    head = bytes([(0x80 if final else 0) | reserved << 4 | opcode])
    length = len(payload)
    if length < 126:
        head += bytes([0x80 | length])
    elif length < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", length)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", length)
    return head + b"\0\0\0\0" + payload


async def test_net_12_a_message_of_100_mb_is_refused_without_holding_it(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server):
        before = psutil.Process().memory_info().rss
        async with raw_socket(server) as client:
            head = bytes([0x81, 0x80 | 127]) + struct.pack(">Q", 100 * MIB) + b"\0\0\0\0"
            await client.stream.send(head)
            with anyio.move_on_after(3):
                for _ in range(100):
                    try:
                        await client.stream.send(b"x" * MIB)
                    except (anyio.BrokenResourceError, OSError):
                        break
            assert await client.code() == 1009
        assert psutil.Process().memory_info().rss - before < 64 * MIB


async def test_net_12_a_million_fragments_are_not_collected(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server):
        before = psutil.Process().memory_info().rss
        async with raw_socket(server) as client:
            pieces = frame(0, b"x", final=False) * 10_000
            await client.stream.send(frame(1, b"x", final=False))
            for _ in range(100):
                try:
                    await client.stream.send(pieces)
                except (anyio.BrokenResourceError, OSError):
                    break
            assert await client.code() in (1008, 1009)
        assert psutil.Process().memory_info().rss - before < 64 * MIB


async def test_net_12_text_that_is_none_is_refused(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server), raw_socket(server) as client:
        await client.stream.send(frame(1, b"\xff\xfe\xfd"))
        assert await client.code() == 1007


async def test_net_12_a_flood_of_pings_is_ended(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server), raw_socket(server) as client:
        await client.stream.send(frame(9, b"x" * 100) * 5000)
        assert await client.code() == 1008


async def test_net_12_compression_is_not_spoken_here(tmp_path: Path) -> None:
    offer = {"Sec-WebSocket-Extensions": "permessage-deflate"}
    async with house(tmp_path) as (_, server), raw_socket(server, **offer) as client:
        await client.stream.send(frame(1, b"\x00" * 20, reserved=4))
        assert await client.code() == 1002


async def test_net_12_a_message_of_a_megabyte_and_one_is_too_long(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server), following(server) as client:
        await client.hear()
        await client.socket.send("x" * (MIB + 1))
        with pytest.raises(ConnectionClosed):
            while True:
                await client.hear()
        assert client.socket.close_code == 1009
