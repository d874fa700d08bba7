"""What outlives a summary word for word: what the user said, the plan, the changed files, the last answer. And where
long results can be read again.

All of it is read from the log, so no summary can lose it, and it is the same for every later request.
"""

from collections.abc import Iterator, Sequence

import msgspec

from hames.core.earlier_results import result_path
from hames.core.shortening import cut
from hames.domain.items import (
    AgentMessage,
    CommandExecution,
    Compaction,
    FileChange,
    FileInput,
    FileUpdate,
    ImageInput,
    Item,
    LocalImageInput,
    McpToolCall,
    Plan,
    TextInput,
    ToolCall,
    ToolItem,
    UserMessage,
)
from hames.domain.state import Turn

ANSWER_CHARS = 8_000
RESULTS_NAMED = 12
"""So many of the last long results are named, so that they can be read again."""
LONG_RESULT_CHARS = 2_000
CALL_CHARS = 100
_QUICKLY_REPEATED = frozenset({"read", "list", "glob", "grep"})


def kept_facts(turns: Sequence[Turn], compaction: Compaction) -> list[str]:
    """The sections behind the summary. `turns` end with the one of the compaction."""
    last = turns[-1]
    before = [item for turn in turns[:-1] for item in turn.items]
    earlier = [*before, *last.items[: last.items.index(compaction)]]
    budget = compaction.kept_chars
    sections = [
        _user_messages(before, budget // 2),
        _plan(earlier),
        _changed_files(earlier, budget // 2),
        _results(earlier) if budget else "",
        _last_answer(before if last.kind != "compact" else earlier),
    ]
    return [section for section in sections if section]


def _user_messages(items: Sequence[Item], budget: int) -> str:
    """Of the turns before this one; what is said in this one stays as it is."""
    said = [text for item in items if isinstance(item, UserMessage) and (text := user_text(item))]
    if not said:
        return ""
    longest = _fair_length([len(text) for text in said], budget)
    rows = [f"{number}. {cut(text, longest)}" for number, text in enumerate(said, 1)]
    return "\n".join(["What the user said in earlier turns, word for word:", *rows])


def user_text(message: UserMessage) -> str:
    parts: list[str] = []
    for part in message.content:
        match part:
            case TextInput(text=text):
                parts.append(text)
            case FileInput(path=path):
                parts.append(f"(the file {path})")
            case LocalImageInput(path=path):
                parts.append(f"(the picture {path})")
            case ImageInput():
                parts.append("(a picture)")
    return "\n".join(part for part in parts if part.strip())


def _fair_length(lengths: list[int], budget: int) -> int:
    """How long each may be so that all of them fit: short ones stay whole, the longest are cut first.

    >>> _fair_length([10, 20, 500], 230), _fair_length([10, 20], 1000)
    (200, 20)
    """
    left = budget
    for number, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - number)
        if length > share:
            return max(share, 100)
        left -= length
    return max(lengths, default=0)


def latest_plan(items: Sequence[Item]) -> Plan | None:
    return next((item for item in reversed(items) if isinstance(item, Plan) and item.status == "completed"), None)


def plan_text(plan: Plan) -> str:
    return "\n".join(f"- {entry.step} ({entry.status})" for entry in plan.entries)


def _plan(items: Sequence[Item]) -> str:
    plan = latest_plan(items)
    return f"The plan, as it stood:\n{plan_text(plan)}" if plan is not None and plan.entries else ""


def _changed_files(items: Sequence[Item], budget: int) -> str:
    """Every file with its diffs. Where they are too long together, the oldest are left out and named."""
    updates = list(_updates(items))
    if not updates:
        return ""
    shown: list[str] = []
    for update in reversed(updates):
        fits = len(update.diff) <= budget
        budget -= len(update.diff) if fits else 0
        words = update.diff.rstrip("\n") if fits else f"(a diff of {len(update.diff):,} characters, left out)"
        shown.append(f"{update.kind} {update.path}\n{words}")
    return "\n".join(["The files you changed so far, oldest change first:", *reversed(shown)])


def _updates(items: Sequence[Item]) -> Iterator[FileUpdate]:
    for item in items:
        if isinstance(item, FileChange) and item.status == "completed":
            yield from item.changes


def _results(items: Sequence[Item]) -> str:
    """Of commands and other calls that cannot be repeated at no cost."""
    rows: list[str] = []
    for item in reversed(items):
        if len(rows) < RESULTS_NAMED and (call := _named_call(item)):
            assert isinstance(item, ToolItem) and item.result is not None
            rows.append(f"{result_path(item)}: {call} ({len(item.result.text):,} characters)")
    if not rows:
        return ""
    return "\n".join(["Long results that `read` shows again, by these paths, oldest first:", *reversed(rows)])


def _named_call(item: Item) -> str:
    """A call with a long result, in a few words; empty for everything else."""
    if not isinstance(item, ToolItem) or item.result is None or len(item.result.text) < LONG_RESULT_CHARS:
        return ""
    match item:
        case CommandExecution(command=command):
            words = command
        case McpToolCall(server=server, tool=tool):
            words = f"{tool} of {server}"
        case ToolCall(name=name) if name not in _QUICKLY_REPEATED:
            words = f"{name} {msgspec.json.encode(item.arguments).decode()}"
        case _:
            return ""
    line = " ".join(words.split())
    return line if len(line) <= CALL_CHARS else f"{line[:CALL_CHARS]}…"


def _last_answer(items: Sequence[Item]) -> str:
    """It may have a question that the user answers next."""
    answer = next((item for item in reversed(items) if isinstance(item, AgentMessage) and item.text.strip()), None)
    return f"Your last answer:\n{cut(answer.text, ANSWER_CHARS)}" if answer is not None else ""
