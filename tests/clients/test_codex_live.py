"""The real Codex as the agent, where things go wrong and where people choose: what only the binary can prove."""

import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import msgspec
import psutil
import pytest

pytest.register_assert_rewrite("matrix_support")
from codex_side import Live, called, codex, patched, ran  # noqa: E402

from hames.client.appserver.client import AppServerClient, text_of  # noqa: E402
from hames.client.appserver.events import ApprovalAsked  # noqa: E402
from hames.client.appserver.link import Filled  # noqa: E402
from hames.protocols.flint import messages as m  # noqa: E402
from hames.testing.services.openai import OPENAI  # noqa: E402
from hames.testing.services.server import SeenRequest, talk  # noqa: E402
from matrix_clients import BIN, CLIENTS, PATIENCE_SECONDS  # noqa: E402
from matrix_support import COMMAND, Story, kinds, turn  # noqa: E402
from matrix_table import PROTOCOLS  # noqa: E402

FLINT_AND_BOOTSTRAP = ("bootstrap", "flint")


@pytest.fixture
def binary(node_modules: Path) -> str:
    return str(node_modules / ".bin" / "codex")


@asynccontextmanager
async def speaking(live: Live, *flags: str) -> AsyncGenerator[AppServerClient]:
    """Flint, for what the common verbs do not have. Whatever is asked about is allowed."""
    place = live.side.place
    command = [str(BIN / "hames"), "app-server", "--cwd", str(place.work), *(flags or place.flags)]

    async def accept(_: object) -> m.ApprovalWord:
        return "accept"

    with anyio.fail_after(4 * PATIENCE_SECONDS):
        async with AppServerClient.spawn(command, env=place.environment, on_approval=accept) as client:
            yield client


def of(live: Live) -> list[psutil.Process]:
    """Every process of this Codex, and what it started."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            ours = any(word.startswith(str(BIN)) for word in process.cmdline())
            if process.environ().get("CODEX_HOME") == str(live.home) and not ours:
                found.append(process)
        except psutil.Error:
            continue
    return found


async def until(happened: Callable[[], bool]) -> None:
    """Something on the machine, which nobody announces."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while not happened():
            await anyio.sleep(0.05)


def sent(request: SeenRequest) -> str:
    return request.raw.decode()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_is_declined_does_not_happen_and_the_turn_goes_on(
    protocol: str, tmp_path: Path, binary: str
) -> None:
    answers = [ran("call_1", COMMAND), patched("call_2", _CREATE), talk("Then not.")]
    async with codex(tmp_path, binary, answers=answers) as live, CLIENTS[protocol](live.side.place) as client:
        await client.start()
        await client.prompt("Do two things")
        for about in (COMMAND, "notes.txt"):
            question = await client.question()
            assert about in question.about
            await client.answer(question, "reject")
        assert (await client.ended(), client.failure) == ("completed", "")
        _, command, change, words = client.shown()
        assert [one.kind for one in (command, change, words)] == ["command", "file", "text"]
        assert "completed" not in (command.outcome, change.outcome)
        assert words.text == "Then not."
        assert list(live.side.place.work.glob("*.txt")) == []
        assert "rejected by user" in live.side.last_request()


_CREATE = "*** Begin Patch\n*** Add File: notes.txt\n+a note\n*** End Patch\n"
_UPDATE = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-a note\n+another note\n*** End Patch\n"


async def test_a_change_of_a_file_is_told_as_a_diff(tmp_path: Path, binary: str) -> None:
    async with codex(tmp_path, binary, answers=[patched("call_1", _UPDATE), talk("Changed.")]) as live:
        notes = live.side.place.work / "notes.txt"
        notes.write_text("a note\n")
        async with speaking(live) as client:
            thread = (await client.start_thread()).thread.id
            ended = msgspec.to_builtins(await client.run(thread, "Change it"))
        (change,) = ended["items"][1]["changes"]
        assert change["diff"] == "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-a note\n+another note\n"
        assert notes.read_text() == "another note\n"


@pytest.mark.parametrize("protocol", FLINT_AND_BOOTSTRAP)
async def test_a_codex_that_is_killed_fails_its_turn_and_the_thread_goes_on(
    protocol: str, tmp_path: Path, binary: str
) -> None:
    story = Story(OPENAI)
    answers = [talk("Hello there."), story, talk("We go on.")]
    async with codex(tmp_path, binary, answers=answers) as live, CLIENTS[protocol](live.side.place) as client:
        await client.start()
        await turn(client, "Say hello")
        await client.prompt("Tell a story")
        await client.begun()
        for process in of(live):
            with suppress(psutil.NoSuchProcess):  # it ended with the one before it
                process.send_signal(signal.SIGKILL)
        assert await client.ended() == "failed"
        assert "Codex was killed by signal 9" in client.failure
        assert client.shown()[-1].text.startswith("Once upon")
        assert kinds(await turn(client, "Go on")) == ["user", "text"]
        assert "Hello there." in live.side.last_request()


@pytest.mark.parametrize("protocol", FLINT_AND_BOOTSTRAP)
async def test_an_interrupt_in_the_middle_of_a_command_leaves_nothing_running(
    protocol: str, tmp_path: Path, binary: str
) -> None:
    answers = [ran("call_1", "touch begun.txt; sleep 4321"), talk("Never said."), talk("We go on.")]
    async with codex(tmp_path, binary, answers=answers) as live, CLIENTS[protocol](live.side.place) as client:
        await client.start()
        await client.prompt("Wait")
        await client.answer(await client.question(), "once")
        # Codex streams no output before the command has run for ten seconds: the file tells that it runs.
        await until((live.side.place.work / "begun.txt").exists)
        await client.interrupt()
        assert await client.ended() == "interrupted"
        assert client.shown()[1].kind == "command"
        assert client.shown()[1].outcome != "completed"
        await until(lambda: not any("4321" in process.cmdline() for process in of(live)))


async def test_what_an_mcp_server_of_codexs_asks_reaches_a_person_and_the_answer_the_server(
    tmp_path: Path, binary: str
) -> None:
    answers = [called("call_1", "book", namespace="mcp__asks"), talk("Booked.")]
    server = f'[mcp_servers.asks]\ncommand = "{sys.executable}"\nargs = ["{Path(__file__).with_name("mcp_asks.py")}"]\n'
    async with codex(tmp_path, binary, answers=answers, mcp=server) as live:
        place, asked = live.side.place, list[ApprovalAsked]()

        async def answer(question: ApprovalAsked) -> m.ApprovalWord | Filled:
            asked.append(question)
            return Filled(content={"guests": 4}) if len(asked) > 1 else "accept"

        command = [str(BIN / "hames"), "app-server", "--cwd", str(place.work), *place.flags]
        with anyio.fail_after(4 * PATIENCE_SECONDS):
            async with AppServerClient.spawn(command, env=place.environment, on_approval=answer) as client:
                ended = await client.run((await client.start_thread()).thread.id, "Book a table")
        assert len(asked) == 2, ended
        assert "For how many?" in str(msgspec.to_builtins(asked[1].params))
        assert "accept: a table for 4" in live.side.last_request()


async def test_a_fork_remembers_what_was_before_it_and_nothing_after(tmp_path: Path, binary: str) -> None:
    async with codex(tmp_path, binary, answers=[], then=talk("Yes.")) as live, speaking(live) as client:
        thread = (await client.start_thread()).thread.id
        first = await client.run(thread, "The first thing")
        await client.run(thread, "The second thing")
        fork = (await client.fork_thread(thread, last_turn_id=first.id)).thread.id
        await client.run(fork, "The other thing")
        asked = sent(live.model.seen[-1])
        assert [words in asked for words in ("The first thing", "The second thing", "The other thing")] == [1, 0, 1]
        assert live.model.seen[-1].headers["thread-id"] != live.model.seen[0].headers["thread-id"]

        await client.run(thread, "The third thing")
        asked = sent(live.model.seen[-1])
        assert [words in asked for words in ("The second thing", "The other thing", "The third thing")] == [1, 0, 1]
        assert live.model.seen[-1].headers["thread-id"] == live.model.seen[0].headers["thread-id"]


async def test_codex_is_told_what_others_did_and_what_it_has_lost(tmp_path: Path, binary: str) -> None:
    script = tmp_path / "script.json"
    script.write_bytes(
        msgspec.json.encode([[{"call": "shell", "with": {"command": "echo $((20 + 1))"}}], "Done before."])
    )
    async with codex(tmp_path, binary, answers=[], then=talk("Yes.")) as live:
        async with speaking(live, "--model", f"scripted/{script}") as client:
            thread = (await client.start_thread()).thread.id
            await client.run(thread, "Count")
            await client.change_settings(thread, model="codex/default")
            await client.run(thread, "And now you")
            asked = sent(live.model.seen[-1])
            assert [words for words in ("Count", "echo $((20 + 1))", "21", "Done before.") if words not in asked] == []

        for kept in live.home.glob("sessions/**/*.jsonl"):
            kept.unlink()
        for kept in live.home.glob("*.sqlite*"):
            kept.unlink()
        async with speaking(live) as client:
            await client.resume_thread(thread)
            ended = await client.run(thread, "Still there?")
            assert (ended.status, text_of(ended)) == ("completed", "Yes.")
            asked = sent(live.model.seen[-1])
            assert [words for words in ("Count", "And now you", "Still there?") if words not in asked] == []


async def test_codexs_own_list_says_which_models_and_efforts_there_are(tmp_path: Path, binary: str) -> None:
    async with codex(tmp_path, binary, answers=[talk("Yes.")]) as live, speaking(live) as client:
        thread = (await client.start_thread()).thread.id
        await client.run(thread, "Anything")
        models = {model.id for model in await client.models()}
        assert {"codex/default", "codex/gpt-5.5"} <= models
        await client.change_settings(thread, model="codex/gpt-5.5")
        offered = {
            option.id: [choice.id for choice in option.options] for option in await client.config_options(thread)
        }
        assert offered["reasoning_effort"] == ["default", "low", "medium", "high", "xhigh"]


async def test_what_people_choose_reaches_codexs_model_and_can_be_taken_back(tmp_path: Path, binary: str) -> None:
    async with codex(tmp_path, binary, answers=[], then=talk("Yes.")) as live, speaking(live) as client:
        thread = (await client.start_thread()).thread.id

        async def asked(**config: str) -> SeenRequest:
            ended = await client.run(thread, "Anything", config=config)
            assert ended.status == "completed", ended.error
            return live.model.seen[-1]

        usual = (await asked()).body["reasoning"]["effort"]
        assert usual != "high"
        planning = await asked(reasoning_effort="high", collaboration_mode="plan", personality="friendly")
        assert planning.body["reasoning"]["effort"] == "high"
        assert "# Plan Mode" in _last_instructions(planning)
        back = await asked(reasoning_effort="default", collaboration_mode="default", personality="default")
        assert back.body["reasoning"]["effort"] == usual
        assert "Collaboration Mode: Default" in _last_instructions(back)
        review = await asked(collaboration_mode="review")
        assert "review" in sent(review).lower()
        assert len(live.model.seen) == 4


def _last_instructions(request: SeenRequest) -> str:
    said = [item for item in request.body["input"] if item.get("role") == "developer"]
    return msgspec.json.encode(said[-1]).decode()
