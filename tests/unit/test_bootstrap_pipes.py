"""Pipes with a bound on both sides."""

import os
import socket
import threading
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from hames.stdio import pipes
from hames.stdio.pipes import open_inbox, open_outbox


async def read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return await to_thread.run_sync(file.read)


async def settled() -> None:
    for _ in range(50):
        await checkpoint()


async def test_a_reader_that_stops_leaves_no_room_until_it_reads_again() -> None:
    reading, writing = os.pipe()
    outbox = await open_outbox(writing)
    with anyio.fail_after(60):
        await outbox.room()
        outbox.write(b"x" * (pipes.OUTBOX_BYTES // 2))
        await outbox.room()
        outbox.write(b"y" * pipes.OUTBOX_BYTES)
    with anyio.move_on_after(0.05) as waiting:
        await outbox.room()
    assert waiting.cancelled_caught
    async with anyio.create_task_group() as tasks:
        got: list[bytes] = []

        async def read() -> None:
            got.append(await read_all(reading))

        tasks.start_soon(read)
        with anyio.fail_after(60):
            await outbox.room()
            await outbox.flush()
    assert got == [b"x" * (pipes.OUTBOX_BYTES // 2) + b"y" * pipes.OUTBOX_BYTES]


async def test_a_reader_that_is_gone_costs_nothing_and_hurts_nobody() -> None:
    reading, writing = os.pipe()
    outbox = await open_outbox(writing)
    os.close(reading)
    with anyio.fail_after(60):
        for _ in range(100):
            outbox.write(b"x" * pipes.OUTBOX_BYTES)
            await settled()
            await outbox.room()
        await outbox.flush()


async def test_who_waits_for_room_is_let_go_when_the_reader_leaves() -> None:
    reading, writing = os.pipe()
    outbox = await open_outbox(writing)
    outbox.write(b"x" * (pipes.OUTBOX_BYTES * 2))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.room)
        await settled()
        os.close(reading)
        with anyio.fail_after(60):
            await outbox.room()


async def test_what_is_not_yet_answered_is_not_read_without_end() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    inbox = await open_inbox(reading, b"first ")
    sent = 0
    for _ in range(2000):
        try:
            sent += os.write(writing, b"x" * 65536)
        except BlockingIOError:
            await checkpoint()
    assert sent < pipes.INBOX_BYTES + 1_000_000
    os.close(writing)
    with anyio.fail_after(60):
        received = b"".join([chunk async for chunk in inbox])
    assert received == b"first " + b"x" * sent


async def test_a_file_is_read_to_its_end_in_pieces_and_written_at_once(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"z" * 3_000_000)
    inbox = await open_inbox(os.open(tmp_path / "in", os.O_RDONLY))
    outbox = await open_outbox(os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY))
    with anyio.fail_after(60):
        while inbox.waiting_bytes <= pipes.INBOX_BYTES:  # as far ahead as it may read
            await anyio.sleep(0.001)
        async for chunk in inbox:
            await outbox.room()
            outbox.write(chunk)
        await outbox.flush()
    assert (tmp_path / "out").read_bytes() == b"z" * 3_000_000


async def test_an_inbox_can_be_ended_while_more_could_come() -> None:
    reading, writing = os.pipe()
    inbox = await open_inbox(reading)
    threading.Timer(0.0, os.write, (writing, b"x")).start()
    with anyio.fail_after(60):
        async for chunk in inbox:
            assert chunk == b"x"
            inbox.end()
    os.close(writing)


async def test_one_socket_for_both_directions_goes_on_after_each_message() -> None:
    ours, theirs = socket.socketpair()
    theirs.settimeout(60)
    number = ours.detach()
    inbox, outbox = await open_inbox(os.dup(number)), await open_outbox(number)
    with anyio.fail_after(60):
        for count in range(5):
            theirs.sendall(b"question %d\n" % count)
            assert await anext(inbox) == b"question %d\n" % count
            await settled()
            outbox.write(b"answer %d\n" % count)
            assert await to_thread.run_sync(theirs.recv, 64) == b"answer %d\n" % count
        theirs.shutdown(socket.SHUT_WR)  # what is still to be said reaches a client that says nothing more
        assert [chunk async for chunk in inbox] == []
        outbox.write(b"last")
        await outbox.flush()
        assert await to_thread.run_sync(theirs.recv, 64) == b"last"
    theirs.close()


async def test_who_waits_for_room_in_a_socket_is_let_go_when_the_reader_leaves() -> None:
    ours, theirs = socket.socketpair()
    outbox = await open_outbox(ours.detach())
    outbox.write(b"x" * (pipes.OUTBOX_BYTES * 2))
    await settled()
    theirs.close()
    with anyio.fail_after(60):
        await outbox.room()
        outbox.write(b"y")
        await outbox.flush()
