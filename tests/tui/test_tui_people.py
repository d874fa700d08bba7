"""Who did what, as the terminal and an export show it."""

from hames.cli.export import as_json, as_markdown
from hames.domain.actors import Actor
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.stdio.principals import account
from hames.tui.blocks.messages import UserMessageBlock
from hames.tui.palette import DARK, palette
from hames.tui.people import somebody_else

COLOURS = palette(DARK.to_color_system().generate(), dark=True)
BOB = Actor(kind="token", name="bob", via="page", client="\x1b[31mred")
HERE = Actor(kind="user", name=account(), via="terminal")


def message(by: Actor) -> wire.UserMessageItem:
    return wire.UserMessageItem(id="i", content=[wire.TextInput(text="go")], by=by)


def test_the_terminal_names_only_others() -> None:
    assert somebody_else(HERE) == "" and somebody_else(None) == ""
    assert somebody_else(Actor(kind="user", name=account(), via="page")) == f"{account()} (page)"
    shown = "\n".join(row.plain for row in UserMessageBlock(message(BOB)).draw(80, COLOURS))
    assert "bob (page" in shown and "\x1b" not in shown
    assert "(" not in "\n".join(row.plain for row in UserMessageBlock(message(HERE)).draw(80, COLOURS))


def test_an_export_names_everybody() -> None:
    command = wire.CommandExecutionItem(id="c", command="ls", cwd="/", status="completed", exit_code=0)
    answer = m.AnsweredApproval(item_id="c", decision="once", by=BOB)
    turn = m.Turn(id="t", status="interrupted", items=[message(HERE), command], interrupted_by=BOB, answers=[answer])
    thread = m.Thread(id="s", preview="", model_provider="x", created_at=0, turns=[turn])
    text = as_markdown(thread)
    assert f"*{account()} (terminal)*" in text
    assert "allowed once: bob (page" in text and "interrupted by bob (page" in text
    assert "\x1b" not in text
    assert '"interruptedBy"' in as_json(thread) and '"name": "bob"' in as_json(thread)
