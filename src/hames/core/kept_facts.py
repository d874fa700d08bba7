"""What outlives a summary word for word: what the user said, the plan, the changed files, the last answer.

All of it is read from the log, so no summary can lose it, and it is the same for every later request.
"""

from collections.abc import Iterator, Sequence

from hames.core.shortening import cut
from hames.domain.items import (
    AgentMessage,
    Compaction,
    FileChange,
    FileInput,
    FileUpdate,
    ImageInput,
    Item,
    LocalImageInput,
    Plan,
    TextInput,
    UserMessage,
)
from hames.domain.state import Turn

ANSWER_CHARS = 8_000


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


def _last_answer(items: Sequence[Item]) -> str:
    """It may have a question that the user answers next."""
    answer = next((item for item in reversed(items) if isinstance(item, AgentMessage) and item.text.strip()), None)
    return f"Your last answer:\n{cut(answer.text, ANSWER_CHARS)}" if answer is not None else ""
