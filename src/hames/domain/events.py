"""Everything that can happen to a thread. Facts are past tense.

`FORMAT` goes up when a reader of today could misread a log of tomorrow; a log
with a higher number, or with an event this version does not know, is read-only.

2: the lines of a log have seals, which an older version would not write.
"""

from typing import Literal

from hames.domain.approvals import Approval
from hames.domain.errors import ErrorInfo
from hames.domain.ids import ApprovalId, ItemId, PromptId, ThreadId, TurnId
from hames.domain.items import Call, Item, Stream, UserInput
from hames.domain.json import NOTHING, Json
from hames.domain.notes import NoteFile
from hames.domain.options import Settings
from hames.domain.policy import Decision, Grant
from hames.domain.usage import Usage
from hames.domain.value import Value

FORMAT = 2

TurnStatus = Literal["running", "completed", "interrupted", "failed"]
TurnKind = Literal["prompt", "review", "compact"]
Severity = Literal["info", "warning"]


class TurnError(Value):
    message: str
    info: ErrorInfo = "Other"
    http_status: int | None = None


class ThreadCreated(Value, tag_field="type", tag="thread_created", kw_only=True):
    settings: Settings
    title: str = ""
    format: int = FORMAT
    forked_from: ThreadId | None = None
    meta: Json = NOTHING
    """What a client hung on it for itself. Here and elsewhere: carried, never looked into."""


class ThreadRenamed(Value, tag_field="type", tag="thread_renamed"):
    title: str


class ThreadArchived(Value, tag_field="type", tag="thread_archived"):
    """Put away, or taken out again."""

    archived: bool


class SettingsChanged(Value, tag_field="type", tag="settings_changed"):
    settings: Settings


class TurnStarted(Value, tag_field="type", tag="turn_started", kw_only=True):
    turn_id: TurnId
    kind: TurnKind = "prompt"
    meta: Json = NOTHING


class ItemStarted(Value, tag_field="type", tag="item_started"):
    turn_id: TurnId
    item: Item


class ItemDelta(Value, tag_field="type", tag="item_delta"):
    turn_id: TurnId
    item_id: ItemId
    stream: Stream
    text: str


class ItemCompleted(Value, tag_field="type", tag="item_completed"):
    """Carries the whole item: a log without deltas folds to the same state."""

    turn_id: TurnId
    item: Item


class ToolCalled(Value, tag_field="type", tag="tool_called"):
    """The model asked for a tool. Whether it runs is another matter: a call without an item was not executed,
    and an item with the status `skipped` says so, too."""

    turn_id: TurnId
    step: int
    call: Call


class StepVoided(Value, tag_field="type", tag="step_voided"):
    """The reply broke off: people saw it, the model is not shown it. Perhaps it is asked for again."""

    turn_id: TurnId
    step: int


class ApprovalRequested(Value, tag_field="type", tag="approval_requested"):
    approval: Approval


class ApprovalResolved(Value, tag_field="type", tag="approval_resolved", kw_only=True):
    """`grant` is what an `always` allows from now on; `note` goes to the model; `content` is a form filled in."""

    turn_id: TurnId
    approval_id: ApprovalId
    item_id: ItemId
    decision: Decision
    grant: Grant | None = None
    note: str = ""
    content: Json = None


class UsageReported(Value, tag_field="type", tag="usage_reported"):
    """One model call's tokens."""

    turn_id: TurnId
    model: str
    usage: Usage


class PromptQueued(Value, tag_field="type", tag="prompt_queued", kw_only=True):
    """A prompt that waits for the running turn to end."""

    prompt_id: PromptId
    content: tuple[UserInput, ...]
    meta: Json = NOTHING


class PromptRemoved(Value, tag_field="type", tag="prompt_removed"):
    """It started, or was taken back."""

    prompt_id: PromptId


class QueueHeld(Value, tag_field="type", tag="queue_held"):
    """After a cancel or a failure the queue waits for the next prompt: stop means stop."""

    held: bool


class Noticed(Value, tag_field="type", tag="noticed", kw_only=True):
    """Something people may want to know and nothing depends on: a retry, a repaired log, a rate limit.

    `source` is `hames` or a provider's name. A `warning` is about something that is missing from now on: a server
    that did not start, a file that is ignored. It names the reason, and the next step.
    """

    source: str
    name: str
    message: str = ""
    severity: Severity = "info"
    turn_id: TurnId | None = None
    data: Json = None


class NotesRead(Value, tag_field="type", tag="notes_read"):
    """Which project notes the model is shown from now on. Their text is in no log."""

    files: tuple[NoteFile, ...]


class TurnEnded(Value, tag_field="type", tag="turn_ended", kw_only=True):
    turn_id: TurnId
    status: TurnStatus
    error: TurnError | None = None
    stop_reason: str = ""
    """Why the model stopped, in its own word: `end_turn`, `max_tokens`, …"""


Event = (
    ThreadCreated
    | ThreadRenamed
    | ThreadArchived
    | SettingsChanged
    | TurnStarted
    | ItemStarted
    | ItemDelta
    | ItemCompleted
    | ToolCalled
    | StepVoided
    | ApprovalRequested
    | ApprovalResolved
    | UsageReported
    | PromptQueued
    | PromptRemoved
    | QueueHeld
    | Noticed
    | NotesRead
    | TurnEnded
)


class Record(Value):
    """An event at its place in the log. `seq` starts at 1 and has no gaps; order is by `seq`, never by time.

    Deltas are told at once and kept in bundles, so the deltas of one bundle share its `seq`.
    """

    seq: int
    at_ms: int
    thread_id: ThreadId
    event: Event
