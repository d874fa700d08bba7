"""Everything that can happen to a thread. Facts are past tense.

`FORMAT` goes up when a reader of today could misread a log of tomorrow; a log
with a higher number, or with an event this version does not know, is read-only.

2: the lines of a log have seals, which an older version would not write.
3: each line proves itself, which an older version would take for somebody else's.
"""

from typing import ClassVar, Literal

from hames.domain.actors import Actor
from hames.domain.approvals import Approval
from hames.domain.errors import ErrorInfo
from hames.domain.ids import ApprovalId, ItemId, PromptId, ThreadId, TurnId
from hames.domain.items import AgentMessage, Call, Item, Reasoning, Stream, UserInput
from hames.domain.json import NOTHING, Json
from hames.domain.options import Settings
from hames.domain.policy import ApprovalEnd, Decision, Grant
from hames.domain.project_notes import NoteFile
from hames.domain.rules import Rule
from hames.domain.situation import Situation
from hames.domain.usage import Usage
from hames.domain.value import Value

FORMAT = 3
REPAIRED = "log_repaired"
"""The name of the notice that tells what opening a damaged log had to mend."""
TURN_CONTINUED = "turn_continued"
"""The name of the notice that a turn goes on whose process had stopped. The state counts them."""
TURN_PAUSED = "turn_paused"
"""The name of the notice that a server was stopped in good order and leaves its turn to the next start."""
UNDONE, REDONE = "undone", "redone"
"""The names of the notices that say which changes to files were taken back, or done again. The state keeps which."""

TurnStatus = Literal["running", "completed", "interrupted", "failed"]
TurnKind = Literal["prompt", "review", "compact"]
Severity = Literal["info", "warning"]


Synced = Literal["always", "never", "except_text"]
"""`except_text`: not for an item that is only words of the model. They are in the log, and survive a killed process."""


class EventPolicy(Value):
    """What must be decided for every kind of event."""

    synced: Synced
    """Whether it is safe on the disk before anybody hears of it, so that a power cut does not lose it."""
    listed: bool
    """Whether it changes how a list shows the thread."""
    forked: bool
    """Whether a fork has it as well."""


class _Event(Value, tag_field="type"):
    """Every kind of event states its policy."""

    policy: ClassVar[EventPolicy]


class TurnError(Value):
    message: str
    info: ErrorInfo = "Other"
    http_status: int | None = None


class ThreadCreated(_Event, tag="thread_created", kw_only=True):
    policy: ClassVar = EventPolicy(synced="always", listed=True, forked=False)
    settings: Settings
    title: str = ""
    format: int = FORMAT
    forked_from: ThreadId | None = None
    meta: Json = NOTHING
    """What a client hung on it for itself. Here and elsewhere: carried, never looked into."""
    ephemeral: bool = False
    """Never listed, and deleted when its client leaves. It is in a log all the same, for as long as it exists."""
    by: Actor | None = None


class ThreadRenamed(_Event, tag="thread_renamed", kw_only=True):
    policy: ClassVar = EventPolicy(synced="always", listed=True, forked=True)
    title: str
    by: Actor | None = None


class ThreadArchived(_Event, tag="thread_archived", kw_only=True):
    """Put away, or taken out again."""

    policy: ClassVar = EventPolicy(synced="always", listed=True, forked=True)
    archived: bool
    by: Actor | None = None


class SettingsChanged(_Event, tag="settings_changed", kw_only=True):
    policy: ClassVar = EventPolicy(synced="always", listed=True, forked=False)
    settings: Settings
    grants: tuple[Grant, ...] | None = None
    """All that is allowed for good from now on, where lines of the log were lost. None: it is not about that."""
    by: Actor | None = None


class TurnStarted(_Event, tag="turn_started", kw_only=True):
    policy: ClassVar = EventPolicy(synced="always", listed=True, forked=True)
    turn_id: TurnId
    kind: TurnKind = "prompt"
    output_schema: Json = NOTHING
    """The JSON Schema that the final answer has to match."""
    meta: Json = NOTHING
    by: Actor | None = None
    model: str = ""
    """The model of this turn alone, where it is not the thread's: a review by another agent."""


class ItemStarted(_Event, tag="item_started"):
    policy: ClassVar = EventPolicy(synced="except_text", listed=False, forked=True)
    turn_id: TurnId
    item: Item


class ItemDelta(_Event, tag="item_delta"):
    policy: ClassVar = EventPolicy(synced="never", listed=False, forked=True)
    turn_id: TurnId
    item_id: ItemId
    stream: Stream
    text: str


class ItemCompleted(_Event, tag="item_completed"):
    """Carries the whole item: a log without deltas folds to the same state."""

    policy: ClassVar = EventPolicy(synced="except_text", listed=False, forked=True)
    turn_id: TurnId
    item: Item


class ToolCalled(_Event, tag="tool_called"):
    """The model asked for a tool, which may never run: a call without an item, or whose item has the status `skipped`,
    was not executed."""

    policy: ClassVar = EventPolicy(synced="never", listed=False, forked=True)
    turn_id: TurnId
    step: int
    call: Call


class StepVoided(_Event, tag="step_voided"):
    """The reply broke off: people saw it, the model is not shown it. Perhaps it is asked for again."""

    policy: ClassVar = EventPolicy(synced="never", listed=False, forked=True)
    turn_id: TurnId
    step: int


class ApprovalRequested(_Event, tag="approval_requested"):
    policy: ClassVar = EventPolicy(synced="always", listed=False, forked=True)
    approval: Approval


class ApprovalResolved(_Event, tag="approval_resolved", kw_only=True):
    """`grant` is what an `always` allows from now on; `note` goes to the model; `content` is a form filled in.

    `rule` was written into the user's file with this answer.
    """

    policy: ClassVar = EventPolicy(synced="always", listed=False, forked=True)
    turn_id: TurnId
    approval_id: ApprovalId
    item_id: ItemId
    decision: Decision
    grant: Grant | None = None
    note: str = ""
    content: Json = None
    rule: Rule | None = None
    ended: ApprovalEnd = "answered"
    by: Actor | None = None

    @property
    def how(self) -> ApprovalEnd:
        """How it ended. Logs of earlier versions say it only by the decision."""
        return "turnEnded" if self.decision == "void" and self.ended == "answered" else self.ended


class UsageReported(_Event, tag="usage_reported"):
    """One model call's tokens."""

    policy: ClassVar = EventPolicy(synced="never", listed=False, forked=True)
    turn_id: TurnId
    model: str
    usage: Usage


class PromptQueued(_Event, tag="prompt_queued", kw_only=True):
    """A prompt that waits for the running turn to end."""

    policy: ClassVar = EventPolicy(synced="always", listed=False, forked=True)
    prompt_id: PromptId
    content: tuple[UserInput, ...]
    output_schema: Json = NOTHING
    meta: Json = NOTHING
    by: Actor | None = None


class PromptRemoved(_Event, tag="prompt_removed", kw_only=True):
    """It started, or was taken back."""

    policy: ClassVar = EventPolicy(synced="always", listed=False, forked=True)
    prompt_id: PromptId
    by: Actor | None = None


class QueueHeld(_Event, tag="queue_held"):
    """After a cancel or a failure the queue waits for the next prompt: stop means stop."""

    policy: ClassVar = EventPolicy(synced="always", listed=False, forked=True)
    held: bool


class Noticed(_Event, tag="noticed", kw_only=True):
    """Something people may want to know and no model is shown: a retry, a repaired log, a rate limit, an undo.

    `source` is `hames` or a provider's name. A `warning` is about something that is missing from now on: a server
    that did not start, a file that is ignored. It names the reason, and the next step.
    """

    policy: ClassVar = EventPolicy(synced="never", listed=False, forked=True)
    source: str
    name: str
    message: str = ""
    severity: Severity = "info"
    turn_id: TurnId | None = None
    data: Json = None


class NotesRead(_Event, tag="notes_read"):
    """Which project notes the model is shown from now on. Their text is in no log."""

    policy: ClassVar = EventPolicy(synced="never", listed=False, forked=True)
    files: tuple[NoteFile, ...]


class ContextAdded(_Event, tag="context_added", kw_only=True):
    """Words of the harness to the model: the situation, what changed, a reminder. Users are not shown them.

    They stay at their place for ever: with step 0 in front of the turn's prompt, else behind the results of that step.
    """

    policy: ClassVar = EventPolicy(synced="never", listed=False, forked=True)
    turn_id: TurnId
    step: int
    text: str
    situation: Situation | None = None
    """What the model knows from now on."""


class ContextTrimmed(_Event, tag="context_trimmed", kw_only=True):
    """From now on the model is shown less of what came before. The log still has all of it.

    Of all tool results up to this step, the last `results` stay; of the others an extract is shown.
    """

    policy: ClassVar = EventPolicy(synced="never", listed=False, forked=True)
    turn_id: TurnId
    step: int
    results: int
    max_chars: int = 0
    """The longest text up to this step, whoever wrote it: the middle of longer ones is left out. 0: no limit."""


class TurnEnded(_Event, tag="turn_ended", kw_only=True):
    policy: ClassVar = EventPolicy(synced="always", listed=True, forked=True)
    turn_id: TurnId
    status: TurnStatus
    error: TurnError | None = None
    stop_reason: str = ""
    """Why the model stopped, in its own word: `end_turn`, `max_tokens`, …"""
    by: Actor | None = None
    """Who interrupted it, if anybody did."""
    waited_ms: int = 0
    """How long questions of this turn waited for their answers."""
    duration_ms: int | None = None
    """Measured by the process that ran it: the clock on the wall may jump. None: another process ended it."""


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
    | ContextAdded
    | ContextTrimmed
    | TurnEnded
)


def is_synced(event: Event) -> bool:
    if isinstance(event, Noticed):
        # A turn that brings the machine down must be counted as well, and files that were restored are on the disk.
        return event.name in (TURN_CONTINUED, UNDONE, REDONE)
    if event.policy.synced != "except_text":
        return event.policy.synced == "always"
    return isinstance(event, ItemStarted | ItemCompleted) and not isinstance(event.item, AgentMessage | Reasoning)


class Record(Value):
    """An event at its place in the log. `seq` starts at 1 and has no gaps; order is by `seq`, never by time.

    Deltas are told at once and kept in bundles, so the deltas of one bundle share its `seq`.
    """

    seq: int
    at_ms: int
    thread_id: ThreadId
    event: Event
