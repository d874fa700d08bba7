"""Threads, models and terms: everything the server offers is a choice on the screen."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from stagehand import Stage, shape, staged
from textual.widgets import Input

from flint_support import SELECTORS, wired
from hames.client.appserver.client import AppServerClient
from hames.core.engine import Engine
from hames.protocols.flint import messages as m
from hames.store.memory import MemoryStore
from hames.testing.fakes.clock import CountingIds
from hames.testing.fakes.model import OneModel, ScriptedModel, call, hang, say
from hames.tui.pickers import Help, Line, Picker
from hames.tui.session import NewThreadSettings
from support import copied, created, engine, question, started


@asynccontextmanager
async def an_engine(*replies: str) -> AsyncGenerator[Engine]:
    model = ScriptedModel(*([say(reply)] for reply in replies))
    async with engine(OneModel(model, selectors=SELECTORS)) as the_engine:
        yield the_engine


async def spoken(the_engine: Engine, *prompts: str) -> list[str]:
    """Threads with one turn each."""
    made: list[str] = []
    async with wired(the_engine) as wire, AppServerClient.connect(wire) as client:
        for prompt in prompts:
            thread = (await client.start_thread()).thread
            with anyio.fail_after(60):
                await client.run(thread.id, prompt)
            made.append(thread.id)
    return made


async def picker(stage: Stage) -> None:
    await stage.until(lambda: isinstance(stage.app.screen, Picker | Line | Help), "a list")


async def test_no_thread_is_made_before_something_is_said() -> None:
    async with an_engine("x") as the_engine:
        async with staged(the_engine):
            pass
        async with wired(the_engine) as wire, AppServerClient.connect(wire) as client:
            assert (await client.list_threads()).data == []


async def test_a_thread_is_found_by_search_and_goes_on() -> None:
    async with an_engine("about carts", "about boats", "still boats") as the_engine:
        await spoken(the_engine, "tell me of carts", "tell me of boats")
        async with staged(the_engine) as stage:
            await stage.presses("ctrl+t")
            await picker(stage)
            await stage.shows("tell me of carts", "tell me of boats")
            await stage.presses(*"boats")
            await stage.hides("tell me of carts")
            await stage.presses("enter")
            await stage.shows("› tell me of boats", "about boats")
            await stage.says("and now?")
            await stage.shows("still boats")


async def test_threads_are_renamed_forked_and_archived_from_the_list() -> None:
    async with an_engine("the answer", "in the fork") as the_engine:
        (first,) = await spoken(the_engine, "the question")
        async with staged(the_engine) as stage:
            await stage.presses("ctrl+t")
            await picker(stage)
            await stage.presses("ctrl+e")
            await stage.until(lambda: isinstance(stage.app.screen, Line))
            stage.app.screen.query_one(Input).value = "My name"
            await stage.presses("enter")
            await stage.shows("My name")
            await stage.presses("ctrl+f")
            await stage.shows("the answer")
            assert stage.app.talk.thread_id not in ("", first)
            await stage.says("/archive")
            await stage.shows("Archived.")
        async with wired(the_engine) as wire, AppServerClient.connect(wire) as client:
            assert [thread.id for thread in (await client.list_threads()).data] == [first]
            assert len((await client.list_threads(archived=True)).data) == 1


async def test_a_running_thread_is_joined_in_the_middle() -> None:
    gate = anyio.Event()
    from hames.testing.fakes.model import wait_for

    model = ScriptedModel([say("Half of it. "), wait_for(gate), say("The rest.")])
    async with engine(model) as the_engine, wired(the_engine) as wire, AppServerClient.connect(wire) as client:
        thread = (await client.start_thread()).thread
        await client.start_turn(thread.id, "go")
        async with staged(the_engine, resume="last") as stage:
            await stage.shows("Half of it.", "working")
            gate.set()
            await stage.shows("The rest.")
            await stage.hides("working")


@pytest.mark.spec("flint/plan-tui-selectors", "flint/config-rendered-alike")
async def test_every_selector_of_the_server_is_a_list_and_reaches_the_next_turn() -> None:
    async with an_engine("ok", "ok") as the_engine, staged(the_engine, size=(100, 30)) as stage:
        await stage.presses("ctrl+g")
        await picker(stage)
        await stage.shows("Reasoning effort", "Low", "Temperature", "0.7")
        await stage.presses("enter")
        await stage.shows("High", "Slower")
        await stage.presses("down", "enter")
        await stage.shows("Reasoning effort", "High ·")
        await stage.presses("escape")
        await stage.until(lambda: stage.app.is_screen_top)
        await stage.says("go")
        await stage.shows("ok")
        async with wired(the_engine) as wire, AppServerClient.connect(wire) as client:
            options = await client.config_options(stage.app.talk.thread_id)
            assert {option.id: option.value for option in options}["reasoning_effort"] == "high"
            await stage.presses("ctrl+g")
            await picker(stage)
            await stage.presses("enter")
            await stage.shows("Slower")
            await stage.presses("up", "enter")
            await stage.shows("Low ·")
            options = await client.config_options(stage.app.talk.thread_id)
            assert {option.id: option.value for option in options}["reasoning_effort"] == "low"


async def test_policy_sandbox_and_model_are_shown_and_switched() -> None:
    async with an_engine("ok") as the_engine, staged(the_engine, size=(100, 30)) as stage:
        await stage.shows("scripted/test · Mode: ask (ask for risky actions) · Sandbox: workspace only")
        await stage.presses("shift+tab")
        await stage.shows("Mode: auto")
        await stage.says("/sandbox dangerFullAccess")
        await stage.shows("NO SANDBOX")
        await stage.says("go")
        await stage.shows("ok")
        await stage.says("/sandbox readOnly")
        await stage.shows("read-only")
        await stage.presses("ctrl+l")
        await picker(stage)
        await stage.shows("● scripted/test")
        await stage.presses("escape")
        async with wired(the_engine) as wire, AppServerClient.connect(wire) as client:
            config = await client.read_config(stage.app.talk.thread_id)
        assert config.approval_mode == "onRequest"
        assert type(config.sandbox_policy).__name__ == "ReadOnly"


async def test_terms_of_the_command_line_hold_for_new_threads_and_for_one_that_goes_on() -> None:
    new_settings = NewThreadSettings(policy="never", sandbox=m.ReadOnly())
    async with an_engine("Answered.", "Again.") as the_engine:
        async with staged(the_engine, new_settings=new_settings) as stage:
            await stage.shows("never ask", "read-only")
            await stage.says("go")
            await stage.shows("Answered.")
            thread_id = stage.app.talk.thread_id
        async with staged(the_engine, resume=thread_id, new_settings=NewThreadSettings(policy="always")) as stage:
            await stage.shows("ask every time · read-only")
            async with wired(the_engine) as wire, AppServerClient.connect(wire) as client:
                config = await client.read_config(thread_id)
            assert (config.approval_policy, config.sandbox_policy) == ("always", m.ReadOnly())


async def test_help_lists_keys_and_commands_and_an_unknown_command_is_refused() -> None:
    async with staged(ScriptedModel([say("x")]), size=(100, 60)) as stage:
        await stage.presses("f1")
        await stage.shows("shift+enter, ctrl+j", "/threads", "/sandbox")
        await stage.presses("escape")
        await stage.says("/frobnicate")
        await stage.shows("Unknown command /frobnicate")


async def test_control_c_stops_and_asks_before_it_leaves() -> None:
    async with staged(ScriptedModel([say("x"), hang()])) as stage:
        await stage.says("go")
        await stage.shows("working")
        await stage.presses("ctrl+c")
        await stage.shows("■ interrupted")
        stage.app.composer.put("half a thought")
        await stage.presses("ctrl+c")
        assert stage.app.composer.text == ""
        await stage.presses("ctrl+c")
        assert stage.app.is_running
        await stage.presses("ctrl+c")
        await stage.until(lambda: stage.app._exit)


async def test_selected_text_is_copied() -> None:
    async with staged(ScriptedModel([say("copy me please")])) as stage:
        await stage.says("go")
        await stage.shows("copy me please")
        rows = stage.screen().split("\n")
        y = next(number for number, row in enumerate(rows) if "copy me please" in row)
        x = rows[y].index("copy")
        await stage.pilot.mouse_down(offset=(x, y))
        await stage.pilot.hover(offset=(x + 7, y))
        await stage.pilot.mouse_up(offset=(x + 7, y))
        await stage.presses("ctrl+c")
        assert stage.app.clipboard == "copy me"


@pytest.mark.parametrize("dark", [True, False])
async def test_the_screen_is_a_picture_at_eighty_by_twentyfour(dark: bool) -> None:
    async with staged(ScriptedModel([say("**Hello.** I am here.")]), dark=dark) as stage:
        await stage.says("hi")
        await stage.shows("I am here.")
        await stage.until(lambda: not stage.app.talk.running)
        svg = stage.app.export_screenshot(title="hames")
        rows = shape(svg)
        assert len(rows) <= 24 + 1
        text = "\n".join(rows)
        assert re.search(r"›\s+hi", text)
        assert "Hello. I am here." in text
        assert "ask for risky actions" in text
        assert "workspace only" in text
        background = "#12141a" if dark else "#fbfbf9"
        assert background in svg.lower()


async def test_without_colour_everything_is_still_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with staged(ScriptedModel([say("plain")])) as stage:
        await stage.says("hi")
        await stage.shows("› hi", "plain", "ask for risky actions", "workspace only")
        svg = stage.app.export_screenshot()
        frame = {"#c5c8c6"}  # of the picture itself
        colours = set(re.findall(r"fill: (#[0-9a-f]{6})", svg.lower())) - frame
        assert all(colour[1:3] == colour[3:5] == colour[5:7] for colour in colours), colours


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/login", "hames login"),
        pytest.param("/logout", "hames login PROVIDER --remove", marks=pytest.mark.slow),
        ("/add-dir ../other", "writableRoots"),
        ("/cost", "nothing yet"),
        pytest.param("/usage", "nothing yet", marks=pytest.mark.slow),
        pytest.param("/memory", "AGENTS.md", marks=pytest.mark.slow),
        pytest.param("/config", "hames config", marks=pytest.mark.slow),
        pytest.param("/doctor", "hames doctor", marks=pytest.mark.slow),
        pytest.param("/hooks", "no hooks", marks=pytest.mark.slow),
        pytest.param("/agents", "no subagents", marks=pytest.mark.slow),
        ("/vim", "ctrl+x ctrl+e"),
        pytest.param("/sessions", "Threads", marks=pytest.mark.slow),
        ("/mention", "@"),
    ],
)
async def test_a_command_of_another_tool_works_or_gets_a_pointer(command: str, words: str) -> None:
    async with an_engine("ok") as the_engine, staged(the_engine, size=(100, 30)) as stage:
        await stage.says(command)
        await stage.shows(words)
        assert "Unknown command" not in stage.screen()
        assert "Did you mean" not in stage.screen()


async def test_an_unknown_command_is_not_taken_for_a_far_one() -> None:
    async with an_engine("ok") as the_engine, staged(the_engine, size=(100, 30)) as stage:
        await stage.says("/dctor")
        await stage.shows("Unknown command /dctor")
        assert "editor" not in stage.screen()


async def test_a_turn_that_was_cut_off_goes_on_and_its_question_is_asked_again() -> None:
    store = MemoryStore()
    models = OneModel(ScriptedModel([call("asking")]), selectors=SELECTORS)
    async with engine(models, store=store) as first:
        thread = await created(first)
        watcher = await first.watch(thread.id)
        await started(first, thread.id)
        await question(watcher)
        left = copied(store)
    models = OneModel(ScriptedModel([say("All done.")]), selectors=SELECTORS)
    async with (
        engine(models, store=left, ids=CountingIds(1000)) as again,
        staged(again, resume=thread.id, size=(100, 30)) as stage,
    ):
        await stage.shows("Hames stopped while this turn ran. The turn continues")
        await stage.asked()
        await stage.shows("days ago)")  # the clock of the test is an old one
        await stage.presses("y")
        await stage.shows("All done.")
