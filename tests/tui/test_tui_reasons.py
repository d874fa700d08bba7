"""The screen says why: what was refused, failed or skipped, in one line under it."""

from pathlib import Path

import pytest
from stagehand import staged

from flint_support import real_engine
from hames.testing.scripts import ScriptedModel, call, say
from support import ASKING, BROKEN, ECHO

SKIPPED = "skipped: an earlier call of the same reply failed"


async def test_a_failed_tool_shows_its_reason_folded_and_the_calls_after_it_are_skipped() -> None:
    model = ScriptedModel([call("broken", x=1), call("echo", y=2)], [say("I see.")])
    async with staged(model, BROKEN, ECHO) as stage:
        await stage.says("go")
        await stage.shows("I see.", "broken x=1 ✗", "│ the tool failed: ValueError: it broke", "echo y=2 –")
        rows = stage.screen().split("\n")
        assert rows[rows.index(stage.row("broken x=1")) + 1].strip() == "│ the tool failed: ValueError: it broke"
        assert rows[rows.index(stage.row("echo y=2")) + 1].strip() == f"│ {SKIPPED}"


async def test_a_refused_command_and_a_refused_change_show_why(tmp_path: Path) -> None:
    (tmp_path / "ws" / ".git").mkdir(parents=True)
    model = ScriptedModel(
        [call("shell", command="ls", unsandboxed=True, justification="because")],
        [call("write", path=".git/config", content="x")],
        [say("Done.")],
    )
    async with (
        real_engine(model, tmp_path) as the_engine,
        staged(the_engine, size=(100, 40), cwd=tmp_path / "ws") as stage,
    ):
        await stage.presses("shift+tab", "shift+tab")
        await stage.shows("never asks")
        await stage.says("go")
        await stage.shows(
            "Done.",
            "│ Blocked: approvals are off (`never`), so commands can't leave the sandbox",
            "│ protected files change only when a person agrees",
        )


@pytest.mark.parametrize("width", [40, 80])
async def test_a_long_reason_is_one_line_folded_and_whole_unfolded(width: int) -> None:
    model = ScriptedModel([call("echo_" + "x" * 200)], [say("I see.")])
    async with staged(model, ECHO, size=(width, 24)) as stage:
        await stage.says("go")
        await stage.shows("I see.", "there is no tool")
        assert len([row for row in stage.screen().split("\n") if row.strip().startswith("│ there")]) == 1
        await stage.presses("ctrl+o")
        await stage.until(lambda: "the tools are: echo" in " ".join(stage.screen().replace("│", "").split()), "all")


async def test_a_declined_call_shows_what_the_person_said() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("I see.")])
    async with staged(model, ASKING) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.presses("n")
        await stage.shows("I see.", "│ the user declined it")
