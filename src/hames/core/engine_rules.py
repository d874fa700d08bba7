"""Options of an engine for its turns: step limit, deadlines of approvals, compaction, budgets, what follows a crash."""

from collections.abc import Callable

from hames.domain.budgets import BudgetMeasure, Budgets, BudgetScope
from hames.domain.ids import ThreadId, TurnId
from hames.domain.options import Settings
from hames.domain.policy import AfterCrash, DefaultAnswer
from hames.domain.value import Value
from hames.ports import DaySpending


class EngineRules(Value):
    """How this engine runs turns, beside what each thread says."""

    defaults: Settings
    max_steps: int = 200
    max_tokens: int = 0
    """Per reply; 0: what the model allows, within reason."""
    patience_s: float = 600.0
    """How long an approval waits when nobody who could answer is there."""
    approval_deadline_s: float = 0.0
    """How long an approval waits at most, counted from when it was first asked; 0: as long as it takes."""
    approval_default: DefaultAnswer = "reject"
    """The answer of an approval whose time is over."""
    after_crash: AfterCrash = "go_on"
    """What becomes of a turn whose process stopped, for threads that do not say it themselves."""
    continues: bool = True
    """Whether opening a thread goes on with a turn whose process stopped. False: such a turn is left as it is."""
    leaves_turns: bool = False
    """When the engine is closed, its turns are left for the next one, and questions wait until a client comes."""
    works: bool = True
    """Whether threads are written and turns run here. False: that is left to the other nodes of the store."""
    system_prompt: str | None = None
    """Replaces our own instructions altogether."""
    compacts: bool = True
    """Whether a conversation that grows too long is shortened by itself."""
    compact_at: int = 0
    """From how many tokens on it is; 0: a limit that suits the model."""
    supervises: bool = True
    """Whether the model is told about cut and empty replies, unfinished plans and changes that nothing was run for."""
    readable: tuple[str, ...] = ()
    """Directories outside the workspace whose files the agent's tools may read."""
    mcp_servers: tuple[str, ...] = ()
    """The names of the MCP servers that are started with a thread's tools."""
    only_agent: str = ""
    """The agent that runs every turn, whatever model a thread has: one with another model is moved to the default."""
    warnings: tuple[str, ...] = ()
    """What is wrong with the configuration, a sentence each: every thread is told with its first turn."""
    budgets: Budgets = Budgets()
    """How much a turn, a thread and a day may use before somebody is asked."""
    asks_about_hosts: bool = False
    """With `onRequest` commands may ask for any host: nobody configured anything else about the network."""
    day_spending: DaySpending | None = None
    """What the user spent today. None: the day has no budget."""
    text_block_ended: Callable[[ThreadId, str], None] | None = None
    """Called with each whole text block of a reply; a message may have several."""


class ThreadBudget:
    """What the budgets of a thread remember beside its log, while it is loaded."""

    def __init__(self) -> None:
        self.raised: dict[tuple[BudgetScope, BudgetMeasure], float] = {}
        """By how much people raised the limits."""
        self.requests: dict[TurnId, int] = {}
        """How often our own loop asked a model in each turn, also in vain."""
