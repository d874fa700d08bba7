"""The screen says why: what was refused, failed or skipped, under it and to the end."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from stagehand import staged

from flint_support import real_engine
from hames.domain.servers import ServerStatus
from hames.ports import Place, Report, Tool
from hames.testing.fakes.model import ScriptedModel, call, say
from hames.tools.project_notes import WorkspaceNotes
from hames.tui.modes import POLICIES
from reason_rows import ROWS
from support import ASKING, BROKEN, ECHO, engine

SKIPPED = "skipped: an earlier call of the same reply failed"


@pytest.mark.parametrize("row", ROWS)
async def test_a_reason_is_on_the_screen_without_unfolding_anything(row: str) -> None:
    make, words = ROWS[row]
    async with make() as made, staged(made, size=(80, 40)) as stage:
        await stage.says("go")
        await stage.until(lambda: " ".join(words.split()) in " ".join(stage.screen().replace("│", " ").split()), words)


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
        await stage.says("/approvals never")
        await stage.shows(POLICIES["never"].lower())
        await stage.says("go")
        await stage.shows(
            "Done.",
            "│ Blocked: approvals are off (`never`), so commands can't leave the sandbox",
            "│ this file is protected: changing it needs a person's approval",
        )


@pytest.mark.parametrize("width", [40, 80, 150])
async def test_a_sentence_that_says_why_is_whole_without_unfolding_anything(width: int) -> None:
    model = ScriptedModel([call("echo_" + "x" * 200)], [say("I see.")])
    async with staged(model, ECHO, size=(width, 24)) as stage:
        await stage.says("go")
        await stage.until(lambda: "the tools are: echo" in " ".join(stage.screen().replace("│", "").split()), "all")
        assert "more lines" not in stage.screen()


async def test_what_a_tool_says_at_length_has_its_first_lines_until_it_is_unfolded() -> None:
    model = ScriptedModel([call("echo_" + "word " * 300)], [say("I see.")])
    async with staged(model, ECHO, size=(80, 60)) as stage:
        await stage.says("go")
        await stage.shows("I see.", "there is no tool", "more lines (click, or ctrl+o for all)")
        assert len([row for row in stage.screen().split("\n") if row.strip().startswith("│") and "word" in row]) == 10
        await stage.presses("ctrl+o")
        await stage.until(lambda: "the tools are: echo" in " ".join(stage.screen().replace("│", "").split()), "all")


async def test_a_declined_call_shows_what_the_person_said() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("I see.")])
    async with staged(model, ASKING) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.presses("n")
        await stage.shows("I see.", "│ the user declined it")


async def test_a_warning_is_on_the_screen_from_the_start_and_not_repeated_by_the_thread() -> None:
    words = "hames.toml is ignored because this project is not trusted. Run `hames trust`"
    async with engine(ScriptedModel([say("Done.")])) as made:
        made._threads.rules = replace(made.rules, warnings=(words,))
        async with staged(made, size=(100, 30), warnings=(words,)) as stage:
            await stage.shows(f"! {words}")
            await stage.says("go")
            await stage.shows("Done.")
            assert stage.screen().count(words) == 1


async def test_threads_that_can_be_restored_are_told_of_at_the_start() -> None:
    words = "2 threads were deleted with their directory and can be brought back: hames threads restore"
    async with staged(ScriptedModel([say("Done.")]), size=(110, 30), notice=lambda: words) as stage:
        await stage.shows(f"! {words}")


async def test_a_server_that_failed_is_a_warning_in_the_transcript() -> None:
    failed = ServerStatus(name="files", state="failed", reason="program not found: '/nonexistent'")
    async with engine(ScriptedModel([say("Done.")])) as made:
        made._turns._loop.tools = Reporting(failed)
        async with staged(made, size=(120, 30)) as stage:
            await stage.says("go")
            await stage.shows("Done.", "! MCP server 'files' is not available: program not found: '/nonexistent'.")


async def test_status_lists_the_project_notes(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "AGENTS.md").write_text("Use tabs.")
    async with engine(ScriptedModel([say("Done.")]), cwd=tmp_path / "ws") as made:
        made._threads._notes = WorkspaceNotes(None)
        async with staged(made, size=(160, 30), cwd=tmp_path / "ws") as stage:
            await stage.says("/status")
            await stage.shows("notes      read with the first prompt")
            await stage.says("go")
            await stage.shows("Done.")
            await stage.says("/status")
            await stage.shows(f"notes      {tmp_path / 'ws' / 'AGENTS.md'}")


async def test_status_says_which_files_of_another_agent_are_not_read(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    async with staged(ScriptedModel([say("Done.")]), size=(200, 30), cwd=tmp_path) as stage:
        await stage.says("go")
        await stage.shows("Done.")
        assert ".claude" not in stage.screen()
        await stage.says("/status")
        await stage.shows("unread     .claude/ is not read", "CLAUDE.md where there is no AGENTS.md")


class Reporting:
    """Tools that report a server when they are opened."""

    def __init__(self, status: ServerStatus) -> None:
        self.status = status

    @asynccontextmanager
    async def open(self, place: Place, report: Report) -> AsyncGenerator[Sequence[Tool]]:
        await report(self.status)
        yield []
