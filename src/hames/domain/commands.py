"""Everything a client may ask for. Requests are imperative.

Every protocol decodes into these and nothing else crosses the engine's wall.
"""

from typing import Literal

from hames.domain.actors import Actor
from hames.domain.ids import ApprovalId, PromptId, ThreadId, TurnId
from hames.domain.items import ImageInput, TextInput, UserInput
from hames.domain.json import NOTHING, Json
from hames.domain.options import Overrides
from hames.domain.policy import AlwaysScope, Decision, SandboxPolicy
from hames.domain.value import Value
from hames.domain.worktrees import NewWorktree, WorktreeAction


class ChangingCommand(Value, kw_only=True):
    """A command that changes something. No protocol decodes `by`: whoever runs the connection adds it."""

    by: Actor | None = None


class CreateThread(ChangingCommand):
    title: str = ""
    overrides: Overrides = Overrides()
    meta: Json = NOTHING
    ephemeral: bool = False
    """In no list, and deleted when its client leaves or the process ends."""
    worktree: NewWorktree | None = None
    """The thread works in a git worktree of its own, made from its directory."""


class ListOrder(Value):
    by: Literal["updated", "created"] = "updated"
    oldest_first: bool = False


class ListThreads(Value):
    """Newest first. `cursor` is what the page before returned; `search` looks at titles and at what was said.

    `archived` None: archived or not. `cwds` and `providers` empty: of every directory, of every provider.
    """

    limit: int | None = None
    cursor: str | None = None
    archived: bool | None = False
    search: str = ""
    cwds: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    excluded: tuple[ThreadId, ...] = ()
    order: ListOrder = ListOrder()


class ReadThread(Value):
    """Look at a thread, running or not, without changing it."""

    thread_id: ThreadId


class ResumeThread(ChangingCommand):
    """Open a thread for work; overrides become its settings."""

    thread_id: ThreadId
    overrides: Overrides = Overrides()


class StartTurn(ChangingCommand):
    """Refused while a turn runs; `SubmitPrompt` waits instead."""

    thread_id: ThreadId
    content: tuple[UserInput, ...]
    overrides: Overrides = Overrides()
    client_id: str | None = None
    output_schema: Json = NOTHING
    """The JSON Schema that the final answer of this turn has to match."""
    meta: Json = NOTHING


class SubmitPrompt(ChangingCommand):
    """Start a turn now, or queue it behind the running one. The same `client_id` twice counts once."""

    thread_id: ThreadId
    content: tuple[UserInput, ...]
    client_id: str | None = None
    output_schema: Json = NOTHING
    meta: Json = NOTHING


class DropPrompt(ChangingCommand):
    thread_id: ThreadId
    prompt_id: PromptId


class SteerTurn(ChangingCommand):
    """Say something to the running turn; the model reads it before its next step."""

    thread_id: ThreadId
    content: tuple[UserInput, ...]
    turn_id: TurnId | None = None
    client_id: str | None = None
    meta: Json = NOTHING


class InterruptTurn(ChangingCommand):
    """`turn_id` None: whichever runs."""

    thread_id: ThreadId
    turn_id: TurnId | None = None


class ResolveApproval(ChangingCommand):
    """`content` is what a form asks for; one that does not fit is refused and leaves the question open.

    `scope` is how far an `always` goes: this thread, or the rule that was offered, for every thread in this project.
    """

    approval_id: ApprovalId
    decision: Decision
    note: str = ""
    content: Json = None
    scope: AlwaysScope = "thread"


class ForkThread(ChangingCommand):
    """A new thread with this one's history, up to `last_seq` or the end of `last_turn_id` (all of it by default)."""

    thread_id: ThreadId
    last_seq: int | None = None
    last_turn_id: TurnId | None = None
    overrides: Overrides = Overrides()
    meta: Json = NOTHING
    ephemeral: bool = False
    worktree: NewWorktree | None = None
    """The fork works in a git worktree of its own, made from the directory of this thread."""


class ArchiveThread(ChangingCommand):
    thread_id: ThreadId
    archived: bool = True


class RenameThread(ChangingCommand):
    thread_id: ThreadId
    title: str


class DeleteThread(ChangingCommand):
    """Refused while a turn runs, unless `interrupt` says to end it first."""

    thread_id: ThreadId
    interrupt: bool = False


class CompactThread(ChangingCommand):
    """Summarise what the model has seen so far, as a turn of its own."""

    thread_id: ThreadId


class ReviewTarget(Value):
    """What to look at: uncommitted changes, a branch to compare with, a commit, or what the words say."""

    kind: Literal["uncommittedChanges", "baseBranch", "commit", "custom"]
    text: str = ""


def split_reviewer(words: str) -> tuple[str, str]:
    """What was typed behind `/review`: the agent of `--agent NAME` in front, and the rest.

    >>> split_reviewer("--agent claude the last commit")
    ('claude', 'the last commit')
    >>> split_reviewer("the last commit")
    ('', 'the last commit')
    """
    flag, _, rest = words.strip().partition(" ")
    if flag.startswith("--agent="):
        return flag.removeprefix("--agent="), rest.strip()
    if flag != "--agent":
        return "", words.strip()
    name, _, rest = rest.strip().partition(" ")
    return name, rest.strip()


class StartReview(ChangingCommand):
    """`reviewer` is the agent or model that reviews: `claude`, `openai/gpt-5`. Empty: the thread's own."""

    thread_id: ThreadId
    target: ReviewTarget
    reviewer: str = ""


class ChangeSettings(ChangingCommand):
    thread_id: ThreadId
    overrides: Overrides


class PastMessage(Value):
    role: Literal["user", "assistant"]
    content: tuple[TextInput | ImageInput, ...]


TURN_NAME = "turn"
"""The member of a turn's `meta` that has the name which another program gave the turn."""


class PastTurn(Value):
    """A turn that another program ran, in words. `id` is its name there."""

    id: str = ""
    messages: tuple[PastMessage, ...] = ()


class AddHistory(ChangingCommand):
    """Add turns that ran elsewhere, so that the model knows of them. Refused while a turn runs."""

    thread_id: ThreadId
    turns: tuple[PastTurn, ...]


class ListServers(Value):
    """The MCP servers of a thread and how each is doing; those that did not start yet begin to. None: of no thread."""

    thread_id: ThreadId | None = None


class ListProcesses(Value):
    """The processes that a thread runs in the background, and the last that ended. `end`: end that one first."""

    thread_id: ThreadId
    end: int | None = None


class ReadContext(Value):
    """What fills the window of the thread's model."""

    thread_id: ThreadId


class UndoTurn(ChangingCommand):
    """Take back what a turn did to files, or (`redo`) do it again. Refused while a turn runs.

    `turn_id` None: the last turn that changed some. `later`: what every later turn of the thread did as well.
    `paths`: only these, and what is below them. Files that others have changed since are left alone, unless
    `overwrite`. `preview`: only tell what would happen.
    """

    thread_id: ThreadId
    turn_id: TurnId | None = None
    later: bool = False
    redo: bool = False
    paths: tuple[str, ...] = ()
    overwrite: bool = False
    preview: bool = False


class ListWorktrees(Value):
    """The worktrees that were made for threads. `cwd`: of the repository there; None: of the server's own workspace."""

    cwd: str | None = None
    everywhere: bool = False
    """Those of all repositories."""


class FinishWorktree(ChangingCommand):
    """Merge a worktree into the branch it came from (or `into`), keep it, or drop it. Refused while a turn runs in it.

    By its name, or by the thread that works in it. `message` is for the commit of what is not committed yet. Dropping
    what is merged nowhere is refused unless `discard` is the worktree's name. `preview`: only tell what would happen.
    """

    action: WorktreeAction
    name: str = ""
    thread_id: ThreadId | None = None
    cwd: str | None = None
    """Which repository the name is of; None: that of the server's own workspace."""
    into: str = ""
    message: str = ""
    discard: str = ""
    preview: bool = False


class RunProgram(ChangingCommand):
    """Run a program for the client itself, in a sandbox. None: as the server's own threads have it."""

    argv: tuple[str, ...]
    cwd: str | None = None
    workspace: str | None = None
    sandbox: SandboxPolicy | None = None
    seconds: float = 30.0
    output_bytes: int = 1 << 20
    """More than that is read and dropped."""


class ProgramEnded(Value):
    """`output` is what it wrote to stdout and stderr, in that order of time."""

    exit_code: int
    output: bytes


Command = (
    CreateThread
    | ListThreads
    | ReadThread
    | ResumeThread
    | StartTurn
    | SubmitPrompt
    | DropPrompt
    | SteerTurn
    | InterruptTurn
    | ResolveApproval
    | ForkThread
    | ArchiveThread
    | RenameThread
    | DeleteThread
    | CompactThread
    | StartReview
    | ChangeSettings
    | AddHistory
    | ListServers
    | ListProcesses
    | ReadContext
    | UndoTurn
    | ListWorktrees
    | FinishWorktree
    | RunProgram
)


Standing = Literal["away", "idle", "running", "asking"]
"""`away`: on the disk alone. `asking`: it runs, and waits for an answer."""


class ThreadSummary(Value, omit_defaults=True):
    """A thread as a list shows it. `standing` and `match` are of the moment, and kept nowhere."""

    id: ThreadId
    title: str
    preview: str
    cwd: str
    model: str
    created_at_ms: int
    updated_at_ms: int
    archived: bool = False
    meta: Json = NOTHING
    standing: Standing = "away"
    foreign: bool = False
    """Not written by this user on this machine, as far as a list can tell: its log is looked at when it is opened."""
    match: str = ""
    """A line of the thread that a search found."""
    ephemeral: bool = False
    """In no list."""


class ThreadPage(Value):
    threads: tuple[ThreadSummary, ...]
    next_cursor: str | None = None
    partial: bool = False
    """The search has not read every thread yet; the same one a moment later finds more."""
