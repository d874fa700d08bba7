"""The state of one thread for the terminal, folded from the client's events. No widgets here."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from hames.client.appserver import events as agent_events
from hames.domain.cost import cost
from hames.domain.foreign import FOREIGN
from hames.domain.policy import ApprovalPolicy
from hames.domain.undo import undone_after, undone_paths
from hames.domain.usage import Usage
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.protocols.flint.items import PlanEntry
from hames.tui.blocks.actions import FileChangeBlock
from hames.tui.blocks.block import Block
from hames.tui.blocks.by_item import block_of
from hames.tui.blocks.messages import NoteBlock
from hames.tui.people import somebody_else
from hames.tui.text import listed_price

AGENT_OPTION = "agent"
"""The server's option that says which agent works: `code`, `plan` or `review`."""

Prices = Mapping[str, Mapping[str, float]]
"""By model: dollars for a million tokens, by what they were used for."""


class Spent:
    """Tokens and money, as far as they are known."""

    def __init__(self) -> None:
        self.total: m.TokenCount | None = None
        self.context = 0
        self.window: int | None = None
        self._by_model: dict[str, m.TokenCount] = {}

    def count(self, usage: m.TokenUsage) -> None:
        self.total = usage.total
        self.context = usage.last.total_tokens
        self.window = usage.model_context_window
        self._by_model = usage.by_model if isinstance(usage.by_model, dict) else {}

    def cost(self, prices: Prices) -> float | None:
        """None while nothing is spent, and when the price of a model is not known."""
        spent = {model: _usage(count) for model, count in self._by_model.items()}
        return cost(spent, lambda model: listed_price(prices.get(model))) if spent else None

    def without_price(self, prices: Prices) -> set[str]:
        """The models that were used and have no known price."""
        return set(self._by_model) - set(prices)


def _usage(count: m.TokenCount) -> Usage:
    """On the wire, cached tokens are part of the input; in `Usage` they are not."""
    return Usage(
        input_tokens=count.input_tokens - count.cached_input_tokens - count.cache_write_input_tokens,
        output_tokens=count.output_tokens,
        cache_read_tokens=count.cached_input_tokens,
        cache_write_tokens=count.cache_write_input_tokens,
    )


def _parents(path: str) -> list[str]:
    """
    >>> _parents("/w/made/file")
    ['/w/made', '/w']
    """
    return [str(parent) for parent in PurePosixPath(path).parents][:-1]


class Conversation:
    """One thread. `handle_event` says which block changed, and whether it is new."""

    def __init__(self, thread_id: str = "") -> None:
        self.thread_id = thread_id
        self.title = ""
        self.model = ""
        self.policy: ApprovalPolicy = "unlessTrusted"
        self.sandbox: m.SandboxPolicy = m.WorkspaceWrite()
        self.config: dict[str, str] = {}
        self.cwd = ""
        self.notes: list[str] = []
        """The project notes that the model is shown, by path."""
        self.turn_id = ""
        """The turn that runs, if one does."""
        self.review_turn_id = ""
        """The last turn that was started as a review."""
        self.waiting: list[m.QueuedPrompt] = []
        self.held = False
        self.plan: list[PlanEntry] = []
        self.starting: dict[str, None] = {}
        """MCP servers that are waited for, the first first."""
        self.own_undos = 0
        """Undos of this terminal whose notice is still to come."""
        self.spent = Spent()
        self.prices: Prices = {}
        self._blocks: dict[str, Block] = {}
        self._of_turn: dict[str, list[Block]] = {}
        self._undone: dict[str, tuple[str, ...]] = {}
        """By turn: the files of which its changes are taken back."""
        self._in_question: set[str] = set()
        """Items that wait for an approval."""

    @property
    def cost(self) -> float | None:
        return self.spent.cost(self.prices)

    @property
    def running(self) -> bool:
        return bool(self.turn_id)

    @property
    def mode(self) -> str:
        """`code`, `plan` or `review`: what the turn that runs, or else the next one, may do."""
        if self.turn_id and self.turn_id == self.review_turn_id:
            return "review"
        return self.config.get(AGENT_OPTION, "code")

    def opened(self, opened: m.ThreadOpened) -> list[Block]:
        """A thread as it was found, with the blocks of its history."""
        thread = opened.thread
        self.thread_id = thread.id
        self.title = thread.name or thread.preview
        self.model, self.cwd = opened.model or thread.model, opened.cwd or thread.cwd
        self.notes = thread.instruction_sources
        self.policy = opened.approval_mode or opened.approval_policy or self.policy
        self.sandbox = opened.sandbox or self.sandbox
        if isinstance(opened.token_usage, m.TokenUsage):
            self.spent.count(opened.token_usage)
        made: list[Block] = []
        for turn in thread.turns:
            for item in turn.items:
                block = block_of(item, self.cwd)
                block.waiting = item.id in self._in_question
                block.finish(item)
                self._blocks[item.id] = block
                self._of_turn.setdefault(turn.id, []).append(block)
                made.append(block)
            if turn.undone:
                self._set_undone(turn.id, tuple(turn.undone))
            made += self._ended(turn)
            if turn.status == "inProgress":
                self.turn_id = turn.id
        if thread.foreign:  # below its history, where the next prompt is typed
            made.append(NoteBlock(f"{FOREIGN} If you continue, the agent works in {self.cwd}", meaning="warn"))
        return made

    def grow(self, delta: agent_events.ItemDelta) -> Block | None:
        """The block that has something new to show."""
        block = self._blocks.get(delta.item_id)
        if block is not None:
            block.add(delta.text)
        return block

    def set_waiting(self, item_id: str, *, waiting: bool) -> Block | None:
        """The block of an item that waits for an approval, or waits no longer."""
        (self._in_question.add if waiting else self._in_question.discard)(item_id)
        block = self._blocks.get(item_id)
        if block is not None:
            block.waiting = waiting
        return block

    def handle_undo(self, event: agent_events.AgentEvent) -> list[Block]:
        """The blocks that an undo or a redo changes."""
        match event:
            case agent_events.Unknown(method="hames/undone" | "hames/redone" as method, params={"data": data}):
                name = method.removeprefix("hames/")
            case _:
                return []
        changed: list[Block] = []
        for turn_id in self._of_turn:
            if paths := undone_paths(data, turn_id):
                undone = undone_after(self._undone.get(turn_id, ()), name, paths, self.cwd)
                changed += self._set_undone(turn_id, undone)
        return changed

    def _set_undone(self, turn_id: str, undone: tuple[str, ...]) -> list[Block]:
        self._undone[turn_id] = undone
        changed = self._of_turn.get(turn_id, [])
        for block in changed:
            if isinstance(block, FileChangeBlock):
                block.taken_back = frozenset(undone)
        if changed:
            named = frozenset(undone)
            shown = [path for path in undone if not any(parent in named for parent in _parents(path))]
            changed[-1].undone = tuple(path.removeprefix(f"{self.cwd.rstrip('/')}/") for path in shown)
        return changed

    def handle_event(self, event: agent_events.AgentEvent) -> tuple[Block | None, bool]:
        match event:
            case agent_events.ItemDelta():
                return self.grow(event), False
            case agent_events.ItemStarted(turn_id=turn_id, item=item):
                if not isinstance(item, wire.UserMessageItem):
                    self.starting.clear()
                return self._item(turn_id, item, done=False)
            case agent_events.ItemCompleted(turn_id=turn_id, item=item):
                return self._item(turn_id, item, done=True)
            case agent_events.TurnStarted(turn=turn):
                self.turn_id = turn.id
                self.plan = []
                return None, False
            case agent_events.TurnCompleted(turn=turn):
                self.turn_id = ""
                self.starting.clear()
                ending = self._ended(turn)
                return (ending[0], True) if ending else (None, False)
            case agent_events.PlanUpdated(plan=plan):
                self.plan = plan
            case agent_events.UsageUpdated(token_usage=m.TokenUsage() as usage):
                self.spent.count(usage)
            case agent_events.UsageUpdated(usage=usage):
                self.spent.context = usage.input_tokens + usage.output_tokens
            case agent_events.SettingsChanged(settings=settings):
                self.model, self.cwd = settings.model, settings.cwd
                self.policy = settings.approval_mode or settings.approval_policy
                self.sandbox = settings.sandbox_policy
                self.config = dict(settings.config)
            case agent_events.NotesChanged(paths=paths):
                self.notes = paths
            case agent_events.QueueChanged(queue=queue, held=held):
                self.waiting, self.held = queue, held
            case agent_events.ThreadRenamed(name=name):
                self.title = name
            case agent_events.Unknown(method=method, params=params):
                return self._notice(method, params)
            case _:
                pass
        return None, False

    def _item(self, turn_id: str, item: wire.ThreadItem, *, done: bool) -> tuple[Block, bool]:
        block = self._blocks.get(item.id)
        fresh = block is None
        if block is None:
            block = self._blocks[item.id] = block_of(item, self.cwd)
            self._of_turn.setdefault(turn_id, []).append(block)
            block.waiting = item.id in self._in_question
            if not self.title and isinstance(item, wire.UserMessageItem):
                self.title = " ".join(getattr(part, "text", "") for part in item.content)[:80]
        if done:
            block.finish(item)
        return block, fresh

    def _notice(self, method: str, params: object) -> tuple[Block | None, bool]:
        match params:
            case {"data": {"server": str(server), "state": "starting"}}:
                self.starting[server] = None
            case {"data": {"server": str(server), "state": str()}}:
                self.starting.pop(server, None)
            case _:
                pass
        if self.own_undos and method in ("hames/undone", "hames/redone"):
            self.own_undos -= 1  # the answer to /undo says it, and which files
            return None, False
        words = params.get("message") if isinstance(params, dict) else None
        if not isinstance(words, str) or not words or method in ("error", "hames/foreign_thread"):
            return None, False  # told by the turn that failed, and by the thread itself when it was opened
        warns = isinstance(params, dict) and params.get("severity") == "warning"
        return NoteBlock(words, meaning="warn" if warns else "quiet"), True

    def _ended(self, turn: m.Turn) -> list[Block]:
        match turn.status:
            case "failed":
                why = turn.error.message if turn.error else "the turn failed"
                return [NoteBlock(why, meaning="bad", mark="✗")]
            case "interrupted":
                who = somebody_else(turn.interrupted_by)
                return [NoteBlock(f"interrupted by {who}" if who else "interrupted", meaning="warn", mark="■")]
            case _:
                return []
