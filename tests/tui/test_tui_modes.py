"""What is in force, as the screen shows it: the mode, the sandbox, what waits for an approval. At any size."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from stagehand import staged

from flint_support import SELECTORS, wired
from hames.client.appserver.client import AppServerClient
from hames.client.appserver.events import QueueChanged
from hames.domain.approvals import UseTool
from hames.domain.models import ModelCard
from hames.protocols.flint import messages as m
from hames.protocols.flint.items import FileChangeItem, TextInput
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say, usage, wait_for
from hames.tui.blocks.actions import WorkspaceChanges
from hames.tui.conversation import Conversation
from hames.tui.git_changes import changed_files
from hames.tui.markdown import StreamingMarkdown
from hames.tui.palette import DARK, palette
from hames.tui.session import NewThreadSettings
from hames.tui.status import status_line
from support import ASKING, PlainTool, echo, engine

DARK_PALETTE = palette(DARK.to_color_system().generate(), dark=True)


@pytest.mark.parametrize("sandbox", [m.WorkspaceWrite(), m.DangerFullAccess(), m.WorkspaceWrite(network_access=True)])
@pytest.mark.parametrize("mode", ["plan", "review"])
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_in_plan_and_review_mode_the_status_line_says_read_only(
    mode: str, sandbox: m.SandboxPolicy, width: int
) -> None:
    talk = Conversation("t")
    talk.model, talk.sandbox, talk.config = "anthropic/claude-sonnet-5-5", sandbox, {"agent": mode}
    shown = status_line(talk, DARK_PALETTE, width=width).plain
    assert f"{mode.capitalize()} mode" in shown
    assert "read-only" in shown
    assert "workspace" not in shown
    assert "NO SANDBOX" not in shown


async def test_the_mode_another_client_sets_is_seen_and_reaches_the_next_turn() -> None:
    model = OneModel(ScriptedModel([say("One.")], [say("Two.")]), selectors=SELECTORS)
    async with engine(model) as the_engine, staged(the_engine, size=(120, 24)) as stage:
        await stage.says("go")
        await stage.shows("One.")
        async with wired(the_engine) as wire, AppServerClient.connect(wire) as client:
            await client.set_config("agent", "plan", thread_id=stage.app.talk.thread_id)
            await stage.shows("Plan mode (changes nothing)", "Sandbox: read-only")
            await stage.says("/plan off")
            await stage.shows("Plan mode is off")
            options = await client.config_options(stage.app.talk.thread_id)
            assert {option.id: option.value for option in options}["agent"] == "code"
        await stage.hides("Plan mode (changes nothing)")


async def test_plan_with_a_message_plans_that() -> None:
    model = ScriptedModel([say("A plan.")])
    async with staged(model, size=(120, 24)) as stage:
        await stage.says("/plan how to do it")
        await stage.shows("› how to do it", "A plan.", "Plan mode (changes nothing)")
        assert "You are planning" in (model.requests[-1].system or "")


async def test_a_review_is_seen_while_it_runs() -> None:
    gate = anyio.Event()
    async with staged(ScriptedModel([wait_for(gate), say("Nothing found.")]), size=(120, 24)) as stage:
        await stage.says("/review")
        await stage.shows("Review mode (changes nothing)", "Sandbox: read-only")
        gate.set()
        await stage.shows("Nothing found.", "Sandbox: workspace only")
        await stage.hides("Review mode")


async def test_what_waits_for_an_approval_says_so_until_it_is_answered() -> None:
    gate = anyio.Event()
    model = ScriptedModel([call("asking", x=1)], [wait_for(gate), say("Done.")])
    async with engine(model, ASKING) as the_engine, staged(the_engine) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.shows("· asking x=1 waiting for approval")
        async with staged(the_engine, resume="last") as other:
            await other.shows("· asking x=1 waiting for approval")
            await other.asked()
            await stage.presses("y")
            await stage.shows("· asking x=1 ✓")
            await other.shows("· asking x=1 ✓")
            gate.set()
            await other.shows("Done.")


async def test_a_paused_queue_says_what_to_do_and_drop_clears_it() -> None:
    gate = anyio.Event()
    async with staged(ScriptedModel([say("x"), wait_for(gate)]), size=(100, 30)) as stage:
        await stage.says("go")
        await stage.until(lambda: stage.app.talk.running)
        for number in range(5):
            await stage.says(f"later {number}", "tab")
        await stage.shows("1. queued: later 0", "… and 2 more queued")
        await stage.presses("escape")
        await stage.shows("Queue paused after stop. Send a message to continue, or /drop to clear it")
        await stage.says("/drop 1")
        await stage.shows("1. queued: later 1")
        await stage.says("/drop")
        await stage.hides("queued")


async def test_a_queued_prompt_with_a_joined_emoji_is_shown_as_it_is() -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        prompt = m.QueuedPrompt(id="q", input=[TextInput(text="see \U0001f468\u200d\U0001f469\u200d\U0001f467 now")])
        stage.app.talk.handle_event(QueueChanged(thread_id="", queue=[prompt], held=False))
        stage.app.show_status()
        await stage.shows("1. queued: see \U0001f468\u200d\U0001f469\u200d\U0001f467 now")


# -- sizes


async def test_a_resize_lays_out_the_approval_anew() -> None:
    tool = PlainTool("asking", echo, intent=UseTool(name="asking", arguments={"path": " ".join(["word"] * 30)}))
    async with staged(ScriptedModel([call("asking")], [say("Done.")]), tool, size=(60, 40)) as stage:
        await stage.says("go")
        await stage.asked()

        def panel_words() -> int:
            panel = stage.screen().partition("Allow this")[2]
            return len(re.findall(r"\bword\b", panel))

        for width in (120, 50, 80):
            await stage.pilot.resize_terminal(width, 40)
            await stage.until(lambda: len(stage.row("hames  go")) == width - 1, f"{width} columns")  # noqa: B023
            await stage.until(lambda: panel_words() == 30, f"the whole question in {width} columns")


class ManyModels(OneModel):
    _known = [
        ModelCard(provider="some-provider", model="a-model-with-a-long-name-1", display_name="x", description="Fast"),
        ModelCard(
            provider="some-provider",
            model="a-model-with-a-long-name-0",
            display_name="x",
            description="Before One. " + "It is described at length " * 3,
        ),
        ModelCard(provider="some-provider", model="gone", display_name="x", description="Retired", successor="new"),
    ]

    def find(self, name: str) -> ModelCard:
        return next((card for card in self._known if card.id == name), self._known[0])

    def cards(self) -> Sequence[ModelCard]:
        return self._known


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_a_list_of_models_shows_everything_of_each_in_groups(size: tuple[int, int]) -> None:
    models = ManyModels(ScriptedModel([say("x")]), ManyModels._known[0])
    async with engine(models) as the_engine, staged(the_engine, size=size) as stage:
        await stage.presses("ctrl+l")
        await stage.shows("Current", "Earlier versions", "Retired, or soon to be", "use new instead")
        assert stage.screen().replace("│", " ").split().count("length") == 3
        rows = [row for row in stage.screen().split("\n") if "some-provider/" in row and "│" in row]
        assert ["●" in row for row in rows] == [True, False, False]
        await stage.presses("down", "down", "enter")
        await stage.until(lambda: stage.app.talk.model == "some-provider/gone")


# -- text


def test_columns_of_a_table_are_aligned_as_it_says() -> None:
    text = StreamingMarkdown()
    text.replace("| name | count | middle |\n|:--|--:|:-:|\n| a | 1 | x |\n| b | 1000 | xxxxx |\n")
    rows = [row.plain for row in text.lines(60, DARK_PALETTE)]
    head = next(row for row in rows if "count" in row)
    one, thousand = (next(row for row in rows if row.strip().startswith(name)) for name in "ab")
    assert one.index(" 1 ") + 2 == thousand.index("1000") + 4 == head.index("count") + 5
    assert one.index("x") == thousand.index("xxxxx") + 2
    assert head.index("name") == one.index("a") == thousand.index("b")


def test_a_diff_of_many_files_is_taken_apart() -> None:
    diff = (
        "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+diff --git b\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
        "diff --git a/p q b/p q\nnew file mode 100644\n--- /dev/null\n+++ b/p q\t\n@@ -0,0 +1 @@\n+a\n"
        "diff --git a/bin b/bin\nnew file mode 100644\nBinary files /dev/null and b/bin differ\n"
    )
    found = changed_files(diff)
    assert [(change.path, change.kind) for change in found] == [
        ("x", "modify"),
        ("gone", "delete"),
        ("p q", "add"),
        ("bin", "add"),
    ]
    assert "+diff --git b" in found[0].diff


# -- words


async def test_both_lists_show_the_word_of_the_command_line_beside_the_plain_one() -> None:
    async with staged(ScriptedModel([say("x")]), size=(110, 30)) as stage:
        for command in ("/approvals", "/permissions"):
            await stage.says(command)
            await stage.shows("Ask for risky actions · unlessTrusted", "Ask every time · always", "Never ask · never")
            await stage.presses("escape")
            await stage.hides("Never ask · never")
        await stage.says("/sandbox")
        await stage.shows("read-only · readOnly", "workspace only · workspaceWrite", "NO SANDBOX · dangerFullAccess")


@pytest.mark.parametrize(
    ("roots", "network", "words"),
    [
        ([], False, "workspace only"),
        (["/data/one"], False, "workspace + 1 directory"),
        (["/data/one", "/data/two"], True, "workspace + 2 directories + network"),
    ],
)
async def test_writable_directories_outside_the_workspace_are_counted_and_named(
    roots: list[str], network: bool, words: str
) -> None:
    sandbox = m.WorkspaceWrite(writable_roots=roots, network_access=network)
    async with staged(
        ScriptedModel([say("x")]), size=(120, 40), new_settings=NewThreadSettings(sandbox=sandbox)
    ) as stage:
        await stage.shows(f"Sandbox: {words}")
        await stage.says("/status")
        await stage.until(lambda: all(root in stage.screen() for root in roots), "the directories in /status")
        await stage.shows(f"sandbox    {words}")
        await stage.says("/sandbox")
        await stage.until(lambda: all(root in stage.row("workspaceWrite") for root in roots), "the directories")


async def test_choosing_the_workspace_again_keeps_its_writable_directories() -> None:
    sandbox = m.WorkspaceWrite(writable_roots=["/data/one"])
    async with staged(
        ScriptedModel([say("x")]), size=(120, 40), new_settings=NewThreadSettings(sandbox=sandbox)
    ) as stage:
        await stage.shows("Sandbox: workspace + 1 directory")
        await stage.says("/sandbox workspaceWrite")
        await stage.until(lambda: not stage.app.composer.text)
        assert stage.app.talk.sandbox == sandbox


async def test_a_turn_that_waits_for_an_answer_does_not_say_that_it_works() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("Done.")])
    async with staged(model, ASKING, size=(100, 30)) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.shows("waiting for your answer")
        assert "working" not in stage.screen()
        await stage.presses("y")
        await stage.shows("Done.")
        await stage.hides("waiting for your answer")


@pytest.mark.parametrize("word", ["exit", "quit", ":q", " Exit ", "QUIT"])
async def test_a_bare_exit_leaves(word: str) -> None:
    async with staged(ScriptedModel([say("x")])) as stage:
        await stage.says(word)
        await stage.until(lambda: stage.app._exit, "the end")
        assert not stage.app.talk.thread_id


async def test_a_bare_help_opens_the_help_and_a_sentence_is_a_message() -> None:
    model = ScriptedModel([say("Answered.")])
    async with staged(model, size=(100, 30)) as stage:
        await stage.says("help")
        await stage.shows("shift+enter, ctrl+j")
        await stage.presses("escape")
        await stage.says("help me exit")
        await stage.shows("Answered.")


async def test_status_says_when_a_cost_is_not_known() -> None:
    async with staged(ScriptedModel([say("x"), usage(input_tokens=10, output_tokens=5)]), size=(100, 30)) as stage:
        await stage.says("/status")
        await stage.shows("cost       nothing yet")
        await stage.says("go")
        await stage.until(lambda: stage.app.talk.spent.total, "tokens")
        await stage.says("/status")
        await stage.shows("cost       unknown: no price is known for scripted/test")


def test_new_files_that_are_no_text_are_one_line() -> None:
    diff = "".join(
        f"diff --git a/{name} b/{name}\nnew file mode 100644\nindex 0..1\nBinary files /dev/null and b/{name} differ\n"
        for name in ("pkg/__pycache__/a.cpython-312.pyc", "pkg/__pycache__/b.pyc", "logo.png")
    )
    text = "diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+a\n"
    found = changed_files(diff + text)
    block = WorkspaceChanges(FileChangeItem(id="", changes=found, status="completed"))
    folded = [row.plain.rstrip() for row in block.draw(100, DARK_PALETTE)]
    assert folded[-1] == "± 3 new binary files: pkg/__pycache__/a.cpython-312.pyc, pkg/__pycache__/b.pyc, logo.png"
    assert sum("pyc" in row for row in folded) == 1
    block.open = True
    assert [row.plain.rstrip() for row in block.draw(100, DARK_PALETTE)][-3:] == [
        "  pkg/__pycache__/a.cpython-312.pyc",
        "  pkg/__pycache__/b.pyc",
        "  logo.png",
    ]


@pytest.mark.needs("bwrap", "git")
async def test_diff_says_that_it_reads_until_it_has_read(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("a new line\n")
    pipe = tmp_path / ".gitignore"
    os.mkfifo(pipe)

    def let_git_go_on() -> None:
        with pipe.open("w"):  # git waits until somebody opens it for writing
            pipe.unlink()

    async with staged(ScriptedModel([say("x")]), size=(100, 30), cwd=tmp_path) as stage:
        await stage.says("/diff")
        await stage.shows("Reading the changes")
        await anyio.to_thread.run_sync(let_git_go_on, abandon_on_cancel=True)
        await stage.shows("new.txt new", "a new line")
        await stage.hides("Reading the changes")


@pytest.mark.needs("bwrap", "git")
async def test_diff_says_when_there_is_nothing_to_show(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    async with staged(ScriptedModel([say("x")]), size=(100, 30), cwd=tmp_path) as stage:
        await stage.says("/diff")
        await stage.shows("No uncommitted changes")


async def test_context_shows_what_fills_the_window() -> None:
    async with staged(ScriptedModel([say("Hello.")]), size=(120, 40)) as stage:
        await stage.says("Hi there")
        await stage.shows("Hello.")
        await stage.says("/context")
        await stage.shows("tokens on, the oldest parts are shortened", "user messages (1)", "answers (1)", "tools")
