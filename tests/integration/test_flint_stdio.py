"""`hames app-server` as a process: what is on its pipes, how it ends, and what is there after `kill -9`."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from flint_support import Talk

HAMES = str(Path(sys.executable).parent / "hames")
HELLO = {"clientInfo": {"name": "test", "version": "1"}}


class Pipes:
    """A process's pipes, as a conversation needs them."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def send(self, item: bytes) -> None:
        assert self.process.stdin
        await self.process.stdin.send(item)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        assert self.process.stdout
        return await self.process.stdout.receive(max_bytes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path


@asynccontextmanager
async def agent(folder: Path, script: Any = (), **environment: str) -> AsyncGenerator[tuple[Talk, Process]]:
    """Without the handshake."""
    (folder / "script.json").write_text(json.dumps(script or ["Hello."]))
    words = [HAMES, "app-server", "--cwd", str(folder / "ws"), "--model", f"scripted/{folder / 'script.json'}"]
    own = {"HOME": str(folder), "PATH": os.environ["PATH"], **environment}
    process = await anyio.open_process(words, env=own, stderr=None)
    try:
        yield Talk(Pipes(process)), process  # pyright: ignore[reportArgumentType] - as much of a wire as it needs
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()


@pytest.mark.slow  # the pipes themselves: tests/unit/test_bootstrap_pipes.py
@pytest.mark.parametrize("command", ["app-server", "harness", "acp"])
def test_a_server_whose_stdin_and_stdout_are_one_socket_answers_every_message(folder: Path, command: str) -> None:
    ours, theirs = socket.socketpair()
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    words = [HAMES, command, "--cwd", str(folder / "ws"), "--model", "scripted/hello"]
    params = {**HELLO, "protocolVersion": 1}
    with ours, subprocess.Popen(words, stdin=theirs, stdout=theirs, env=environment) as process:
        try:
            theirs.close()
            ours.settimeout(60)
            lines = ours.makefile("rb")
            for number in range(1, 6):
                message = {
                    "jsonrpc": "2.0",
                    "id": number,
                    "method": "initialize" if number == 1 else "x",
                    "params": params,
                }
                ours.sendall(json.dumps(message).encode() + b"\n")
                while json.loads(lines.readline()).get("id") != number:
                    pass
            ours.shutdown(socket.SHUT_WR)
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.spec("flint/transport-jsonl", "flint/transport-no-jsonrpc-member")
async def test_every_line_on_stdout_is_one_json_object_without_a_version(folder: Path) -> None:
    script = [[{"say": "a\nb\u2028c"}, {"call": "shell", "with": {"command": "printf '{\"id\":7}\\n'"}}], "Done."]
    async with agent(folder, script) as (talk, process):
        await talk.meet()
        thread_id = await talk.start(approvalPolicy="never", sandbox={"type": "dangerFullAccess"})
        await talk.prompt(thread_id)
        await process.stdin.aclose()
        with anyio.fail_after(60):
            assert await process.wait() == 0
    assert all("jsonrpc" not in message for message in talk.heard)
    assert not [message for message in talk.heard if message.get("id") == 7 and "method" not in message][1:]
    assert any("\u2028" in json.dumps(message, ensure_ascii=False) for message in talk.heard)


@pytest.mark.parametrize("extra", [{}, {"_meta": 1}], ids=["before anything is imported", "by the whole server"])
async def test_the_first_answer_is_the_same_whoever_gives_it(folder: Path, extra: dict[str, Any]) -> None:
    words = [HAMES, "app-server", "--cwd", str(folder / "ws")]
    message = json.dumps({"id": 1, "method": "initialize", "params": {**HELLO, **extra}}).encode() + b"\n"
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    with anyio.fail_after(60):
        done = await anyio.run_process(words, input=message, env=environment)
    result = json.loads(done.stdout)["result"]
    assert result["agentInfo"] == {"name": "hames", "version": result["agentInfo"]["version"], "provider": "anthropic"}
    assert result["capabilities"]["reasoning"] is True
    assert result["codexHome"] == str((folder / "ws").resolve() / ".harness")
    assert result["userAgent"].startswith("hames/")


async def test_where_another_model_comes_first_its_provider_is_told(folder: Path) -> None:
    async with agent(folder) as (talk, _):
        result = await talk.call("initialize", **HELLO)
    assert result["agentInfo"]["provider"] == "scripted"


async def test_a_client_known_from_its_first_line_gets_its_shape(folder: Path) -> None:
    """The first line may have been answered before the dialect existed: it must hear of it all the same."""
    words = [HAMES, "app-server", "--cwd", str(folder / "ws")]
    lines = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "codex-tui", "version": "1"}}},
        {"id": 2, "method": "config/read", "params": {}},
        {"id": 3, "method": "initialize", "params": HELLO},
    ]
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    with anyio.fail_after(60):
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        done = await anyio.run_process(words, input=data, env=environment)
    answers = {message["id"]: message for message in map(json.loads, done.stdout.splitlines())}
    assert "origins" in answers[2]["result"]
    assert answers[3]["error"]["code"] == -32600


@pytest.mark.spec("flint/threads-persist")
async def test_after_kill_nine_the_turn_goes_on_and_can_be_interrupted(folder: Path) -> None:
    script = {
        "conversations": [
            {"when": "wait", "replies": [[{"say": "Once upon a time", "pieces": 2}, {"hang": True}]]},
            {"when": "go on", "replies": ["There was a harness."]},
        ]
    }
    async with agent(folder, script) as (talk, process):
        await talk.meet()
        thread_id = await talk.start()
        await talk.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "wait"}])
        await talk.until("item/agentMessage/delta")
        heard = [delta["delta"] for delta in talk.params("item/agentMessage/delta")]
        process.send_signal(signal.SIGKILL)
        with anyio.fail_after(60):
            await process.wait()
    async with agent(folder, script) as (talk, _):
        await talk.meet()
        opened = await talk.call("thread/resume", threadId=thread_id)
        (turn,) = opened["thread"]["turns"]
        assert turn["status"] == "inProgress"
        assert turn["items"][1]["text"].startswith("".join(heard))
        assert opened["thread"]["status"]["type"] == "active"
        notice = (await talk.until("hames/turn_continued"))["params"]
        assert notice["message"].startswith("Hames stopped while this turn ran. The turn continues")
        await talk.call("turn/interrupt", threadId=thread_id, turnId=turn["id"])
        assert (await talk.until("turn/completed"))["params"]["turn"]["id"] == turn["id"]
        ended = await talk.prompt(thread_id, "go on")
        assert ended["turn"]["items"][-1]["text"] == "There was a harness."


async def test_the_end_of_stdin_in_the_middle_of_a_turn_ends_the_turn_and_the_process(folder: Path) -> None:
    async with agent(folder, [[{"say": "Once upon"}, {"hang": True}]]) as (talk, process):
        await talk.meet()
        thread_id = await talk.start()
        await talk.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": "wait"}])
        await talk.until("item/agentMessage/delta")
        await process.stdin.aclose()
        ended = await talk.until("turn/completed")
        assert ended["params"]["turn"]["status"] == "interrupted"
        with anyio.fail_after(60):
            assert await process.wait() == 0
