"""What a page asks for beside its socket: rows, timelines and files, as HTTP carries them. Pure."""

from collections.abc import Sequence
from typing import Literal, assert_never

from hames.domain import events, items
from hames.domain.budgets import BudgetLimits
from hames.domain.commands import ThreadSummary
from hames.domain.ids import ItemId
from hames.domain.policy import AgentName, ApprovalEnd, ApprovalPolicy, SandboxPolicy
from hames.domain.roles import Role
from hames.domain.state import Change, ThreadState, ThreadStatus, thread_status
from hames.domain.undo import PathLeftAlone, RestoredPath
from hames.domain.value import Value
from hames.domain.worktrees import NewWorktree
from hames.protocols.describe import prompt_text
from hames.protocols.instructions import Instructions
from hames.protocols.sync import messages as m
from hames.protocols.sync.tools import tool_call
from hames.protocols.sync.turns import layout, message_id

LABEL_CHARS = 120

MarkKind = Literal["turn", "user", "assistant", "tool", "approval", "decision", "end", "settings", "other"]


RowStatus = Literal["idle", "running", "approval", "error"]
_ROW_STATUS: dict[ThreadStatus, RowStatus] = {
    "away": "idle",
    "idle": "idle",
    "running": "running",
    "asking": "approval",
    "failed": "error",
}


ENDED: dict[ApprovalEnd, str] = {
    "answered": "",
    "timedOut": " (nobody answered in time)",
    "noClient": " (no client was connected)",
    "withdrawn": " (no longer needed)",
    "turnEnded": " (the turn ended)",
}
"""How an approval ended, behind its decision."""


class ThreadRow(Value, rename="camel"):
    id: str
    title: str
    preview: str
    cwd: str
    model: str
    archived: bool
    created_at: int
    updated_at: int
    status: RowStatus
    """`approval`: it waits for a person."""
    foreign: bool = False
    """Not written by this user on this machine."""
    match: str = ""
    """The line of the thread that a search found."""


class ThreadPage(Value, rename="camel"):
    """`partial`: the search has not read every thread yet; repeat it for more results."""

    threads: tuple[ThreadRow, ...]
    next_cursor: str | None
    partial: bool = False


class ThreadsMessage(Value, tag_field="type", tag="threads"):
    """The list of threads has changed; `threads` are the new rows. Sent to clients that connected with `?threads=1`.

    The first one has no rows: it tells the client that it need not poll the list.
    """

    threads: tuple[ThreadRow, ...]


class ThreadAnswer(Value):
    thread: ThreadRow


class StateAnswer(Value):
    rev: int
    state: m.State


class StateAt(Value):
    """The state of a thread at record `rev`. `skipped`: how many earlier messages are left out of `state`."""

    rev: int
    at: int
    state: m.State
    skipped: int = 0


class Mark(Value, rename="camel"):
    """One record of the log, described in one line."""

    seq: int
    at: int
    kind: MarkKind
    label: str
    message_id: str = ""


class Timeline(Value):
    seq: int
    marks: tuple[Mark, ...]


class GitChanges(Value):
    """All uncommitted changes in a thread's directory, whoever made them.

    `problem` says why there is no diff; then `files` is empty.
    """

    files: tuple[items.FileUpdate, ...] = ()
    problem: str = ""


class FileHit(Value):
    path: str
    kind: Literal["file", "directory"]


class FileHits(Value):
    files: tuple[FileHit, ...]


class Upload(Value, rename="camel"):
    id: str
    name: str
    media_type: str
    size: int


class SandboxReport(Value):
    """`message` says what is missing."""

    ok: bool
    message: str


class ServerStatus(Value, rename="camel"):
    name: str
    version: str
    cwd: str
    default_model: str
    demo_model: str
    """A scripted model that needs no key, or nothing."""
    models: tuple[m.Model, ...]
    sandbox: SandboxReport
    warnings: tuple[str, ...] = ()
    """What of the workspace's configuration is ignored, and why."""
    notice: str = ""
    """A sentence to show once: about threads that are missing and can be restored."""
    can_add_devices: bool = True
    """Whether `POST /links` can sign another browser in. Not on a server without a token: nobody signs in there."""
    max_steps: int = 0
    """How many model calls a turn may make."""
    role: Role = "owner"
    """What whoever asks may do here."""
    user: str = ""
    """The name of their token or account."""
    new_thread_policy: ApprovalPolicy | None = None
    """The approval policy with which the page starts threads; null: it leaves that to the server."""


class ThreadBudgets(Value):
    """Of each turn, and of the whole thread. 0: no limit."""

    turn: BudgetLimits = BudgetLimits()
    thread: BudgetLimits = BudgetLimits()


class NewThread(Instructions, rename="camel"):
    """The body of `POST /threads`."""

    title: str = ""
    cwd: str | None = None
    model: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxPolicy | None = None
    agent: AgentName | None = None
    options: dict[str, str] | None = None
    worktree: NewWorktree | None = None
    """The thread works in a git worktree of its own."""
    budgets: ThreadBudgets | None = None
    """How much it may use before somebody is asked. A lower limit of the configuration counts more."""


class Fork(Value, rename="camel"):
    """The body of `POST /threads/{id}/fork`. `worktree`: the fork works in a git worktree of its own, made from the
    directory of this thread; `changes` takes uncommitted and untracked files along."""

    last_seq: int | None = None
    worktree: NewWorktree | None = None


class Archive(Value):
    """The body of `POST /threads/{id}/archive`."""

    archived: bool = True


class Undo(Value, rename="camel"):
    """The body of `POST /threads/{id}/undo`. Without `turnId`: the last turn that changed files; `later`: what every
    later turn did as well. Files that others have changed since are left alone, unless `overwrite`. `preview`: only
    tell what would happen."""

    turn_id: str | None = None
    later: bool = False
    redo: bool = False
    paths: tuple[str, ...] = ()
    overwrite: bool = False
    preview: bool = False


class UndoAnswer(Value, rename="camel"):
    """`message` says it in one sentence. `conflicts` were changed by somebody else; `notKept` cannot be restored."""

    turns: tuple[str, ...]
    message: str
    restored: tuple[RestoredPath, ...]
    conflicts: tuple[PathLeftAlone, ...]
    not_kept: tuple[PathLeftAlone, ...]


def row(summary: ThreadSummary, state: ThreadState | None) -> ThreadRow:
    """`state`: of a thread in memory. For another one the summary says what it does, in another process."""
    return ThreadRow(
        id=summary.id,
        title=summary.title,
        preview=summary.preview,
        cwd=summary.cwd,
        model=summary.model,
        archived=summary.archived,
        created_at=summary.created_at_ms,
        updated_at=summary.updated_at_ms,
        status=_ROW_STATUS[thread_status(state) if state is not None else summary.standing],
        foreign=summary.foreign,
        match=summary.match,
    )


def timeline(history: Sequence[Change]) -> Timeline:
    """A mark for every record that is not a delta."""
    if not history:
        return Timeline(seq=0, marks=())
    last = history[-1]
    names = _message_ids(last.after)
    kept = (change for change in history if not isinstance(change.record.event, events.ItemDelta))
    return Timeline(seq=last.record.seq, marks=tuple(_mark(change, names) for change in kept))


def _message_ids(state: ThreadState) -> dict[ItemId, str]:
    """Which message an item stands in. It never moves, so the last state knows it for all."""
    names: dict[ItemId, str] = {}
    for turn in state.turns:
        for number, draft in enumerate(layout(turn)):
            if draft.user is not None:
                names[draft.user.id] = message_id(draft.user)
                continue
            parts = [part for part in (draft.reasoning, draft.text, *draft.tools) if part is not None]
            names |= {part.id: f"{turn.id}.{number}" for part in parts}
    return names


def _mark(change: Change, names: dict[ItemId, str]) -> Mark:
    event = change.record.event
    kind, label = _event_label(event, change.after.settings.cwd)
    if (by := getattr(event, "by", None)) is not None:
        label = f"{label} · {by}"
    item_id = _item_of(event)
    return Mark(
        seq=change.record.seq,
        at=change.record.at_ms,
        kind=kind,
        label=_line(label),
        message_id=names.get(item_id, "") if item_id else "",
    )


def _event_label(event: events.Event, cwd: str) -> tuple[MarkKind, str]:
    match event:
        case events.TurnStarted(kind=kind):
            return "turn", "turn started" if kind == "prompt" else f"turn started: {kind}"
        case events.ItemStarted(item=item):
            return _start_label(item, cwd)
        case events.ItemCompleted(item=item):
            return _completion_label(item)
        case events.ToolCalled(call=call):
            return "other", f"asked for {call.name}"
        case events.ApprovalRequested(approval=approval):
            return "approval", f"approval requested: {approval.reason}" if approval.reason else "approval requested"
        case events.ApprovalResolved(decision=decision, how=how):
            return "decision", f"approval: {decision}{ENDED[how]}"
        case events.TurnEnded(status=status, error=error):
            return "end", f"turn {status}: {error.message}" if error else f"turn {status}"
        case events.SettingsChanged(settings=settings):
            return "settings", f"settings changed: {settings.model}"
        case events.ThreadCreated(forked_from=source):
            return "other", f"forked from {source}" if source else "thread created"
        case events.ThreadRenamed(title=title):
            return "other", f"renamed: {title}"
        case events.ThreadArchived(archived=archived):
            return "other", "archived" if archived else "unarchived"
        case events.UsageReported(model=model, usage=usage):
            return "other", f"{model}: {usage.input_tokens} tokens in, {usage.output_tokens} out"
        case events.PromptQueued(content=content):
            return "other", f"queued: {prompt_text(content)}"
        case events.PromptRemoved():
            return "other", "removed from the queue"
        case events.QueueHeld(held=held):
            return "other", "queue held" if held else "queue resumed"
        case events.StepVoided():
            return "other", "connection lost during the reply"
        case events.Noticed(name=name, message=message):
            return "other", message or name
        case events.NotesRead(files=files):
            return "other", f"project notes: {', '.join(file.path for file in files) or 'none'}"
        case events.ContextAdded():
            return "other", "note to the model"
        case events.ContextTrimmed():
            return "other", "old results cleared from the context"
        case events.ItemDelta():
            return "other", "more"
        case _ as never:
            assert_never(never)


def _start_label(item: items.Item, cwd: str) -> tuple[MarkKind, str]:
    match item:
        case items.UserMessage(content=content):
            return "user", prompt_text(content) or "attachments"
        case items.AgentMessage():
            return "assistant", "answers"
        case items.Reasoning():
            return "assistant", "thinks"
        case _:
            call = tool_call(item, cwd)
            return "tool", call.title if call.title.startswith(call.name) else f"{call.name}: {call.title}"


def _completion_label(item: items.Item) -> tuple[MarkKind, str]:
    match item:
        case items.UserMessage():
            return "other", "prompt kept"
        case items.AgentMessage(text=text):
            return "assistant", text or "said nothing"
        case items.Reasoning(text=text, summary=summary):
            return "assistant", summary or text or "thought"
        case _:
            reason = items.reason_of(item)
            return "tool", f"finished: {item.status}: {reason}" if reason else f"finished: {item.status}"


def _item_of(event: events.Event) -> ItemId | None:
    match event:
        case events.ItemStarted(item=item) | events.ItemCompleted(item=item):
            return item.id
        case events.ApprovalRequested(approval=approval):
            return approval.item_id
        case events.ApprovalResolved(item_id=item_id):
            return item_id
        case _:
            return None


def _line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LABEL_CHARS else words[: LABEL_CHARS - 1] + "…"


def markdown(state: m.State) -> str:
    """The conversation as a document."""
    parts = [f"# {state.thread.title or state.thread.preview or state.thread.id}\n"]
    for shown in state.messages:
        if shown.role == "user":
            parts.append(f"## {f'Prompt by {shown.by}' if shown.by else 'You'}\n\n{shown.content}\n")
            continue
        if shown.reasoning:
            parts.append("> " + shown.reasoning.strip().replace("\n", "\n> ") + "\n")
        if shown.content:
            parts.append(shown.content.strip() + "\n")
        parts += [_tool_markdown(call) for call in shown.tool_calls]
        if shown.error:
            parts.append(f"**Error:** {shown.error}\n")
    return "\n".join(parts)


def _tool_markdown(call: m.ToolCall) -> str:
    code = "" if call.exit_code is None else f", exit code {call.exit_code}"
    lines = [f"### {call.title.strip() or call.name} ({call.outcome}{code})\n"]
    lines += [_code_block(change.diff, "diff") for change in call.changes]
    if call.decision and call.decided_by:
        lines.append(f"*{call.decision}: {call.decided_by}*\n")
    if call.reason and call.reason not in call.output:
        lines.append(f"{call.reason}\n")
    if call.output.strip():
        lines.append(_code_block(call.output, ""))
    return "\n".join(lines)


def _code_block(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
