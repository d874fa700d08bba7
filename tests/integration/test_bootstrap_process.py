"""bootstrap as people start it: a process, its pipes, its end."""

import json
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from bootstrap_process import BIN, INITIALIZE, environment, run, running, server

from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import Hang, raw, talk, use

ANSWER = {
    "jsonrpc": "2.0",
    "id": 1,
    "result": {
        "version": "1.0.0",
        "capabilities": {"threads": True, "turns": True, "approvals": True, "streaming": True, "persistence": True},
    },
}
NEVER = ("--approval-policy", "never", "--sandbox", "dangerFullAccess")


def half_an_answer() -> Any:
    """The beginning of a text, then silence."""
    events = ANTHROPIC.events(talk("I was just about to", cuts=4))
    return raw(*events[:4], Hang())


def kept(work: Path) -> list[dict[str, Any]]:
    [path] = work.glob(".harness/threads/*/events.jsonl")
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.spec("bootstrap/cli-pipe-one-request")
@pytest.mark.parametrize("end", [b"\n", b"", b"\r\n"])
def test_one_request_through_a_pipe_is_answered_exactly(tmp_path: Path, end: bytes) -> None:
    done = run(tmp_path, [BIN / "bootstrap", "harness"], input=INITIALIZE.strip() + end)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [ANSWER]
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.spec("bootstrap/cli-harness-cwd")
@pytest.mark.parametrize("program", ["bootstrap", "hames"])
def test_the_server_works_in_the_directory_it_is_given(tmp_path: Path, program: str) -> None:
    (tmp_path / "repo").mkdir()
    command = [BIN / program, "harness", "--cwd", tmp_path / "repo"]
    done = run(tmp_path, command, cwd="/", input=b'{"jsonrpc":"2.0","id":1,"method":"thread.create"}\n')
    answer, told = (json.loads(line) for line in done.stdout.splitlines())
    assert answer["result"]["thread"]["directory"] == str(tmp_path / "repo")
    assert told["method"] == "thread.created"
    assert len(list(tmp_path.glob("repo/.harness/threads/ses_*/events.jsonl"))) == 1
    assert done.returncode == 0


@pytest.mark.parametrize(
    "flags", [["--cwd", "/no/such/directory"], ["--bogus"], ["--approval-policy", "sometimes"], ["--model", "no/such"]]
)
def test_a_bad_option_is_said_in_one_sentence_on_stderr(tmp_path: Path, flags: list[str]) -> None:
    done = run(tmp_path, [BIN / "hames", "harness", *flags], input=b"")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().splitlines()[-1].startswith("hames")
    assert b"Traceback" not in done.stderr


@pytest.mark.spec("bootstrap/persist-append-only")
async def test_a_whole_turn_over_pipes_only_ever_adds_to_the_events_file(tmp_path: Path) -> None:
    async with server(tmp_path, use("shell", command="echo hello"), talk("Done."), talk("Again."), flags=NEVER) as it:
        thread_id = await it.thread()
        path = it.work / ".harness" / "threads" / thread_id / "events.jsonl"
        sizes = [path.read_bytes()]
        for _ in range(2):
            await it.prompt(thread_id)
            await it.until(method="turn.completed")
            sizes.append(path.read_bytes())
        assert await it.close() == 0
    for before, after in pairwise(sizes):
        assert after.startswith(before)
        assert len(after) > len(before)
    assert all(isinstance(json.loads(line), dict) for line in sizes[-1].splitlines())


NOISY = """
import os, sys
from hames.stdio import process as stdio

async def noisy(*args):
    print("a library prints", flush=True)
    os.write(1, b"so does C code\\n")
    os.system("echo and a child")
    return await real(*args)

real, stdio.serve = stdio.serve, noisy
from hames.cli.main import main
sys.exit(main(["harness"]))
"""


@pytest.mark.spec("bootstrap/transport-stdout-protocol-only", "bootstrap/transport-logs-to-stderr")
def test_whatever_prints_to_stdout_prints_to_stderr(tmp_path: Path) -> None:
    done = run(tmp_path, [sys.executable, "-c", NOISY], input=INITIALIZE)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [ANSWER]
    for noise in (b"a library prints", b"so does C code", b"and a child"):
        assert noise in done.stderr


@pytest.mark.spec("bootstrap/transport-logs-to-stderr")
async def test_logs_go_to_a_file_when_one_is_named(tmp_path: Path) -> None:
    flags = ("--log-file", str(tmp_path / "log.jsonl"), "--log-level", "info")
    async with server(tmp_path, flags=flags) as it:
        await it.thread()
        assert await it.close() == 0
    assert (tmp_path / "stderr.txt").read_text() == ""
    logged = [json.loads(line)["event"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert (logged[0], logged[-1]) == ("server.started", "server.ended")


async def test_the_end_of_stdin_cancels_the_turn_tells_the_client_and_ends_well(tmp_path: Path) -> None:
    async with server(tmp_path, half_an_answer()) as it:
        thread_id = await it.thread()
        await it.prompt(thread_id)
        await it.until(method="item.delta")
        await it.stdin.aclose()
        last = (await it.rest())[-1]
        assert await it.exit_code() == 0
    assert (last["method"], last["params"]["status"]) == ("turn.error", "cancelled")
    assert kept(it.work)[-1]["event"]["type"] == "turn_ended"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_the_turn_and_the_server_and_says_which_it_was(tmp_path: Path, number: int) -> None:
    async with server(tmp_path, use("shell", command="echo begun; sleep 60"), flags=NEVER) as it:
        thread_id = await it.thread()
        await it.prompt(thread_id)
        await it.until(method="item.delta")
        children = psutil.Process(it.process.pid).children(recursive=True)
        it.process.send_signal(number)
        last = (await it.rest())[-1]
        assert await it.exit_code() == 128 + number
    assert (last["method"], last["params"]["status"]) == ("turn.error", "cancelled")
    assert kept(it.work)[-1]["event"]["type"] == "turn_ended"
    assert children
    assert psutil.wait_procs(children, timeout=60)[1] == []


async def test_after_kill_9_in_the_middle_of_a_turn_nothing_told_is_lost_and_the_thread_goes_on(tmp_path: Path) -> None:
    async with server(tmp_path, half_an_answer(), talk("Where were we?")) as it:
        thread_id = await it.thread()
        await it.prompt(thread_id)
        heard = await it.until(method="item.delta")
        it.process.kill()
        await it.process.wait()
        async with running(tmp_path, [str(BIN / "bootstrap"), "harness"], it.model) as again:
            events = (await again.ask("thread.get", threadId=thread_id))["result"]["events"]
            done = await again.until(method="turn.completed")
            assert await again.close() == 0
    [text] = [
        e["item"]["data"]["text"] for e in events if e["type"] == "item.completed" and "kind" in e["item"]["data"]
    ]
    assert heard["params"]["delta"] in text
    assert (events[-1]["type"], events[-1]["name"]) == ("notice", "turn_continued")
    [turn_id] = [e["turn"]["turnId"] for e in events if e["type"] == "turn.started"]
    assert done["params"]["turnId"] == turn_id


async def test_a_client_that_closes_its_ear_is_still_served_until_it_is_gone(tmp_path: Path) -> None:
    async with server(tmp_path, talk("To nobody.")) as it:
        thread_id = await it.thread()
        assert it.process.stdout is not None
        await it.process.stdout.aclose()
        await it.send("turn.start", threadId=thread_id, input=[{"type": "text", "text": "go"}])
        with anyio.fail_after(60):
            await it.model.asked(1)
            while kept(it.work)[-1]["event"]["type"] != "turn_ended":
                await anyio.sleep(0.01)
        assert await it.close() == 0


@pytest.mark.parametrize("closed", ["0<&-", ">&-", "2>&-", "0<&- >&- 2>&-"])
def test_a_server_without_some_of_its_pipes_ends_by_itself(tmp_path: Path, closed: str) -> None:
    done = run(tmp_path, ["/bin/sh", "-c", f'exec "{BIN / "bootstrap"}" harness {closed}'], input=INITIALIZE)
    assert done.returncode == 0
    assert done.stdout in (b"", json.dumps(ANSWER, separators=(",", ":")).encode() + b"\n")
    assert done.stderr == b""


@pytest.mark.parametrize("source", ["file", "null"])
def test_stdin_may_be_a_file_and_stdout_too(tmp_path: Path, source: str) -> None:
    asked, answered = tmp_path / "asked.jsonl", tmp_path / "answers.jsonl"
    asked.write_bytes(INITIALIZE * 3 + b'{"jsonrpc":"2.0","id":2,"method":"thread.list"}')
    with (asked if source == "file" else Path(os.devnull)).open("rb") as stdin, answered.open("wb") as stdout:
        done = run(tmp_path, [BIN / "bootstrap", "harness"], stdin=stdin, stdout=stdout)
    assert done.returncode == 0
    answers = answered.read_text().splitlines()
    assert [json.loads(line)["id"] for line in answers] == ([1, 1, 1, 2] if source == "file" else [])


async def test_two_thousand_requests_at_once_are_answered_once_each_and_in_order(tmp_path: Path) -> None:
    async with server(tmp_path) as it:
        lines = [{"jsonrpc": "2.0", "id": number, "method": "thread.list"} for number in range(2000)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.stdin.send, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            with anyio.fail_after(60):
                answered = [(await it.receive())["id"] for _ in lines]
        assert await it.close() == 0
    assert answered == list(range(2000))


async def test_answers_that_are_still_unread_at_the_end_are_sent_before_the_server_goes(tmp_path: Path) -> None:
    async with server(tmp_path) as it:
        await it.stdin.send(INITIALIZE * 3000)
        await it.stdin.aclose()
        assert [message["id"] for message in await it.rest()] == [1] * 3000
        assert await it.exit_code() == 0


async def test_a_line_of_fifty_megabytes_is_refused_and_costs_no_memory(tmp_path: Path) -> None:
    async with server(tmp_path) as it:
        await it.ask("thread.list")
        memory = psutil.Process(it.process.pid).memory_info
        before, peak = memory().rss, 0
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                for _ in range(50):
                    await it.stdin.send(b"x" * (1 << 20))
                await it.stdin.send(b"\n")

            tasks.start_soon(send)
            assert (await it.until(id=None))["error"]["code"] == -32600
            peak = memory().rss
        assert (await it.ask("thread.list"))["result"] == {"threads": []}
        assert await it.close() == 0
    assert peak - before < 64 << 20


async def test_a_client_that_stops_reading_costs_bounded_memory_and_misses_nothing(tmp_path: Path) -> None:
    words = "word " * 1_500_000
    async with server(tmp_path, talk(words, cuts=500)) as it:
        thread_id = await it.thread()
        memory = psutil.Process(it.process.pid).memory_info
        before = memory().rss
        await it.prompt(thread_id)
        path = it.work / ".harness" / "threads" / thread_id / "events.jsonl"
        with anyio.fail_after(60):
            while b'"turn_ended"' not in path.read_bytes()[-2000:]:
                await anyio.sleep(0.05)
        grown = memory().rss - before
        heard: list[str] = []
        with anyio.fail_after(60):
            while (message := await it.receive()).get("method") != "turn.completed":
                if message.get("method") == "item.delta":
                    heard.append(message["params"]["delta"])
        assert await it.close() == 0
    assert "".join(heard) == words
    assert grown < 8 * len(words)


async def test_a_client_that_never_reads_our_logs_does_not_stop_us(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    reading, writing = os.pipe()  # nobody reads
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(writing, True)
    process = await anyio.open_process(
        [BIN / "bootstrap", "harness", "--log-level", "debug"],
        cwd=tmp_path / "work",
        env=environment(tmp_path),
        stderr=writing,
    )
    os.close(writing)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with anyio.fail_after(60):
            for _ in range(20):
                await process.stdin.send(b'{"jsonrpc":"2.0","id":1,"method":"turn.cancel","params":{"threadId":"x"}}\n')
                assert b"-32001" in await process.stdout.receive()
            await process.stdin.aclose()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.aclose()
        os.close(reading)


async def test_a_thread_of_another_process_runs_its_turns_there(tmp_path: Path) -> None:
    async with server(tmp_path, half_an_answer()) as it:
        thread_id = await it.thread()
        async with running(tmp_path, [str(BIN / "bootstrap"), "harness"], it.model) as other:
            assert (await other.ask("thread.list"))["result"]["threads"][0]["threadId"] == thread_id
            assert (await other.ask("thread.get", threadId=thread_id))["result"]["events"]
            assert (await other.prompt(thread_id))["result"]["turnId"]
            await it.until(method="turn.started")
            assert (await other.prompt(thread_id))["error"]["code"] == -32002
            assert await other.close() == 0
        assert await it.close() == 0
