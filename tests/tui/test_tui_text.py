"""Words on their way to the screen: colours of commands, markdown that grows, diffs, and nothing that commands."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from hames.client.appserver.events import ApprovalAsked, UsageUpdated
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.tui.ansi import Output, only_colours
from hames.tui.approval import request_lines
from hames.tui.blocks import by_item
from hames.tui.blocks.block import Block
from hames.tui.completing import inputs, pasted_picture, rank_matches, word_to_complete
from hames.tui.conversation import Conversation
from hames.tui.diffs import count_changes, diff_lines
from hames.tui.lines import CONSOLE
from hames.tui.markdown import StreamingMarkdown
from hames.tui.palette import DARK, is_dark, palette
from hames.tui.status import status_line

DARK_PALETTE = palette(DARK.to_color_system().generate(), dark=True)
NASTY = [
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[H",
    "\x1bP1;2|dcs\x1b\\",
    "\x9b31m",
    "\x9d52;c;x\x9c",
    "\x1b[8mhidden\x1b[0m",
    "\x1b[6n",
    "\u202egnp",
    "\r\x1b[K",
    "\x08\x08\x7f",
]
nasty = st.lists(st.sampled_from([*NASTY, "plain ", "`code`", "\n", "# ", "- ", "[x](http://y)"]), max_size=12).map(
    "".join
)
SGR = re.compile(r"\x1b\[[0-9;]*m")


def drawn(rows: list[Text]) -> str:
    """What a terminal would get."""
    return "".join(
        part.style.render(part.text) if part.style else part.text for row in rows for part in row.render(CONSOLE)
    )


def items(text: str) -> list[wire.ThreadItem]:
    change = wire.FileUpdateChange(path=f"/w/{text}", kind="modify", diff=f"@@ -1 +1 @@\n-{text}\n+b")
    return [
        wire.UserMessageItem(id="1", content=[wire.TextInput(text=text)]),
        wire.AgentMessageItem(id="2", text=text),
        wire.ReasoningItem(id="3", content=text),
        wire.CommandExecutionItem(id="4", command=text, cwd=text, status="completed", aggregated_output=text),
        wire.FileChangeItem(id="5", changes=[change], status="completed"),
        wire.ToolCallItem(id="6", name=text, status="completed", arguments={"a": text}, result=text),
        wire.McpToolCallItem(id="7", server=text, tool=text, status="failed", error=text),
        wire.WebSearchItem(id="8", query=text),
        wire.PlanItem(id="9", text=text, entries=[wire.PlanEntry(step=text, status="pending")]),
        wire.ArtifactItem(id="10", path=text, status="completed", title=text),
        wire.ContextCompactionItem(id="11", status="completed", summary=text),
        wire.UnknownItem(id="12", kind=text, members={"text": text, "type": text}),
    ]


def assert_harmless(block: Block) -> None:
    shown = SGR.sub("", drawn(block.draw(60, DARK_PALETTE)))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown), (type(block), shown)


@given(nasty)
def test_no_question_hides_anything(text: str) -> None:
    change = wire.FileUpdateChange(path=text, kind="add", diff=f"@@ -0 +1 @@\n+{text}")
    ids = {"thread_id": "t", "turn_id": "u", "item_id": "i"}
    for params in (
        m.CommandApprovalParams(command=text, cwd=text, **ids),
        m.CommandApprovalParams(command=text, cwd=text, host=text, **ids),
        m.FileChangeApprovalParams(changes=[change], **ids),
        m.McpApprovalParams(server=text, tool=text, arguments={"a": text}, **ids),
        m.ToolApprovalParams(name=text, arguments=text, **ids),
        m.ElicitationParams(server_name=text, mode="url", message=text, url=f"https://{text}", **ids),
        m.ElicitationParams(
            server_name=text,
            mode="form",
            message=text,
            requested_schema={"properties": {text: {"enum": [text]}}},
            **ids,
        ),
    ):
        asked = ApprovalAsked(request_id="r", thread_id="t", method="x", params=params)
        shown = SGR.sub("", drawn(request_lines(asked, 60, DARK_PALETTE)))
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown), (type(params), shown)


@given(nasty)
def test_nothing_but_colours_reaches_the_terminal_from_any_item(text: str) -> None:
    for item in items(text):
        for open_ in (False, True):
            block = by_item.block_of(item)
            block.open = open_
            block.add(text)
            assert_harmless(block)
            block.finish(item)
            assert_harmless(block)


@given(nasty, st.data())
def test_markdown_that_grows_ends_as_markdown_that_came_whole(text: str, data: st.DataObject) -> None:
    text = "".join(character for character in text if character.isprintable() or character == "\n")
    grown, whole, rest = StreamingMarkdown(), StreamingMarkdown(), text
    while rest:
        cut = data.draw(st.integers(1, len(rest)))
        grown.add(rest[:cut])
        grown.lines(40, DARK_PALETTE)
        rest = rest[cut:]
    whole.replace(text)
    plain = [row.plain.rstrip() for row in grown.lines(40, DARK_PALETTE)]
    assert [row for row in plain if row] == [
        row.plain.rstrip() for row in whole.lines(40, DARK_PALETTE) if row.plain.strip()
    ]


@given(st.text(alphabet="ab \x1b[]0;31m\x07\n\r", max_size=60), st.data())
def test_output_does_not_care_how_it_was_cut(text: str, data: st.DataObject) -> None:
    pieces, whole, rest = Output(), Output(), text + "\n"
    whole.feed(rest)
    while rest:
        cut = data.draw(st.integers(1, len(rest)))
        pieces.feed(rest[:cut])
        rest = rest[cut:]
    assert [row.plain for row in pieces.lines] == [row.plain for row in whole.lines]


def test_another_width_wraps_again() -> None:
    text = StreamingMarkdown()
    text.replace("one two three four five six\n\nseven")
    assert len(text.lines(60, DARK_PALETTE)) == 3
    assert [row.plain for row in text.lines(12, DARK_PALETTE)] == ["one two ", "three four ", "five six", "", "seven"]


def test_colours_of_a_command_survive_and_hiding_does_not() -> None:
    assert only_colours("\x1b[1;32mok\x1b[0m") == "\x1b[1;32mok\x1b[0m"
    assert only_colours("\x1b[38;5;8mgrey\x1b[0m") == "\x1b[38;5;8mgrey\x1b[0m"
    assert only_colours("\x1b[8mhidden") == "hidden"
    output = Output()
    output.feed("\x1b[31mred\x1b[0m plain\n")
    (row,) = output.lines
    assert row.plain == "red plain"
    assert row.spans[0].style.color.number == 1


def test_a_progress_bar_shows_its_last_state() -> None:
    output = Output()
    output.feed("10%\r50%\r100%\r\nnext")
    assert [row.plain for row in output.lines] == ["100%"]
    assert output.tail.plain == "next"


def test_a_diff_has_line_numbers_and_no_header() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -9,2 +9,3 @@ def f\n same\n--- old\n+new\n+more\n"
    assert count_changes(diff) == (2, 1)
    assert [row.plain.rstrip() for row in diff_lines(diff, 40, DARK_PALETTE)] == [
        "   9   same",
        "  10 - -- old",
        "  10 + new",
        "  11 + more",
    ]


def test_a_link_shows_where_it_leads_and_is_no_sequence() -> None:
    text = StreamingMarkdown()
    text.replace("See [the docs](https://evil.example/x).")
    rows = text.lines(60, DARK_PALETTE)
    assert rows[0].plain == "See the docs (https://evil.example/x)."
    assert "\x1b]8" not in drawn(rows)


@pytest.mark.parametrize(
    ("text", "kind"), [("/mo", "command"), ("see @src/a", "file"), ("@", "file"), ("mail a@b", None), ("/a/b", None)]
)
def test_a_word_is_completed_where_it_can_be(text: str, kind: str | None) -> None:
    found = word_to_complete(text, len(text))
    assert (found.kind if found else None) == kind


def test_the_name_of_a_file_counts_more_than_its_folder() -> None:
    assert rank_matches("cart", ["cart/x.py", "src/cart.py", "a/b/c_a_r_t.py"])[0] in ("cart/x.py", "src/cart.py")
    assert rank_matches("zz", ["a"]) == []


def test_a_prompt_points_at_files_and_pictures(tmp_path) -> None:
    (tmp_path / "a b.py").write_text("x")
    (tmp_path / "p.png").write_bytes(b"x")
    parts = inputs('compare @"a b.py" with @p.png, and @missing.py', tmp_path)
    assert [type(part).__name__ for part in parts] == ["TextInput", "FileInput", "LocalImageInput"]


@pytest.mark.parametrize("pasted", ["'/tmp/a b.png'", "/tmp/a\\ b.png", "file:///tmp/a%20b.png", "/tmp/a b.png\n"])
def test_a_pasted_picture_is_known_by_its_path(pasted: str) -> None:
    assert pasted_picture(pasted) == "/tmp/a b.png"


def test_light_and_dark_are_told_apart() -> None:
    assert not is_dark("\x1b]11;rgb:fafa/fafa/fafa\x1b\\")
    assert is_dark("\x1b]11;rgb:1e1e/1e1e/2e2e\x07")


def test_a_narrow_terminal_shortens_the_meter_before_the_model() -> None:
    talk = Conversation("t")
    talk.model = "anthropic/claude-sonnet-5-5"
    count = m.TokenCount(
        total_tokens=52_000,
        input_tokens=50_000,
        cached_input_tokens=10_000,
        cache_write_input_tokens=0,
        output_tokens=2_000,
        reasoning_output_tokens=0,
    )
    used = m.TokenUsage(total=count, last=count, model_context_window=200_000, by_model={talk.model: count})
    spent = UsageUpdated(
        thread_id="t", turn_id="u", usage=m.Usage(input_tokens=40_000, output_tokens=2_000), token_usage=used
    )
    talk.prices = {talk.model: {"input": 2.0, "output": 10.0, "cacheRead": 0.2}}
    talk.handle_event(spent)
    wide, narrow = (status_line(talk, DARK_PALETTE, width=width).plain for width in (140, 80))
    assert wide.endswith("context 26% full · 52.0k tokens · $0.10")
    assert wide.startswith("anthropic/claude-sonnet-5-5 ·")
    assert narrow.startswith("claude-sonnet-5-5 ·")
    assert narrow.endswith("26% · 52.0k · $0.10")
    assert (len(wide), len(narrow)) == (138, 78)
