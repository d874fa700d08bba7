"""Other programs' sockets come and go while walls are put up; the command runs all the same, and once."""

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from hames.domain.policy import WorkspaceWrite
from hames.ports import Launch
from hames.sandbox.local import LocalSandbox
from hames.sandbox.walls import probe

pytestmark = pytest.mark.needs("bwrap", "bash")


@contextmanager
def coming_and_going(pause_s: float) -> Iterator[None]:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            directory = tempfile.mkdtemp(dir="/var/tmp")
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(f"{directory}/s")
                listener.listen()
                time.sleep(pause_s)
            shutil.rmtree(directory)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def spoken(sandbox: LocalSandbox, workspace: Path, command: str, *, network: bool = False) -> tuple[int, bytes]:
    launch = Launch(
        argv=("/bin/bash", "-c", command),
        cwd=str(workspace),
        workspace=str(workspace),
        policy=WorkspaceWrite(network_access=network),
    )
    process = await sandbox.spawn(launch)
    with anyio.fail_after(60):
        said = b"".join([chunk async for chunk in process.output()])
        return await process.wait(), said


@pytest.mark.parametrize("network", [False, True])
async def test_a_command_runs_once_whatever_vanishes_meanwhile(tmp_path: Path, *, network: bool) -> None:
    probe.bubblewrap_here.cache_clear()
    sandbox = LocalSandbox(environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    with coming_and_going(0.05), coming_and_going(0.01):
        for number in range(12):
            code, said = await spoken(sandbox, tmp_path, f"echo {number} >> ran; echo out", network=network)
            assert (code, said) == (0, b"out\n")
    assert (tmp_path / "ran").read_text().split() == [str(number) for number in range(12)]
    sandbox.close()


@pytest.mark.parametrize("words", ["bwrap: Can't mkdir parents for x", "bwrap: ", "b", "bwrap: execvp x"])
async def test_a_command_that_only_talks_like_bubblewrap_runs_once(tmp_path: Path, words: str) -> None:
    sandbox = LocalSandbox(environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    code, said = await spoken(sandbox, tmp_path, f"echo x >> ran; printf '%s' \"{words}\"; exit 1")
    assert (code, said.decode()) == (1, words)
    assert (tmp_path / "ran").read_text() == "x\n"
    sandbox.close()


async def test_a_program_that_is_not_there_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[Launch] = []
    start = LocalSandbox._start  # pyright: ignore[reportPrivateUsage]

    async def counted(sandbox: LocalSandbox, launch: Launch, **more: Any) -> Any:
        starts.append(launch)
        return await start(sandbox, launch, **more)

    monkeypatch.setattr(LocalSandbox, "_start", counted)
    sandbox = LocalSandbox(environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    workspace = str(tmp_path)
    process = await sandbox.spawn(
        Launch(argv=("/nowhere/x",), cwd=workspace, workspace=workspace, policy=WorkspaceWrite())
    )
    said = b"".join([chunk async for chunk in process.output()])
    assert (await process.wait(), len(starts)) == (1, 1)
    assert b"/nowhere/x" in said
    sandbox.close()
