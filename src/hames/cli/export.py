"""A thread as a document: Markdown for people, JSON for programs."""

import re
import time

import msgspec

from hames.domain.actors import Actor
from hames.domain.display import one_line, printable, visible
from hames.domain.foreign import FOREIGN
from hames.domain.items import USER_DECLINED
from hames.domain.json import Json
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.tui.text import json_on_one_line, shown_input, source_lines

WHY_CHARS = 400

# JSON leaves these as they are, and a terminal obeys them.
_COMMANDING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def as_json(thread: m.Thread) -> str:
    """What `thread/read` answers. An item of an unknown type is written as it came."""
    told = msgspec.to_builtins(thread)
    for turn, source in zip(told["turns"], thread.turns, strict=True):
        turn["items"] = [_item(item) for item in source.items]
    text = msgspec.json.format(msgspec.json.encode(told), indent=2).decode()
    return _COMMANDING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _item(item: wire.ThreadItem) -> Json:
    return item.members if isinstance(item, wire.UnknownItem) else msgspec.to_builtins(item)


def as_markdown(thread: m.Thread) -> str:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(thread.created_at))
    title = printable(thread.name or thread.preview or thread.id).split("\n")[0]
    parts = [f"# {title}", f"`{thread.id}` · {printable(thread.model)} · {when}"]
    if thread.foreign:
        parts.append(f"**{FOREIGN}**")
    for turn in thread.turns:
        for item in turn.items:
            parts += [part for part in (_block(item), _why(item), _undone(item, turn), _who(item, turn)) if part]
        if turn.undone:
            parts.append(f"*changes undone: {printable(', '.join(turn.undone))}*")
        if turn.status in ("failed", "interrupted"):
            why = f": {printable(turn.error.message)}" if turn.error else ""
            by = f" by {printable(str(turn.interrupted_by))}" if isinstance(turn.interrupted_by, Actor) else ""
            parts.append(f"*{turn.status}{by}{why}*")
    return "\n\n".join(parts)


def _block(item: wire.ThreadItem) -> str:
    match item:
        case wire.UserMessageItem(content=content):
            return "\n".join(f"> {line}" for line in printable(shown_input(content)).split("\n"))
        case wire.AgentMessageItem(text=text):
            return "\n\n".join([printable(text), *map(visible, source_lines(item))])
        case wire.ReasoningItem(summary=summary, content=content):
            words = printable(next((part for part in (content, summary) if isinstance(part, str) and part), ""))
            return f"<details><summary>Reasoning</summary>\n\n{words}\n\n</details>" if words else ""
        case wire.CommandExecutionItem(command=command, aggregated_output=output, exit_code=code, status=status):
            ending = f"exit code {code}" if isinstance(code, int) else status
            shown = fenced(f"$ {command}\n{output or ''}", "console")
            return shown if status == "declined" else f"{shown}\n\n*{ending}*"
        case wire.FileChangeItem(changes=changes):
            return "\n\n".join(f"`{printable(one.path)}`\n\n{fenced(one.diff, 'diff')}" for one in changes)
        case wire.PlanItem(entries=entries, text=text):
            marks = {"completed": "x"}
            rows = [f"- [{marks.get(entry.status, ' ')}] {printable(entry.step)}" for entry in entries or []]
            return "\n".join(rows) or printable(text)
        case wire.ToolCallItem(name=name, arguments=arguments):
            return f"*{printable(name)}* `{printable(json_on_one_line(arguments))[:300]}`"
        case wire.McpToolCallItem(server=server, tool=tool, arguments=arguments):
            return f"*{printable(server)}/{printable(tool)}* `{printable(json_on_one_line(arguments))[:300]}`"
        case wire.WebSearchItem(query=query):
            return f"*web search* `{printable(query)}`"
        case wire.ArtifactItem(path=path):
            return f"*made* `{printable(path)}`"
        case wire.ContextCompactionItem(summary=summary):
            words = printable(summary) if isinstance(summary, str) else ""
            return f"---\n\n*From here on the model saw this summary:*\n\n{words}"
        case wire.UnknownItem(kind=kind, text=text):
            return f"*{printable(kind)}* {printable(text)}"


def _why(item: wire.ThreadItem) -> str:
    """Why it was refused, failed or skipped."""
    reason = one_line(wire.reason_of(item), WHY_CHARS)
    if getattr(item, "status", "") == "declined":
        return f"*declined: {reason}*" if reason not in ("", USER_DECLINED) else "*declined*"
    word = "" if reason.startswith("skipped") else "failed: "
    return f"*{word}{reason}*" if reason else ""


def _undone(item: wire.ThreadItem, turn: m.Turn) -> str:
    """Whether the change was taken back: all of it, or which of its files."""
    if not isinstance(item, wire.FileChangeItem) or item.status != "completed" or not turn.undone:
        return ""
    paths = [one.path for one in item.changes if one.path in turn.undone]
    return f"*undone{'' if len(paths) == len(item.changes) else ': ' + printable(', '.join(paths))}*" if paths else ""


_DECIDED = {"once": "allowed once", "always": "allowed always", "reject": "refused", "void": "not answered"}


def _who(item: wire.ThreadItem, turn: m.Turn) -> str:
    """Who wrote a prompt, and who allowed or refused what was asked about."""
    if isinstance(item, wire.UserMessageItem):
        return f"*{printable(str(item.by))}*" if isinstance(item.by, Actor) else ""
    if isinstance(item, wire.UnknownItem) or not turn.answers:
        return ""
    answers = [one for one in turn.answers if one.item_id == item.id]
    return "\n\n".join(f"*{_DECIDED[one.decision]}: {printable(str(one.by))}*" for one in answers)


def fenced(text: str, language: str) -> str:
    """In a fence longer than any inside: the text stays the text."""
    clean = printable(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", clean)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{clean}\n{fence}"
