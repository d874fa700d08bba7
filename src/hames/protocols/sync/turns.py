"""A turn as messages. One item always has the same place: messages only grow, and so do their tool calls.

Inside an assistant message come reasoning, then content, then tool calls; what arrives out of that order starts
a new message. It is pending until its first word.
"""

import re

from msgspec.structs import replace

from hames.domain import items
from hames.domain.ids import ThreadId
from hames.domain.state import Turn
from hames.protocols.describe import prompt_text
from hames.protocols.sync.messages import Attachment, Message, MessageStatus, ToolCall
from hames.protocols.sync.tools import Shown, tool_call

_UPLOAD = re.compile(r"up_[0-9a-f]{32}")


class Draft:
    """The items that one message is made of."""

    __slots__ = ("reasoning", "text", "tools", "user")

    def __init__(self, user: items.UserMessage | None = None) -> None:
        self.user = user
        self.reasoning: items.Reasoning | None = None
        self.text: items.AgentMessage | None = None
        self.tools: list[Shown] = []

    @property
    def silent(self) -> bool:
        """Nothing in it has said a word yet."""
        words = (self.text.text if self.text else "") or (reasoning_text(self.reasoning) if self.reasoning else "")
        return self.user is None and not words and not self.tools

    @property
    def running(self) -> bool:
        parts = (self.reasoning, self.text, *self.tools)
        return any(part is not None and part.status == "running" for part in parts)

    def same(self, other: "Draft") -> bool:
        """Made of the very same items: values are shared between states, so identity tells."""
        return (
            self.user is other.user
            and self.reasoning is other.reasoning
            and self.text is other.text
            and len(self.tools) == len(other.tools)
            and all(mine is theirs for mine, theirs in zip(self.tools, other.tools, strict=True))
        )


def layout(turn: Turn) -> list[Draft]:
    drafts: list[Draft] = []
    waiting: list[items.UserMessage] = []
    current: Draft | None = None

    def open_draft() -> Draft:
        drafts.append(Draft())
        return drafts[-1]

    for item in turn.items:
        while waiting and item.step > waiting[0].step:
            drafts.append(Draft(waiting.pop(0)))
            current = None
        match item:
            case items.UserMessage(step=0):
                drafts.append(Draft(item))
                current = open_draft()
            case items.UserMessage():
                waiting.append(item)  # said in the middle: it stands where the model reads it
            case items.Reasoning():
                if current is None or current.reasoning or current.text or current.tools:
                    current = open_draft()
                current.reasoning = item
            case items.AgentMessage():
                if current is None or current.text or current.tools:
                    current = open_draft()
                current.text = item
            case _:
                if current is None:
                    current = open_draft()
                current.tools.append(item)
    if turn.status != "running":
        drafts += [Draft(user) for user in waiting]
    return drafts


def last_reply(drafts: list[Draft]) -> int:
    """The message that tells how the turn ended; -1 when there is none."""
    return next((n for n in range(len(drafts) - 1, -1, -1) if drafts[n].user is None), -1)


def message_status(turn: Turn, drafts: list[Draft], number: int) -> MessageStatus:
    draft = drafts[number]
    if draft.user is not None:
        return "complete"
    if turn.status == "running":
        if number == len(drafts) - 1:
            return "pending" if draft.silent else "streaming"
        return "streaming" if draft.running else "complete"
    return "error" if number == last_reply(drafts) and _has_failed(turn) else "complete"


def message(turn: Turn, drafts: list[Draft], number: int, thread_id: ThreadId, cwd: str) -> Message:
    draft = drafts[number]
    if draft.user is not None:
        return _user_message(draft.user, turn, thread_id)
    ends = turn.status != "running" and number == last_reply(drafts)
    error = turn.error.message if ends and turn.error else ""
    return Message(
        id=f"{turn.id}.{number}",
        role="assistant",
        content=draft.text.text if draft.text else "",
        status=message_status(turn, drafts, number),
        tool_calls=tuple(_tool_call(item, turn, cwd) for item in draft.tools),
        created_at=turn.started_at_ms,
        turn_id=turn.id,
        reasoning=reasoning_text(draft.reasoning) if draft.reasoning else "",
        reasoning_ms=draft.reasoning.duration_ms if draft.reasoning else None,
        stop_reason=stop_reason(turn) if ends else "",
        error=error,
        citations=draft.text.citations if draft.text else (),
        by=turn.ended_by if ends else None,
        undone=turn.undone if ends else (),
    )


def _tool_call(item: Shown, turn: Turn, cwd: str) -> ToolCall:
    shown = tool_call(item, cwd, asked_in_vain=item.id in turn.unanswered)
    if turn.undone and shown.changes and shown.outcome == "completed":
        shown = replace(shown, undone=tuple(one.path for one in shown.changes if one.path in turn.undone))
    answer = next((one for one in turn.answered if one.item_id == item.id), None)
    return shown if answer is None else replace(shown, decision=answer.decision, decided_by=answer.by)


def reasoning_text(item: items.Reasoning) -> str:
    return item.summary or item.text


def stop_reason(turn: Turn) -> str:
    if turn.status == "interrupted" and not turn.error:
        return "cancelled"
    return turn.stop_reason if turn.status == "completed" else ""


def _has_failed(turn: Turn) -> bool:
    """It went wrong, or the process died under it. A cancel is neither."""
    return turn.status == "failed" or (turn.status == "interrupted" and turn.error is not None)


def failure(turn: Turn | None) -> tuple[str, str]:
    """The run's error in words, and the word for it."""
    if turn is None or not _has_failed(turn):
        return "", ""
    if turn.error is None:
        return "the turn failed", "Other"
    return turn.error.message, turn.error.info


def message_id(item: items.UserMessage) -> str:
    return item.client_id or item.id


def attachments(content: tuple[items.UserInput, ...], prefix: str = "") -> tuple[Attachment, ...]:
    """`prefix` is the path under which pictures are served; before a turn has read them they are served as uploads."""
    found: list[Attachment] = []
    for part in content:
        url = f"{prefix}/{len(found)}" if prefix else ""
        match part:
            case items.TextInput():
                pass
            case items.ImageInput(url=source):
                inline = source.startswith("data:")
                found.append(
                    Attachment(kind="image", name="image" if inline else source[:200], url=url if inline else "")
                )
            case items.LocalImageInput(path=path):
                name, upload = path.rpartition("/")[2], _upload(path)
                shown = url or (f"/uploads/{upload}" if upload else "")
                found.append(Attachment(kind="image", name=name, url=shown, upload=upload))
            case items.FileInput(path=path):
                found.append(Attachment(kind="file", name=path))
    return tuple(found)


def _upload(path: str) -> str:
    """The id of an upload is the directory it is kept in. Nothing for a picture that was never uploaded."""
    directory = path.split("/")[-2:-1]
    return directory[0] if directory and _UPLOAD.fullmatch(directory[0]) else ""


def _user_message(item: items.UserMessage, turn: Turn, thread_id: ThreadId) -> Message:
    name = message_id(item)
    return Message(
        id=name,
        role="user",
        content=prompt_text(item.content),
        status="complete",
        created_at=turn.started_at_ms,
        turn_id=turn.id,
        attachments=attachments(item.content, f"/threads/{thread_id}/images/{name}"),
        by=item.by,
    )
