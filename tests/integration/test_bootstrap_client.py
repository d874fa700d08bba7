"""The Python client and the demo client, against the real server."""

import os
import pty
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from bootstrap_process import BIN, environment, server

from hames.client.bootstrap import BootstrapClient, ConnectionClosed, RequestFailed
from hames.client.show import Screen
from hames.protocols.bootstrap import messages as m
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import Answer, Hang, ProviderServer, ServerTalk, Thoughts, Use, Words, raw, talk, use

EVIL = "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b[2Jok\x9b31m"


def command(directory: Path) -> list[str]:
    return [str(BIN / "bootstrap"), "harness", "--cwd", str(directory), "--sandbox", "dangerFullAccess"]


async def test_the_client_runs_a_turn_and_hears_it_to_its_end(tmp_path: Path) -> None:
    async with ProviderServer(ANTHROPIC, talk("All tests pass.")) as model:
        env = environment(tmp_path, model.url)
        async with BootstrapClient.spawn(command(tmp_path), env=env) as client:
            assert (await client.initialize()).capabilities.streaming
            thread = await client.create_thread(title="A", directory=str(tmp_path))
            assert [listed.thread_id for listed in await client.list_threads()] == [thread.thread_id]
            with anyio.fail_after(60):
                events = [event async for event in client.turn(thread.thread_id, "Run the tests", agent="code")]
            got = await client.get_thread(thread.thread_id)
    assert events[-1].method == "turn.completed"
    text = "".join(event.params.delta for event in events if isinstance(event.params, m.ItemDelta))
    assert text == "All tests pass."
    assert got.thread.thread_id == thread.thread_id
    assert got.events[-1]["type"] == "turn.completed"


async def test_what_the_server_refuses_is_raised_with_its_number(tmp_path: Path) -> None:
    async with BootstrapClient.spawn(command(tmp_path), env=environment(tmp_path)) as client:
        with pytest.raises(RequestFailed) as refused:
            await client.get_thread("ses_nope")
        assert refused.value.code == -32001
        with pytest.raises(RequestFailed) as refused:
            await client.respond("nope", "once")
        assert refused.value.code == -32004
        with pytest.raises(RequestFailed) as refused:
            await client.start_turn((await client.create_thread()).thread_id, "hi", model="no/such")
        assert refused.value.code == -32602


async def test_a_server_that_dies_is_noticed_by_everyone_who_waits(tmp_path: Path) -> None:
    async with ProviderServer(ANTHROPIC, raw(Hang())) as model:
        async with server(tmp_path, raw(Hang())) as it:
            assert it.process.stdout is not None
            async with BootstrapClient.connect(it.process.stdout, it.stdin) as client:
                thread = await client.create_thread()
                with pytest.raises(ConnectionClosed):
                    with anyio.fail_after(60):
                        async for _ in client.turn(thread.thread_id, "hi"):
                            with suppress(ProcessLookupError):  # the second event of a server that is gone
                                it.process.kill()
                with pytest.raises(ConnectionClosed):
                    await client.list_threads()
        assert model.seen == []


async def demo(directory: Path, *answers: Answer, flags: tuple[str, ...] = ()) -> tuple[int, str]:
    """Its exit code and what it showed, without a terminal."""
    (directory / "work").mkdir(exist_ok=True)
    async with ProviderServer(ANTHROPIC, *answers) as model:
        words = [sys.executable, "-m", "hames.client", "--cwd", str(directory / "work"), *flags, "Run the tests"]
        with anyio.fail_after(60):
            done = await anyio.run_process(words, check=False, env=environment(directory, model.url), input=b"o\n")
    return done.returncode, done.stdout.decode()


@pytest.mark.spec("bootstrap/cli-demo-client")
@pytest.mark.needs("bwrap")
async def test_the_demo_client_shows_text_output_and_diffs(tmp_path: Path) -> None:
    first = ServerTalk(
        parts=(
            Thoughts(text="They want the tests."),
            Words(text="Let me run them."),
            Use(name="shell", arguments='{"command":"echo 3 passed > out.txt; cat out.txt"}'),
        ),
        stop="tools",
    )
    code, shown = await demo(
        tmp_path, first, use("write", path="new.txt", content="hello\n"), talk("All done."), flags=("--yes",)
    )
    assert code == 0, shown
    for part in (
        "They want the tests.",
        "Let me run them.",
        "bash: echo 3 passed",
        "\n3 passed\n",
        "+hello",
        "All done.",
    ):
        assert part in shown
    assert (tmp_path / "work" / "new.txt").read_text() == "hello\n"


@pytest.mark.parametrize("flags", [(), ("--no",)])
async def test_without_a_terminal_or_with_no_nothing_is_allowed(tmp_path: Path, flags: tuple[str, ...]) -> None:
    code, shown = await demo(tmp_path, use("shell", command="touch allowed"), talk("As you wish."), flags=flags)
    assert code == 0, shown
    assert "[declined" in shown
    assert not (tmp_path / "work" / "allowed").exists()


async def test_the_demo_client_says_that_a_turn_failed(tmp_path: Path) -> None:
    code, shown = await demo(tmp_path, ANTHROPIC.refusal(401, message="invalid x-api-key"))
    assert code == 1
    assert "[error]" in shown


async def test_nothing_from_elsewhere_commands_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "evil.txt").write_text(EVIL)
    asked = ServerTalk(
        parts=(Words(text=f"Look: {EVIL}"), Use(name="shell", arguments='{"command":"echo \\u001b[2K\\rrm -rf /"}')),
        stop="tools",
    )
    _, shown = await demo(tmp_path, asked, use("read", path="evil.txt"), talk("Done."), flags=("--no",))
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\r" not in shown
    assert "Look: ok" in shown
    assert r"echo \x1b[2K\rrm -rf /" in shown


class Terminal:
    """A demo client at a terminal of its own."""

    def __init__(self, words: list[str], env: dict[str, str]) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execve(words[0], words, env)
        self.shown = ""

    async def until(self, text: str) -> None:
        with anyio.fail_after(60):
            while text not in self.shown:
                await anyio.wait_readable(self._terminal)
                self.shown += os.read(self._terminal, 65536).decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    async def exit_code(self) -> int:
        with anyio.fail_after(60):
            while True:
                done, status = os.waitpid(self.pid, os.WNOHANG)
                if done:
                    os.close(self._terminal)
                    return os.waitstatus_to_exitcode(status)
                await anyio.sleep(0.02)


def at_a_terminal(directory: Path, url: str) -> Terminal:
    (directory / "work").mkdir()
    words = [sys.executable, "-m", "hames.client", "--cwd", str(directory / "work"), "Run the tests"]
    return Terminal(words, {**environment(directory, url), "TERM": "xterm", "HAMES_SANDBOX": "dangerFullAccess"})


async def test_at_a_terminal_the_person_is_asked(tmp_path: Path) -> None:
    async with ProviderServer(ANTHROPIC, use("shell", command="touch allowed"), talk("Thank you.")) as model:
        terminal = at_a_terminal(tmp_path, model.url)
        await terminal.until("[o]nce, [a]lways, [r]eject?")
        assert not (tmp_path / "work" / "allowed").exists()
        terminal.type("maybe\n")
        await terminal.until("eject?\r\nmaybe\r\n  [o]nce")
        terminal.type("o\n")
        await terminal.until("Thank you.")
        assert await terminal.exit_code() == 0
    assert (tmp_path / "work" / "allowed").exists()


async def test_ctrl_c_cancels_the_turn_even_while_a_question_waits(tmp_path: Path) -> None:
    async with ProviderServer(ANTHROPIC, use("shell", command="touch allowed"), talk("Never said.")) as model:
        terminal = at_a_terminal(tmp_path, model.url)
        await terminal.until("[r]eject?")
        terminal.type("\x03")
        await terminal.until("[cancelled]")
        assert await terminal.exit_code() == 130
    assert not (tmp_path / "work" / "allowed").exists()


class Paper:
    """A file that remembers."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


def test_a_question_shows_what_hides_in_a_command() -> None:
    paper: Any = Paper()
    asked = m.ApprovalRequested(
        request_id="r",
        thread_id="t",
        turn_id="u",
        item_id="i",
        seq=1,
        time=1,
        tool="bash",
        reason="it writes",
        command="ls" + " " * 60 + "; rm -rf /\u202e",
        cwd="/w\x1b[2J",
    )
    Screen(paper, colour=False).question(asked)
    assert "⟨60 spaces⟩; rm -rf /\\u202e" in paper.text
    assert "/w\\x1b[2J" in paper.text
    assert "\x1b" not in paper.text
