"""Turns on the screen: what streams, what asks, what stops."""

import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from stagehand import Stage, staged

from flint_support import real_engine, wired
from hames.client.appserver.client import AppServerClient
from hames.domain.approvals import ChangeFiles
from hames.domain.items import FileUpdate
from hames.domain.models import ModelCard, Price
from hames.protocols.flint import greeting
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.testing.fakes.model import OneModel, ScriptedModel, call, fail, hang, notice, say, think, usage, wait_for
from hames.tui.app import HamesApp
from hames.tui.approval import ApprovalPanel
from hames.tui.blocks.actions import Command, FileChangeBlock, ToolBlock
from hames.tui.blocks.messages import NoteBlock
from hames.tui.composer import Composer, Suggestions
from hames.tui.server_process import Unreachable, spawn_server
from hames.tui.session import NewThreadSettings
from support import ASKING, ECHO, PlainTool, echo, engine


async def test_a_turn_streams_into_markdown_with_its_reasoning_folded() -> None:
    model = ScriptedModel([think("First I look.\nThen I think."), say("# Title\n\nThis is **bold** and `code`.")])
    async with staged(model) as stage:
        await stage.says("hello")
        await stage.shows("› hello", "Title", "This is bold and code.", "∴ First I look. Then I think.")
        assert "**" not in stage.screen()
        await stage.until(lambda: not stage.app.talk.running)


@pytest.mark.needs("bwrap")
@pytest.mark.spec("flint/plan-tui-items")
async def test_commands_show_their_output_and_file_changes_their_diff(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "cart.py").write_text("a = 1\nb = 2\n")
    model = ScriptedModel(
        [call("shell", command="printf '\\033[31mred\\033[0m\\n\\033]0;title\\007'; seq 40; exit 3")],
        [call("edit", path="cart.py", old_string="b = 2\n", new_string="b = 3\n")],
        [say("Done.")],
    )
    async with (
        real_engine(model, tmp_path) as the_engine,
        staged(the_engine, size=(90, 50), cwd=tmp_path / "ws") as stage,
    ):
        await stage.says("/approvals never")
        await stage.shows("never ask")
        await stage.says("go")
        await stage.shows(
            "Done.", "✗ exit 3", "│ red", "more lines", "│ 40", "± cart.py  +1 −1 ✓", "2 - b = 2", "2 + b = 3"
        )
        assert stage.screen().count("title") == 1  # in the command itself
        assert "│ 20" not in stage.screen()
        await stage.presses("ctrl+o")
        await stage.shows("│ 20")
        kinds = [type(block) for block in stage.app.transcript.blocks]
        assert kinds.count(Command) == 1
        assert kinds.count(FileChangeBlock) == 1


@pytest.mark.parametrize(("key", "ending", "answer"), [("y", "✓", "Went well."), ("n", "⊘", "Went well.")])
async def test_a_question_is_answered_with_one_key(key: str, ending: str, answer: str) -> None:
    model = ScriptedModel([call("asking", path="/etc/passwd")], [say(answer)])
    async with staged(model, ASKING) as stage:
        await stage.says("go")
        panel = await stage.asked()
        await stage.shows("Allow this tool call?", "asking", "path=/etc/passwd", "y allow once", "n reject")
        await stage.shows("r reject and tell the agent why")
        assert not stage.app.composer.display
        await stage.presses(key)
        await stage.shows(answer, f"path=/etc/passwd {ending}")
        assert panel.asked is None
        assert stage.app.composer.has_focus


async def test_always_says_what_it_covers_and_is_offered_only_where_it_covers_something() -> None:
    files = ChangeFiles(changes=(FileUpdate(path="/README.md", kind="modify", diff="-a\n+b\n"),))
    changing = PlainTool("changing", echo, intent=files)
    model = ScriptedModel([call("changing")], [say("Once.")], [call("changing")], [call("asking")], [say("Twice.")])
    async with staged(model, changing, ASKING, cwd=Path("/")) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.shows("Always allow covers: further changes to README.md", "a always allow")
        await stage.presses("a")
        await stage.shows("Once.")
        await stage.says("again")
        panel = await stage.asked()  # about the other tool only
        assert panel.asked is not None
        assert not panel.asked.offers_always
        assert "a always allow" not in stage.screen()
        await stage.presses("a", "y")
        await stage.shows("Twice.")


async def test_a_rejection_can_carry_a_word_to_the_model() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("I see.")])
    async with staged(model, ASKING) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.presses("r")
        await stage.until(lambda: stage.app.query_one("#word").has_focus, "a line to type in")
        await stage.presses(*"use a copy", "enter")
        await stage.shows("I see.", "› use a copy")
        told = [
            block.text for message in model.requests[-1].messages for block in message.blocks if hasattr(block, "text")
        ]
        assert "use a copy" in " ".join(told)


async def test_escape_at_a_question_stops_the_turn() -> None:
    async with staged(ScriptedModel([call("asking", x=1)], [say("never said")]), ASKING) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.presses("escape")
        await stage.shows("■ interrupted")
        assert "never said" not in stage.screen()
        assert sum(isinstance(block, NoteBlock) for block in stage.app.transcript.blocks) == 1


async def test_nobody_answers_what_they_were_still_typing_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hames.tui.screen.QUIET_SECONDS", 4.0)  # a busy machine takes its time over each key
    gate = anyio.Event()
    async with staged(ScriptedModel([wait_for(gate), call("asking", x=1)], [say("ok")]), ASKING) as stage:
        await stage.says("go")
        await stage.until(lambda: stage.app.talk.running)
        await stage.presses("r")
        gate.set()
        panel = stage.app.query_one(ApprovalPanel)
        with anyio.fail_after(60):
            while panel.asked is None:
                await stage.presses("r")
        await stage.presses("y")
        assert stage.app.composer.text.endswith("ry")
        await stage.asked()
        assert stage.app.talk.running


async def test_a_question_of_another_thread_says_so_and_is_answered_there() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("It went on.")])
    async with engine(model, ASKING) as the_engine, staged(the_engine) as stage:
        await stage.says("go")
        await stage.asked()
        asking = stage.app.talk.thread_id
        await stage.presses("ctrl+n")
        await stage.shows("Say what you want done.", f"In thread {asking}")
        await stage.asked()
        await stage.presses("y")
        await stage.hides("Allow this tool call?")
        assert stage.app.talk.thread_id == ""
        await stage.says(f"/resume {asking}")
        await stage.shows("It went on.")


async def test_a_command_in_question_hides_nothing() -> None:
    model = ScriptedModel([call("asking", command="ls\x1b[2K\rrm -rf /")], [say("ok")])
    async with staged(model, ASKING) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.shows("ls\\x1b[2K\\rrm -rf /")


async def test_escape_interrupts_a_turn() -> None:
    async with staged(ScriptedModel([say("Let me"), hang()])) as stage:
        await stage.says("go")
        await stage.shows("Let me", "working", "esc stop")
        await stage.presses("escape")
        await stage.shows("■ interrupted")
        await stage.hides("working")


async def test_enter_steers_and_tab_queues_while_a_turn_runs() -> None:
    gate = anyio.Event()
    model = ScriptedModel([say("One."), call("echo", x=1), wait_for(gate)], [say("Steered.")], [say("And the second.")])
    async with staged(model, ECHO) as stage:
        await stage.says("go")
        await stage.shows("One.")
        await stage.says("rather this")
        await stage.shows("› rather this")
        await stage.says("and later that", "tab")
        await stage.shows("1. queued: and later that")
        gate.set()
        await stage.shows("Steered.", "› and later that", "And the second.")
        await stage.hides("queued:")


async def test_a_waiting_prompt_can_be_taken_back() -> None:
    async with staged(ScriptedModel([say("x"), hang()])) as stage:
        await stage.says("go")
        await stage.until(lambda: stage.app.talk.running)
        await stage.says("later", "tab")
        await stage.shows("1. queued: later")
        await stage.presses("alt+up")
        await stage.until(lambda: stage.app.composer.text == "later")
        await stage.hides("queued:")


async def test_a_failed_turn_says_why_and_the_next_one_works() -> None:
    model = ScriptedModel([fail("the model is on holiday")], [say("Back.")])
    async with staged(model) as stage:
        await stage.says("go")
        await stage.shows("✗ the model is on holiday")
        await stage.says("again")
        await stage.shows("Back.")


async def test_a_provider_s_notice_is_shown() -> None:
    async with staged(ScriptedModel([notice("limits", "half of today is used"), say("ok")])) as stage:
        await stage.says("go")
        await stage.shows("· half of today is used")


async def test_tokens_context_and_plan_are_counted() -> None:
    model = ScriptedModel([say("ok"), usage(input_tokens=60_000, output_tokens=40)])
    async with staged(model, size=(100, 24)) as stage:
        await stage.says("go")
        await stage.shows("60.0k tokens", "full")


class Shop(OneModel):
    """A cheap model and a dear one, played by the same script."""

    _sold = {
        name: ModelCard(provider="scripted", model=name, display_name=name, price=Price(input=price, output=price))
        for name, price in (("cheap", 1.0), ("dear", 50.0))
    }

    def find(self, name: str) -> ModelCard:
        return self._sold[name.rpartition("/")[2]]

    def cards(self) -> Sequence[ModelCard]:
        return list(self._sold.values())


async def test_what_a_thread_cost_stays_right_when_the_model_changes_and_after_it_was_opened_again() -> None:
    model = ScriptedModel(
        [say("one"), usage(input_tokens=90_000, output_tokens=10_000)],
        [say("two"), usage(input_tokens=10_000, output_tokens=10_000)],
    )
    cheap = ModelCard(provider="scripted", model="cheap", display_name="cheap")
    async with engine(Shop(model, cheap)) as the_engine:
        async with staged(the_engine, size=(110, 24)) as stage:
            await stage.says("go")
            await stage.shows("one", "$0.10")
            await stage.says("/model scripted/dear")
            await stage.shows("dear ·", "$0.10")
            await stage.says("go on")
            await stage.shows("two", "$1.10")
        async with staged(the_engine, size=(110, 24), resume="last") as stage:
            await stage.shows("two", "120.0k tokens · $1.10")


@pytest.mark.spec("flint/client-renders-unknown-items")
async def test_an_item_of_an_unknown_type_is_shown_as_a_tool_call_with_its_id_and_text() -> None:
    item = wire.read_item({"type": "hologram", "id": "item_9", "text": "Boo", "status": "completed"})
    async with staged(ScriptedModel([say("x")])) as stage:
        assert isinstance(item, wire.UnknownItem)
        stage.app.transcript.append(ToolBlock(item))
        await stage.shows("· hologram item_9 Boo ✓")


async def test_a_click_unfolds_one_tool_call() -> None:
    async with staged(ScriptedModel([call("echo", x=1)], [say("done")]), ECHO) as stage:
        await stage.says("go")
        await stage.shows("done", "· echo x=1 ✓")
        rows = stage.screen().split("\n")
        at = next(number for number, row in enumerate(rows) if "· echo" in row)
        await stage.pilot.click("#transcript", offset=(5, at - 1))
        await stage.shows("│ echo {'x': 1}")


async def test_a_prompt_from_the_command_line_is_sent_at_once() -> None:
    async with staged(ScriptedModel([say("Here.")]), prompt="first words") as stage:
        await stage.shows("› first words", "Here.")


async def test_after_the_death_of_the_agent_another_goes_on_with_the_thread() -> None:
    model = ScriptedModel([say("Before.")], [say("After.")])
    async with engine(model) as the_engine, staged(the_engine) as stage:
        await stage.says("one")
        await stage.shows("Before.")
        assert stage.app.session.client is not None
        stage.app.session.client.end("the agent closed the connection")
        await stage.shows("✗ the agent closed the connection")
        await stage.says("two")
        await stage.shows("Before.", "› two", "After.")


async def test_an_agent_that_never_comes_up_ends_the_terminal_with_the_reason() -> None:
    def reach() -> AbstractAsyncContextManager[AppServerClient]:
        return spawn_server([sys.executable, "-c", "raise SystemExit('no model of that name')"])

    app = HamesApp(reach, cwd=Path("/"))
    async with app.run_test() as pilot:
        stage = Stage(app, pilot)
        await stage.until(lambda: app._exit)
    assert app.unreachable is not None
    assert (str(app.unreachable), app.unreachable.code) == ("no model of that name", 1)


async def test_an_agent_that_does_not_come_back_leaves_the_words_where_they_were() -> None:
    async with engine(ScriptedModel([say("x")])) as the_engine:
        times: list[int] = []

        @asynccontextmanager
        async def reach() -> AsyncGenerator[AppServerClient]:
            times.append(1)
            if len(times) > 1:
                raise Unreachable("the disk is gone")
            async with wired(the_engine) as wire, AppServerClient.connect(wire) as client:
                yield client

        app = HamesApp(reach, cwd=Path("/"))
        async with app.run_test() as pilot:
            stage = Stage(app, pilot)
            await stage.until(lambda: app.talk.model, "a model")
            assert app.session.client is not None
            app.session.client.end("the agent closed the connection")
            await stage.shows("✗ the agent closed the connection")
            await stage.says("anybody?")
            await stage.shows("✗ the disk is gone", "✗ not connected to the agent")
            assert app.composer.text == "anybody?"
            app.exit(0)


async def test_a_process_that_dies_later_has_its_last_words_on_the_screen() -> None:
    result = greeting.result(version="1", provider="x", home="/", options=True, reasoning=True)
    answer = json.dumps({"id": 1, "result": result})
    greets = (
        f"import sys; sys.stdin.readline(); print({answer!r}, flush=True); "
        "sys.stdin.readline(); sys.stdin.readline(); sys.exit('hames: no room on the disk')"
    )

    def reach() -> AbstractAsyncContextManager[AppServerClient]:
        return spawn_server([sys.executable, "-c", greets])

    app = HamesApp(reach, cwd=Path("/"))
    async with app.run_test() as pilot:
        stage = Stage(app, pilot)
        await stage.shows("✗ no room on the disk")
        app.exit(0)


async def test_a_refused_prompt_leaves_no_thread_behind(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_text("no picture")
    async with engine(ScriptedModel([say("Better.")])) as the_engine, staged(the_engine, cwd=tmp_path) as stage:
        await stage.says("see @shot.png ")
        await stage.shows("is not a PNG, JPEG, GIF or WebP picture")
        assert stage.app.composer.text == "see @shot.png"
        async with wired(the_engine) as wire, AppServerClient.connect(wire) as client:
            await stage.until(lambda: stage.app.talk.thread_id == "")
            assert (await client.list_threads()).data == []
        await stage.says("then without")
        await stage.shows("Better.")


@pytest.mark.parametrize("size", [(40, 12), (20, 6), (200, 60)])
async def test_any_size_of_terminal_works(size: tuple[int, int]) -> None:
    model = ScriptedModel(
        [say("| a | b |\n|---|---|\n| 1 | 2 |\n\n1. x\n   - y"), call("asking", x="y" * 200)], [say("ok")]
    )
    async with staged(model, ASKING, size=size) as stage:
        await stage.says("a prompt that is longer than forty columns, by far")
        await stage.asked()
        await stage.presses("y")
        await stage.shows("ok")


async def test_a_build_of_a_hundred_thousand_lines_is_folded_and_cheap() -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        block = Command(wire.CommandExecutionItem(id="c", command="make", cwd="/", status="inProgress"))
        stage.app.transcript.append(block)
        for _ in range(100):
            block.add("".join(f"line {number}\n" for number in range(1000)))
        stage.app.transcript.changed(block)
        await stage.shows("$ make", "… 99988 more lines")
        await stage.presses("ctrl+o")
        await stage.shows("line 999")
        assert len(block.draw(78, stage.app.palette)) < 2100


async def test_several_lines_history_and_completion_in_the_composer(tmp_path: Path) -> None:
    (tmp_path / "cart.py").write_text("x")
    model = ScriptedModel([say("one")], [say("two")], [say("three")])
    async with staged(model, cwd=tmp_path, state_dir=tmp_path / "state") as stage:
        composer = stage.app.composer
        await stage.presses("a", "shift+enter", "b", "ctrl+j", "c")
        assert composer.text == "a\nb\nc"
        await stage.presses("enter")
        await stage.shows("one")
        await stage.says("second")
        await stage.shows("two")
        await stage.presses("up")
        assert composer.text == "second"
        await stage.presses("up")
        assert composer.text == "a\nb\nc"
        composer.put("")
        await stage.until(lambda: "cart.py" in composer.files, "the files")
        room = stage.app.transcript.size.width
        await stage.presses(*"see @ca")
        await stage.until(lambda: stage.app.query_one(Suggestions).display)
        await stage.shows("@cart.py")
        assert stage.app.transcript.size.width == room, "what is offered takes nothing from what is read"
        await stage.presses("tab")
        assert composer.text == "see @cart.py "
        (tmp_path / "fresh.py").write_text("x")
        composer.put("")
        await stage.presses(*"/sta")
        await stage.shows("show thread, model, mode")
        await stage.presses("enter")
        await stage.shows("sandbox    workspace only")
        await stage.says("third")
        await stage.until(lambda: "fresh.py" in composer.files, "a file that is new")
    async with staged(ScriptedModel([say("x")]), state_dir=tmp_path / "state") as stage:
        await stage.presses("up")
        assert stage.app.composer.text == "third"
        assert (tmp_path / "state" / "prompts.jsonl").stat().st_mode & 0o077 == 0


async def test_a_pasted_path_of_a_picture_becomes_a_picture(tmp_path: Path) -> None:
    from textual.events import Paste

    picture = tmp_path / "shot.png"
    picture.write_bytes(b"\x89PNG\r\n")
    async with staged(ScriptedModel([say("x")]), cwd=tmp_path) as stage:
        stage.app.query_one(Composer).post_message(Paste(f"'{picture}'"))
        await stage.until(lambda: stage.app.composer.text == f"@{picture} ")


async def test_a_prompt_from_the_command_line_that_is_refused_stays_in_the_composer() -> None:
    new_settings = NewThreadSettings(sandbox=m.WorkspaceWrite(writable_roots=["/nowhere/at/all"]))
    async with staged(ScriptedModel([say("Here.")]), prompt="first words", new_settings=new_settings) as stage:
        await stage.shows("no directory '/nowhere/at/all'")
        await stage.until(lambda: stage.app.composer.text == "first words", "the prompt")


@pytest.mark.needs("bwrap")
async def test_background_processes_are_listed_and_ended(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    model = ScriptedModel([call("shell", command="echo up; exec sleep 6161", background=True)], [say("Done.")])
    async with (
        real_engine(model, tmp_path) as the_engine,
        staged(the_engine, size=(90, 50), cwd=tmp_path / "ws") as stage,
    ):
        await stage.says("/approvals never")
        await stage.shows("never ask")
        await stage.says("/ps")
        await stage.shows("The agent has started no background process")
        await stage.says("go")
        await stage.shows("running in the background as process 1", "Done.")
        await stage.until(lambda: not stage.app.talk.running)
        await stage.says("/ps")
        await stage.shows("1  running for")
        await stage.says("/ps 1")
        await stage.shows("1  ended: exit code 1")
        await stage.says("/ps all")
        await stage.shows("/ps NUMBER ends one")
