"""A conversation that grows too long is shortened in steps. A window that is really full never ends a turn."""

import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from flint_support import talking
from hames.domain.commands import CompactThread
from hames.domain.errors import ProviderError
from hames.domain.events import ContextAdded, ContextTrimmed, ItemCompleted, Noticed
from hames.domain.items import Compaction, ToolCall
from hames.domain.policy import DangerFullAccess
from hames.domain.request import ModelEvent, ModelRequest, UsageSeen
from hames.domain.state import Change, Turn
from hames.domain.usage import Usage
from hames.store.memory import MemoryStore
from hames.testing.fakes.model import ScriptedModel, Step, call, say, usage
from situated_engine import results, situated_engine, size, texts
from support import created, events, turn_end, whole_turn

CHARS_PER_TOKEN = 4


class SmallWindow(ScriptedModel):
    """A model that really refuses what is longer than its window, as services do, and counts its tokens."""

    def __init__(self, *replies: list[Step], window: int) -> None:
        super().__init__(*replies)
        self.window = window
        self.refused = 0
        self.summaries: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if size(request) + len(msgspec.json.encode(request.tools)) > self.window * CHARS_PER_TOKEN:
            self.refused += 1
            raise ProviderError("prompt is too long", status=400, info="ContextWindowExceeded")
        if "Write a summary" in str(request.messages[-1].blocks[-1]):
            self.summaries.append(request)
            async for event in ScriptedModel([say("SUMMARY of what was done.")]).stream(request):
                yield event
            return
        async for event in super().stream(request):
            yield UsageSeen(usage=Usage(input_tokens=size(request) // 4)) if isinstance(event, UsageSeen) else event


def ended(changes: list[Change]) -> Turn:
    return changes[-1].after.turns[-1]


def fill(folder: Path, files: int, chars: int) -> list[str]:
    names = [f"file{number}.txt" for number in range(files)]
    for number, name in enumerate(names):
        (folder / name).write_text(f"This is file {number}.\n" + "0123456789 abcdefg\n" * (chars // 19))
    return names


async def test_old_results_are_cleared_first_and_the_latest_stay(tmp_path: Path) -> None:
    names = fill(tmp_path, 24, 4_000)
    model = SmallWindow(*([call("read", path=name)] for name in names), [say("Done.")], window=100_000)
    async with situated_engine(model, tmp_path, compact_at=20_000) as engine:
        changes = await whole_turn(engine, (await created(engine)).id, "Read them all.")
    model.assert_finished()
    assert (ended(changes).status, model.refused, model.summaries) == ("completed", 0, [])
    shown = results(model.requests[-1])
    assert "characters cleared to save space" in shown[0]
    assert shown[0].startswith("     1\tThis is file 0.")
    assert "cleared" not in shown[-1]
    assert any(isinstance(event, ContextTrimmed) for event in events(changes))
    (notice,) = [event for event in events(changes) if isinstance(event, Noticed)][:1]
    assert (notice.source, notice.name) == ("hames", "context_trimmed")
    assert "tool results" in notice.message
    kept = [item.result.text for item in ended(changes).items if getattr(item, "result", None)]
    assert all("cleared" not in text for text in kept), "the log has all of it"


async def test_the_model_is_told_once_before_its_context_is_shortened(tmp_path: Path) -> None:
    names = fill(tmp_path, 40, 4_000)
    model = SmallWindow(*([call("read", path=name)] for name in names), [say("Done.")], window=100_000)
    async with situated_engine(model, tmp_path, compact_at=20_000) as engine:
        changes = await whole_turn(engine, (await created(engine)).id, "Read them all.")
    model.assert_finished()
    order: list[str] = []
    for event in events(changes):
        match event:
            case ContextAdded(text=text) if "put it into your plan" in text:
                order.append("told")
            case ContextTrimmed() | ItemCompleted(item=Compaction()):
                order.append("shortened")
            case _:
                pass
    assert order[:4] == ["told", "shortened", "told", "shortened"]
    assert order == ["told", "shortened"] * (len(order) // 2) + ["told"] * (len(order) % 2)


async def test_a_short_conversation_is_told_nothing_about_its_length(tmp_path: Path) -> None:
    names = fill(tmp_path, 10, 4_000)
    model = SmallWindow(*([call("read", path=name)] for name in names), [say("Done.")], window=100_000)
    async with situated_engine(model, tmp_path, compact_at=20_000) as engine:
        await whole_turn(engine, (await created(engine)).id, "Read them.")
    assert not any("put it into your plan" in text for text in texts(model.requests[-1]))


async def test_a_dozen_reads_in_one_reply_that_fill_the_window_do_not_end_the_turn(tmp_path: Path) -> None:
    names = fill(tmp_path, 12, 20_000)
    model = SmallWindow([call("read", path=name) for name in names], [say("Done.")], window=30_000)
    async with situated_engine(model, tmp_path, window=30_000) as engine:
        changes = await whole_turn(engine, (await created(engine)).id, "Read them all.")
    model.assert_finished()
    assert ended(changes).status == "completed"


@pytest.mark.parametrize("real", [60_000, 30_000, 12_000, 7_000])
async def test_a_window_that_is_smaller_than_anybody_knew_does_not_end_the_turn(tmp_path: Path, real: int) -> None:
    """The service refuses what the card of the model allows; the summary would not fit either."""
    names = fill(tmp_path, 30, 15_000)
    model = SmallWindow(*([call("read", path=name)] for name in names), [say("Done.")], window=real)
    async with situated_engine(model, tmp_path, window=1_000_000) as engine:
        changes = await whole_turn(engine, (await created(engine)).id, "Read them all, please.")
    model.assert_finished()
    assert ended(changes).status == "completed"
    assert "Read them all, please." in texts(model.requests[-1])


async def test_a_prompt_that_is_longer_than_the_window_is_cut_and_answered(tmp_path: Path) -> None:
    model = SmallWindow([say("Done.")], window=8_000)
    async with situated_engine(model, tmp_path, window=200_000) as engine:
        changes = await whole_turn(engine, (await created(engine)).id, "BEGIN " + "word " * 20_000 + " END")
    assert ended(changes).status == "completed"
    shown = texts(model.requests[-1])[-1]
    assert shown.startswith("BEGIN")
    assert shown.endswith("END")
    assert "left out" in shown


async def test_large_arguments_and_answers_do_not_end_the_turn_either(tmp_path: Path) -> None:
    long = [[say("answer " * 4_000), call("write", path=f"f{n}.md", content="line\n" * 6_000)] for n in range(8)]
    model = SmallWindow(*long, [say("Done.")], window=24_000)
    async with situated_engine(model, tmp_path, window=200_000) as engine:
        changes = await whole_turn(engine, (await created(engine)).id)
    model.assert_finished()
    assert ended(changes).status == "completed"


async def test_what_the_user_said_the_plan_and_the_diffs_outlive_every_summary(tmp_path: Path) -> None:
    (tmp_path / "cart.py").write_text("total = 1\n")
    plan = [{"step": "Look closely", "status": "completed"}, {"step": "Leap far", "status": "pending"}]
    filler = fill(tmp_path, 1, 60_000)[0]
    reads = [call("read", path=filler, offset=1, limit=500)]
    model = SmallWindow(
        [call("plan", entries=plan), call("edit", path="cart.py", old_string="total = 1", new_string="total = 2")],
        [say("Which colour do you want?")],
        [say("Is that all?")],
        [say("I said all.")],
        *(reads for _ in range(20)),
        [say("Done.")],
        window=40_000,
    )
    async with situated_engine(model, tmp_path, window=40_000, compact_at=14_000) as engine:
        thread = await created(engine)
        await whole_turn(engine, thread.id, "Change the cart, and mind the EXACT words.")
        changes = await whole_turn(engine, thread.id, "Blue, with 3 % more.")
    assert ended(changes).status == "completed"
    assert len(model.summaries) >= 1
    shown = "\n".join(texts(model.requests[-1]))
    for words in (
        "SUMMARY of what was done.",
        "Change the cart, and mind the EXACT words.",
        "Blue, with 3 % more.",
        "Leap far (pending)",
        "-total = 1\n+total = 2",
        "I said all.",
        "<situation>",
    ):
        assert words in shown


async def test_after_a_summary_the_count_of_the_summary_itself_does_not_ask_for_another(tmp_path: Path) -> None:
    model = ScriptedModel(
        [call("list"), usage(input_tokens=190_000)],
        [say("Short."), usage(input_tokens=190_500)],
        [call("list")],
        [say("Done.")],
    )
    async with situated_engine(model, tmp_path) as engine:
        changes = await whole_turn(engine, (await created(engine)).id)
    model.assert_finished()
    assert sum(isinstance(item, Compaction) for item in ended(changes).items) == 1


@pytest.mark.parametrize(("window", "limit"), [(32_000, 25_600), (200_000, 160_000), (1_000_000, 300_000)])
async def test_when_room_is_made_suits_the_model(tmp_path: Path, window: int, limit: int) -> None:
    for tokens, summaries in ((limit - 300, 0), (limit + 300, 1)):
        replies = [[call("list"), usage(input_tokens=tokens)], [say("Short.")], [say("Done.")]]
        model = ScriptedModel(*(replies if summaries else [replies[0], replies[2]]))
        async with situated_engine(model, tmp_path, window=window) as engine:
            changes = await whole_turn(engine, (await created(engine)).id)
        model.assert_finished()
        assert sum(isinstance(item, Compaction) for item in ended(changes).items) == summaries


async def test_a_request_never_asks_for_more_than_the_window_has_left(tmp_path: Path) -> None:
    model = ScriptedModel([call("list"), usage(input_tokens=150_000)], [say("Done.")])
    async with situated_engine(model, tmp_path) as engine:
        thread = await created(engine)
        await whole_turn(engine, thread.id)
    assert model.requests[0].max_tokens == 32_000
    assert 150_000 + model.requests[1].max_tokens <= 200_000


async def test_a_service_that_refuses_everything_ends_the_turn_with_its_own_words(tmp_path: Path) -> None:
    model = SmallWindow(window=10)
    async with situated_engine(model, tmp_path) as engine:
        changes = await whole_turn(engine, (await created(engine)).id)
    error = ended(changes).error
    assert error is not None
    assert (error.info, error.message) == ("ContextWindowExceeded", "prompt is too long")
    assert model.refused < 20


async def test_a_client_is_told_what_fills_the_window(tmp_path: Path) -> None:
    names = fill(tmp_path, 24, 4_000)
    model = SmallWindow(*([call("read", path=name)] for name in names), [say("Done.")], window=100_000)
    async with situated_engine(model, tmp_path, compact_at=20_000) as engine, talking(engine) as talk:
        thread_id = await talk.start()
        await talk.prompt(thread_id)
        found = await talk.call("thread/context/read", threadId=thread_id)
    assert (found["limit"], found["window"]) == (20_000, 200_000)
    parts = {part["name"]: part for part in found["parts"]}
    assert {"instructions", "tools", "situation and notes", "user messages", "tool calls", "tool results"} <= set(parts)
    assert parts["tool results"]["count"] == 24
    assert sum(part["tokens"] for part in found["parts"]) == pytest.approx(found["tokens"], rel=0.3)
    assert found["shortened"] == ["old tool results but the last 5"]


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
async def test_a_cleared_result_can_be_read_again_without_calling_the_tool_again(
    tmp_path: Path, *, restarted: bool
) -> None:
    names, store = fill(tmp_path, 24, 4_000), MemoryStore()
    model = SmallWindow(*([call("read", path=name)] for name in names), [say("Done.")], window=100_000)
    async with AsyncExitStack() as engines:
        engine = await engines.enter_async_context(situated_engine(model, tmp_path, store=store, compact_at=20_000))
        thread = (await created(engine)).id
        await whole_turn(engine, thread, "Read them all.")
        (tmp_path / names[0]).unlink()  # so that only the log has it
        [path] = re.findall(r"all of it can be read with the path (result:\S+) ", results(model.requests[-1])[0])
        if restarted:
            await engines.aclose()
            engine = await engines.enter_async_context(situated_engine(model, tmp_path, store=store, compact_at=20_000))
        model.add(
            [call("read", path=path, offset=3, limit=2)],
            [call("Read", file_path=f"{tmp_path}/{path}")],
            [call("read", path="result:item_unknown")],
            [say("Done.")],
        )
        await whole_turn(engine, thread, "Read the first again.")
    model.assert_finished()
    page, whole, unknown = results(model.requests[-1])[-3:]
    assert page.startswith("     3\t     3\t0123456789 abcdefg\n")
    assert page.endswith("[lines 3 to 4 of 211; go on with offset 5; no newline at the end of the file]")
    assert "This is file 0." in whole
    assert whole.count("0123456789") == 210
    assert "no file" in unknown


async def test_results_of_another_thread_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine\n")
    model = ScriptedModel([call("read", path="a.txt")], [say("Done.")])
    async with situated_engine(model, tmp_path) as engine:
        changes = await whole_turn(engine, (await created(engine)).id)
        [item] = [item for item in ended(changes).items if isinstance(item, ToolCall)]
        model.add([call("read", path=f"result:{item.id}")], [say("Done.")])
        await whole_turn(engine, (await created(engine)).id)
    assert "no file" in results(model.requests[-1])[-1]


async def test_after_a_summary_long_results_of_commands_can_be_read_again(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("word\n" * 1_000)
    model = ScriptedModel(
        [call("shell", command="seq 1000   2000")],
        [call("shell", command="true")],
        [call("read", path="notes.txt")],
        [say("Done.")],
        [say("SUMMARY.")],
    )
    async with situated_engine(model, tmp_path, sandbox=DangerFullAccess()) as engine:
        thread = (await created(engine)).id
        await whole_turn(engine, thread, "Count.")
        watcher = await engine.watch(thread)
        await engine.execute(CompactThread(thread_id=thread))
        await turn_end(watcher)
        model.add([say("Hm.")])
        await whole_turn(engine, thread, "And now?")
        [summary] = [text for text in texts(model.requests[-1]) if "SUMMARY." in text]
        [(path, what)] = re.findall(r"^(result:\S+): (.*)$", summary, flags=re.MULTILINE)
        assert re.fullmatch(r"seq 1000 2000 \(\d,\d{3} characters\)", what)
        model.add([call("read", path=path, offset=501, limit=1)], [say("Done.")])
        await whole_turn(engine, thread, "Look again.")
    model.assert_finished()
    assert results(model.requests[-1])[-1].startswith("   501\t1500\n")
