"""The message box: the keyboard is always its own, long pasted text is one label, keys stay in order."""

import os
import signal
from pathlib import Path

import anyio
import pytest
from stagehand import Stage, staged
from textual.events import Key, Paste

from flint_support import wired
from hames.client.appserver.client import AppServerClient
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from hames.tui.approval import ApprovalPanel
from hames.tui.composer import Suggestions
from hames.tui.pastes import Pastes
from support import ASKING, engine

LONG = "\n".join(f"line {number}" for number in range(1, 31))
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


def at_once(stage: Stage, *keys: str) -> None:
    """All of them before the first is handled, as they come over a slow line or from a busy machine."""
    for key in keys:
        stage.app.post_message(Key(key, key if len(key) == 1 else None))


async def pasted(stage: Stage, text: str) -> None:
    stage.app.post_message(Paste(text))
    await stage.pilot.pause()


def sent(model: ScriptedModel) -> str:
    """What the model read last."""
    return "\n".join(
        block.text for message in model.requests[-1].messages for block in message.blocks if hasattr(block, "text")
    )


async def test_keys_are_handled_in_the_order_they_came() -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        at_once(stage, *"helo", "left", "l", "end", "backspace", *"o!", "home", "delete", "H")
        await stage.until(lambda: stage.app.composer.text == "Hello!", "the letters in their order")


async def test_enter_right_after_a_command_runs_that_command_and_not_the_first_of_the_list() -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        at_once(stage, *"/status", "enter")
        await stage.shows("approvals  ask for risky actions")


@pytest.mark.parametrize("widget", ["#transcript", "#title", "#terms"])
async def test_no_click_takes_the_keyboard(widget: str) -> None:
    async with staged(ScriptedModel([say("Said.")])) as stage:
        await stage.says("go")
        await stage.shows("Said.")
        await stage.pilot.click(widget, offset=(2, 0))
        await stage.presses(*"abc")
        assert stage.app.composer.text == "abc"
        await pasted(stage, "def")
        assert stage.app.composer.text == "abcdef"


async def test_tab_while_nothing_runs_takes_no_keys_away() -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        await stage.presses(*"ab", "tab", "c")
        assert stage.app.composer.text == "abc"


async def test_the_window_losing_the_focus_takes_no_keys_away() -> None:
    from textual.events import AppBlur

    async with staged(ScriptedModel([call("asking", x=1)], [say("Done.")]), ASKING) as stage:
        stage.app.post_message(AppBlur())
        await stage.presses(*"go", "enter")
        await stage.asked()
        stage.app.post_message(AppBlur())
        await stage.presses("y")
        await stage.shows("Done.")


async def test_tab_and_clicks_leave_the_search_of_a_list_where_it_is() -> None:
    async with engine(ScriptedModel([say("x")])) as the_engine:
        async with wired(the_engine) as wire, AppServerClient.connect(wire) as client:
            for name in ("carts", "boats"):
                thread = (await client.start_thread()).thread
                await client.rename_thread(thread.id, name)
        async with staged(the_engine, size=(100, 30)) as stage:
            await stage.presses("ctrl+t")
            await stage.shows("carts", "boats")
            await stage.presses("tab", "tab", *"boa")
            await stage.hides("carts")


async def test_what_is_pasted_while_a_question_is_open_answers_nothing_and_is_not_lost() -> None:
    async with staged(ScriptedModel([call("asking", x=1)], [say("Done.")]), ASKING) as stage:
        await stage.says("go")
        await stage.asked()
        await pasted(stage, "yes")
        await stage.pilot.pause()
        assert stage.app.query_one(ApprovalPanel).asked is not None
        await stage.presses("n")
        await stage.shows("Done.")
        assert stage.app.composer.text == "yes"


async def test_a_clicked_suggestion_is_taken() -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        await stage.presses(*"/th")
        await stage.until(lambda: stage.app.query_one(Suggestions).display)
        await stage.shows("/theme")
        row = next(number for number, text in enumerate(stage.screen().split("\n")) if "/theme" in text)
        await stage.pilot.click(offset=(4, row))
        await stage.until(lambda: stage.app.composer.text == "/theme ")
        await stage.presses("x")
        assert stage.app.composer.text == "/theme x"


# -- pasted text


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (LONG, "[Pasted 30 lines]"),
        (LONG + "\n", "[Pasted 30 lines]"),
        (LONG.replace("\n", "\r\n"), "[Pasted 30 lines]"),
        (LONG.replace("\n", "\r"), "[Pasted 30 lines]"),
        ("x" * 5000, "[Pasted 5000 characters]"),
        ("one\ntwo", "one\ntwo"),
    ],
)
async def test_a_long_paste_is_a_label_and_is_sent_whole(text: str, label: str) -> None:
    model = ScriptedModel([say("Read.")])
    async with staged(model) as stage:
        await stage.presses(*"see ")
        await pasted(stage, text)
        assert stage.app.composer.text == f"see {label}"
        await stage.presses("enter")
        await stage.shows("Read.")
        assert sent(model).endswith("see " + text.replace("\r\n", "\n").replace("\r", "\n").rstrip())


@pytest.mark.parametrize(
    "keys",
    [["backspace"], ["home", "delete"], ["ctrl+w"], ["left", "delete"], ["shift+left", "x", "backspace"], ["ctrl+u"]],
)
async def test_a_label_is_removed_as_one(keys: list[str]) -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        await pasted(stage, LONG)
        await stage.presses(*keys)
        assert stage.app.composer.text == ""
        await stage.presses("ctrl+underscore")
        assert "[Pasted 30 lines]" in stage.app.composer.text


@pytest.mark.parametrize("way", ["left", "ctrl+left", "home", "click"])
async def test_the_cursor_is_never_inside_a_label(way: str) -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        await pasted(stage, LONG)
        if way == "click":
            await stage.pilot.click("#composer", offset=(8, 1))
        else:
            await stage.presses(way)
        await stage.presses("a")
        assert stage.app.composer.text in ("a[Pasted 30 lines]", "[Pasted 30 lines]a")
        assert stage.app.composer.expanded.replace("a", "") == LONG


async def test_two_pastes_have_two_labels_and_a_label_inside_a_paste_stays_text() -> None:
    model = ScriptedModel([say("Read.")])
    other = LONG.replace("line 7", "[Pasted 30 lines]")
    async with staged(model) as stage:
        await pasted(stage, LONG)
        await pasted(stage, other)
        assert stage.app.composer.text == "[Pasted 30 lines][Pasted 30 lines #2]"
        await stage.presses("enter")
        await stage.shows("Read.")
        assert sent(model).endswith(LONG + other)


async def test_a_prompt_from_the_history_shows_its_label_again(tmp_path: Path) -> None:
    model = ScriptedModel([say("One.")], [say("Two.")])
    async with staged(model, state_dir=tmp_path) as stage:
        await pasted(stage, LONG)
        await stage.presses("enter")
        await stage.shows("One.")
        await stage.presses("up")
        assert stage.app.composer.text == "[Pasted 30 lines]"
        await stage.presses("enter")
        await stage.shows("Two.")
        assert sent(model).endswith(LONG)


async def test_a_long_message_is_folded_and_a_click_shows_it() -> None:
    async with staged(ScriptedModel([say("Read.")]), size=(80, 60)) as stage:
        await pasted(stage, LONG)
        await stage.presses("enter")
        await stage.shows("Read.", "line 2", "line 30", "more lines")
        assert "line 15" not in stage.screen()
        rows = stage.screen().split("\n")
        at = next(number for number, row in enumerate(rows) if "more lines" in row)
        await stage.pilot.click(offset=(5, at))
        await stage.shows("line 15")


async def test_an_at_sign_in_pasted_text_attaches_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    (tmp_path / "asked.txt").write_text("what was asked for")
    model = ScriptedModel([say("Read.")])
    async with staged(model, cwd=tmp_path) as stage:
        await pasted(stage, LONG + "\n@secret.txt")
        await stage.presses(*" @asked.txt ", "enter")
        await stage.shows("Read.", "[file asked.txt]")
        assert "[file secret.txt]" not in stage.screen()


def test_a_forgotten_paste_is_never_one_that_is_in_use() -> None:
    pastes = Pastes()
    first = pastes.add(LONG)
    for number in range(200):
        pastes.add(f"{LONG}{number}", in_use=f"see {first}")
    assert pastes.expand(first) == LONG


# -- joined characters


@pytest.mark.parametrize(
    "emoji", [FAMILY, "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "e\u0301"]
)
async def test_a_joined_emoji_is_typed_whole_and_deleted_whole(emoji: str) -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        composer = stage.app.composer
        for character in f"a{emoji}b":
            stage.app.post_message(Key("key", character))
        await stage.until(lambda: composer.text == f"a{emoji}b", "all of it")
        await stage.presses("left", "left")
        assert composer.cursor_location == (0, 1)
        await stage.presses("delete")
        assert composer.text == "ab"


# -- commands of one's own


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_the_output_of_one_s_own_commands_is_sent_once_and_not_after_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_text("no picture")
    model = ScriptedModel([say("One.")], [say("Two.")])
    async with staged(model, cwd=tmp_path) as stage:
        await stage.says("!echo first; echo second >&2")
        await stage.shows("│ first", "│ second", "the output goes with your next message")
        await stage.says("see @shot.png ")
        await stage.shows("is not a PNG")
        stage.app.composer.put("")
        await stage.says("what was it")
        await stage.shows("One.", "[output of !echo first")
        assert "$ echo first; echo second >&2\nfirst\nsecond" in sent(model)
        assert "exit code 0" in sent(model)
        await stage.says("again")
        await stage.shows("Two.")
        assert sent(model).count("$ echo first") == 1


async def test_a_flood_of_output_holds_up_no_keys_and_is_cut_for_the_model(tmp_path: Path) -> None:
    model = ScriptedModel([say("One.")])
    async with staged(model, cwd=tmp_path) as stage:
        await stage.says("!yes | head -c 3000000; echo the end")
        await stage.presses(*"typed meanwhile")
        assert stage.app.composer.text == "typed meanwhile"
        await stage.shows("the output goes with your next message", "│ the end")
        await stage.presses("enter")
        await stage.shows("One.")
        assert len(sent(model)) < 20_000
        assert "the end" in sent(model)


async def test_a_command_that_leaves_something_running_is_over_when_it_is_over(tmp_path: Path) -> None:
    async with staged(ScriptedModel([say("x")]), cwd=tmp_path) as stage:
        await stage.says("!sleep 100 & echo $! > pid; echo started")
        await stage.shows("│ started", "the output goes with your next message")
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


async def test_closing_ends_the_command_that_runs(tmp_path: Path) -> None:
    async with staged(ScriptedModel([say("x")]), cwd=tmp_path) as stage:
        await stage.says("!echo $$ > pid; sleep 100")
        await stage.until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        pid = int((tmp_path / "pid").read_text())
        assert Path(f"/proc/{pid}").exists()
    with anyio.fail_after(60):
        while is_alive(pid):
            await anyio.sleep(0.01)


async def test_an_exclamation_mark_alone_says_what_it_is_for() -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        await stage.says("!")
        await stage.shows("Type a shell command after the exclamation mark")


async def test_a_command_of_one_s_own_needs_no_agent_and_waits_for_no_turn(tmp_path: Path) -> None:
    async with staged(ScriptedModel([say("x"), hang()]), cwd=tmp_path) as stage:
        await stage.says("go")
        await stage.shows("working")
        await stage.says("!echo $((6 * 7))")
        await stage.shows("│ 42")
        await stage.presses("escape")
        await stage.shows("■ interrupted")


# -- files to mention


@pytest.mark.parametrize("ripgrep", [pytest.param(True, marks=pytest.mark.needs("rg")), False], ids=["rg", "no rg"])
async def test_an_at_sign_offers_no_caches_and_no_compiled_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ripgrep: bool
) -> None:
    clutter = ["__pycache__/stats.cpython-311.pyc", "stats.pyc", "lib/stats.so", "stats.o", ".mypy_cache/3.11/stats"]
    for name in ["stats.py", *clutter]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    if not ripgrep:
        monkeypatch.setattr("hames.tui.completing.find_ripgrep", lambda _: "")
    async with staged(ScriptedModel(), cwd=tmp_path) as stage:
        await stage.until(lambda: stage.app.composer.files, "the files")
        await stage.pilot.press("@", *"stats")
        await stage.shows("@stats.py")
        assert stage.app.composer.files == ["stats.py"]


# -- letters meant for the message, while a question is open


@pytest.mark.parametrize("words", ["also run it", "yes but not so", "no, use a copy", "really?", "hello", "a"])
async def test_letters_that_come_in_a_burst_answer_nothing_and_are_in_the_message_box(words: str) -> None:
    async with staged(ScriptedModel([call("asking", x=1)], [say("Done.")]), ASKING) as stage:
        await stage.says("go")
        panel = await stage.asked()
        at_once(stage, *words, *"!!")
        await stage.until(lambda: stage.app.composer.text == f"{words}!!", "all of it in the message box")
        assert panel.asked is not None
        assert not panel.query_one("#word").display
        assert stage.app.talk.running
        panel = await stage.asked()  # and after a pause the question has the keys again
        await stage.presses("y")
        await stage.shows("Done.")
        assert stage.app.composer.text == f"{words}!!"


async def test_letters_typed_before_the_question_listens_are_not_lost() -> None:
    async with staged(ScriptedModel([call("asking", x=1)], [say("Done.")]), ASKING) as stage:
        await stage.says("go")
        panel = stage.app.query_one(ApprovalPanel)
        await stage.until(lambda: panel.asked is not None and panel.has_focus, "a question")
        panel.listen()  # as if it had come up this moment
        at_once(stage, *"yes")
        await stage.until(lambda: stage.app.composer.text == "yes", "the letters in the message box")
        assert panel.asked is not None


@pytest.mark.parametrize("key", ["enter", "2", "x"])
async def test_a_key_that_answers_nothing_says_which_keys_do(key: str) -> None:
    async with staged(ScriptedModel([call("asking", x=1)], [say("Done.")]), ASKING) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.presses(key)
        await stage.shows("Press y to allow it")


async def test_a_question_mark_in_an_empty_message_box_opens_the_help() -> None:
    async with staged(ScriptedModel([say("x")]), size=(100, 30)) as stage:
        await stage.presses("question_mark")
        await stage.shows("shift+enter, ctrl+j")
        await stage.presses("escape")
        assert not stage.app.composer.text
        await stage.presses(*"why", "question_mark")
        await stage.until(lambda: stage.app.composer.text == "why?", "a question mark in a message")
