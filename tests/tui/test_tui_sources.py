"""The sources of an answer, under it."""

from hames.protocols.flint.items import AgentMessageItem, CitationMember
from hames.tui.blocks.messages import AgentMessageBlock
from hames.tui.palette import DARK, palette

COLOURS = palette(DARK.to_color_system().generate(), dark=True)


def test_sources_stand_numbered_under_the_answer() -> None:
    cited = [CitationMember(url="https://a.example", title="A\x1b[31m"), CitationMember(url="https://b.example")]
    block = AgentMessageBlock(AgentMessageItem(id="i1", text=""))
    block.add("3.15 is out")
    rows = [row.plain.strip() for row in block.draw(60, COLOURS)]
    assert rows == ["3.15 is out"]
    block.finish(AgentMessageItem(id="i1", text="3.15 is out", citations=[*cited, cited[0]]))
    rows = [row.plain.strip() for row in block.draw(60, COLOURS)]
    assert rows == ["3.15 is out", "", "[1] A\\x1b[31m: https://a.example", "[2] https://b.example"]
