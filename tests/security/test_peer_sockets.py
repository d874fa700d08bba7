"""The sockets between processes of one data directory: not from a sandbox, not to one, and no repository brings one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from hames.domain.commands import ListThreads, ReadThread, ThreadPage
from hames.domain.state import ThreadState
from support import created
from support import shared_engine as process

pytestmark = pytest.mark.needs("unshare")

CONFINED = ["unshare", "--user", "--map-root-user", "--mount"]
CLIENT = r"""
import socket, sys
door = socket.socket(socket.AF_UNIX)
door.connect(sys.argv[1])
door.sendall(sys.argv[2].encode() + b"\n")
door.settimeout(30)
print(door.recv(65536).decode(), end="")
"""
LISTENER = r"""
import socket, sys
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
door.listen()
print("ready", flush=True)
door.settimeout(60)
one, _ = door.accept()
one.settimeout(60)
print(repr(one.recv(65536)), flush=True)
"""


@pytest.mark.parametrize(("wrapper", "title"), [([], "changed"), (CONFINED, "")], ids=["plain", "confined"])
async def test_a_program_in_a_sandbox_gets_no_answer_and_changes_nothing(
    tmp_path: Path, wrapper: list[str], title: str
) -> None:
    async with process(tmp_path) as a:
        thread = await created(a)
        (socket,) = (tmp_path / "state").glob("workspaces/*/processes/*.sock")
        body = {"thread_id": thread.id, "title": "changed"}
        request = json.dumps({"do": "execute", "id": 1, "command": "RenameThread", "body": body, "key": "k"})
        words = [
            *wrapper,
            sys.executable,
            "-I",
            "-S",
            "-c",
            CLIENT,
            socket.name,
            request,
        ]  # the whole path may be too long
        with anyio.fail_after(60):
            answer = await anyio.run_process(words, check=False, stderr=None, cwd=socket.parent)
        assert bool(answer.stdout) == bool(title)
        state = await a.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        assert state.title == title


@pytest.mark.parametrize(("wrapper", "told"), [([], True), (CONFINED, False)], ids=["plain", "confined"])
async def test_nothing_is_said_to_a_program_in_a_sandbox_that_listens(
    tmp_path: Path, wrapper: list[str], told: bool
) -> None:
    async with process(tmp_path) as a:
        await created(a)
        (directory,) = (tmp_path / "state").glob("workspaces/*/processes")
        planted = directory / f"{os.getpid()}-{'0' * 16}.sock"
        words = [*wrapper, sys.executable, "-I", "-S", "-c", LISTENER, planted.name]
        with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=directory) as listener:
            assert listener.stdout is not None
            assert listener.stdout.readline() == b"ready\n"
            with anyio.fail_after(60):
                assert isinstance(await a.execute(ListThreads()), ThreadPage)
            heard = await anyio.to_thread.run_sync(listener.stdout.readline)
        assert (b"standings" in heard) == told
        assert told or heard.strip() == b"b''"


async def test_a_copied_data_directory_leads_to_no_process(tmp_path: Path) -> None:
    """As one that comes with a cloned repository: it names a token of ours and is another directory."""
    async with process(tmp_path) as a:
        thread = await created(a)
        data = tmp_path / "clone" / ".harness"
        shutil.copytree(tmp_path / ".harness", data)
        for planted in ("processes", "threads/processes"):
            (data / planted).mkdir()
            (data / planted / f"{os.getpid()}-{'0' * 16}.sock").touch()
        async with process(tmp_path, data=data) as b:
            page = await b.execute(ListThreads())
            assert isinstance(page, ThreadPage)
            assert [(one.id, one.standing) for one in page.threads] == [(thread.id, "away")]
            peers = b._sharing._peers
            assert peers is not None
            assert await peers.links() == ()
