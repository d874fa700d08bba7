"""What the agent wants to do, and the question that is asked about it.

An intent is judged before anything happens; what a person is shown is the
intent itself, so the text shown is byte for byte the text run.
"""

from hames.domain.ids import ApprovalId, ItemId, TurnId
from hames.domain.items import FileUpdate
from hames.domain.json import Json
from hames.domain.network import HostPort
from hames.domain.policy import Decision, ScriptFile
from hames.domain.rules import Rule
from hames.domain.value import Value


class Harmless(Value, tag="harmless"):
    """Reads inside the workspace, or only talks. Only a rule asks about it."""

    reads: tuple[str, ...] = ()
    """The files whose content it shows, absolute."""


class RunCommand(Value, tag="run_command"):
    """`unsandboxed`: the model wants to run it outside the sandbox; `why` is its reason."""

    command: str
    cwd: str
    unsandboxed: bool = False
    why: str = ""
    scripts: tuple[ScriptFile, ...] = ()
    """The files that decide what it does."""
    repeatable: bool = True
    """False: it names more such files than can be remembered, so it is asked about every time."""
    process: str = ""
    """It is no command but input for this process, which runs already. Nothing is known about what it does."""
    url: str = ""
    """It is no command but fetches this page, behind the walls."""
    connects_to: HostPort | None = None
    """The question is whether it may connect there, and nothing else."""
    is_running: bool = False
    """It has been started already."""


class ChangeFiles(Value, tag="change_files"):
    """`protected`: changes a protected file (`.git`, `.harness`, agent configuration), which every policy asks
    about."""

    changes: tuple[FileUpdate, ...]
    protected: bool = False


class CallMcp(Value, tag="call_mcp"):
    server: str
    tool: str
    arguments: Json = None


class UseTool(Value, tag="use_tool"):
    """A tool whose effects are unknown. `vouched`: the user configured it for this, so only the policy `always`
    asks."""

    name: str
    arguments: Json = None
    vouched: bool = False


Intent = Harmless | RunCommand | ChangeFiles | CallMcp | UseTool


class Elicit(Value, tag="elicit"):
    """What an MCP server asks a person while its tool runs: a form, or an address to visit.

    Only a person can answer it. The question shows which server asks; Hames never opens the address.
    """

    server: str
    message: str
    schema: Json = None
    """What the form wants: JSON Schema of a flat object. None when an address is to be visited."""
    url: str = ""


def is_about_running(intent: "Intent | Elicit") -> bool:
    """Whether the question comes from a tool that runs already. Any other comes before its tool does."""
    return isinstance(intent, Elicit) or (isinstance(intent, RunCommand) and intent.is_running)


class Approval(Value, omit_defaults=True):
    """A pending question. Nothing runs without a recorded answer."""

    id: ApprovalId
    turn_id: TurnId
    item_id: ItemId
    intent: RunCommand | ChangeFiles | CallMcp | UseTool | Elicit
    reason: str = ""
    """Why it is asked, in words for people."""
    asked_at_ms: int = 0
    """When it was asked first. The log has it beside the event: the state fills it in."""
    rule: Rule | None = None
    """The rule that asks; None: the approval policy does."""
    offer: Rule | None = None
    """A rule that the answer can write into the user's file, so that nobody is asked again in this project."""


class Answer(Value):
    """`note` is a word to whoever asked; `content` is a form filled in."""

    decision: Decision
    note: str = ""
    content: Json = None
