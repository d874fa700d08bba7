"""Whether a turn gets on, and whether it is really finished when the model says nothing more.

Each remark is a note to the model, made once or a few times and never for ever: then the turn ends, and says why.
"""

import re
from collections.abc import Sequence

from hames.core import compaction
from hames.core.kept_facts import latest_plan, plan_text
from hames.core.turn import LoopTurn
from hames.domain.errors import EmptyReply, RepeatedFailure, ReplyCutOff
from hames.domain.events import ContextAdded, Noticed
from hames.domain.ids import CallId
from hames.domain.items import AgentMessage, CommandExecution, FileChange, Item, McpToolCall, Plan, ToolCall, ToolItem
from hames.domain.request import ReplyEnded
from hames.domain.situation import note

CUT_REPLIES, EMPTY_REPLIES = 3, 2
"""How many in a row are gone on from."""
FAILURES_REMARKED, FAILURES_STOPPED = 3, 8
"""How often the same call may fail in the same way before the model is told, and before the turn is stopped."""
PLAN_STEPS = 15
"""After so many steps without a word about it, a plan is remembered."""
STEPS_LEFT = 10
PROSE = (".md", ".txt", ".rst", ".adoc", ".org", "LICENSE", "README", "CHANGELOG", ".gitignore")
"""Files that nothing can be run for."""


class Progress:
    """Of one turn."""

    def __init__(self, turn: LoopTurn) -> None:
        self._turn = turn
        self._cut = 0
        self._empty = 0
        self._failures: dict[tuple[str, str], tuple[str, int]] = {}
        """By a call's name and arguments: what it failed with, and how often in a row."""
        self._plan_reminded_at = 0
        self._nudged: set[str] = set()
        self._ended: ReplyEnded | None = None
        """How the last reply ended that called no tool."""
        self.may_end = False
        """The model gave its answer, and was only asked whether that is all."""

    async def after_tools(self, ended: ReplyEnded | None, steps_left: int) -> None:
        """Remarks on what the calls of the last step show. Raises `RepeatedFailure`."""
        turn = self._turn
        self._cut = self._empty = 0
        self.may_end = False
        notes: list[str] = []
        if ended is not None and ended.reason == "max_tokens":
            notes.append("Your reply was cut off behind these calls. If there was to be another, make it again.")
        for call, item in self._answered():
            notes += self._note_failure(call, item)
        plan = self._open_plan() if turn.supervises else None
        if plan is not None and turn.step - max(plan.step, self._plan_reminded_at) >= PLAN_STEPS:
            self._plan_reminded_at = turn.step
            notes.append(f"Your plan is {turn.step - plan.step} steps old. Bring it up to date:\n{plan_text(plan)}")
        if steps_left == STEPS_LEFT < turn.max_steps:
            notes.append(
                f"{steps_left} model calls are left in this turn. Finish what matters most, and say what is left."
            )
        if turn.supervises and (words := compaction.nearly_due(turn)):
            notes.append(words)
        if notes:
            await self.tell(*notes)

    def before_end(self, ended: ReplyEnded | None) -> str:
        """What to tell the model that stopped and is not finished; empty if it may stop.

        Raises `ReplyCutOff` and `EmptyReply`.
        """
        turn = self._turn
        self._ended, self.may_end = ended, False
        if not turn.supervises:
            return ""
        reason = ended.reason if ended is not None else "end"
        said = [item for item in turn.items if item.step == turn.step and isinstance(item, AgentMessage)]
        if reason in ("max_tokens", "tools"):  # without a whole call: it was lost with the rest
            self._cut += 1
            limit = f"the limit of {turn.max_tokens:,} tokens" if reason == "max_tokens" else "its end"
            if self._cut > CUT_REPLIES:
                raise ReplyCutOff(f"the model's reply was cut off at {limit}, {self._cut} times in a row")
            return (
                f"Your reply was cut off at {limit}. What you said is above; a tool call that was cut was not executed."
                " Go on from there, in smaller pieces."
            )
        if not any(item.text.strip() for item in said):
            self._empty += 1
            if self._empty > EMPTY_REPLIES:
                raise EmptyReply(f"the model's reply was empty, {self._empty} times in a row")
            return "Your reply was empty. Go on with the task, or say what you did and what you found."
        return self._unfinished()

    def _unfinished(self) -> str:
        plan = self._open_plan()
        if plan is not None and "plan" not in self._nudged:
            self._nudged.add("plan")
            self.may_end = True
            return (
                "Your plan is not finished:\n"
                f"{plan_text(plan)}\nFinish it, or bring it up to date and say what is left and why."
            )
        if (files := self._unchecked()) and "check" not in self._nudged:
            self._nudged.add("check")
            self.may_end = True
            return (
                f"You changed {', '.join(files[:5])} and ran nothing since. Run what shows that it works (the tests,"
                " the program, the compiler), or say why nothing can be run."
            )
        return ""

    async def end(self) -> str:
        """Says what the turn leaves undone although the model was told. Returns why the model stopped, in its word."""
        names: list[tuple[str, str]] = []
        ended = self._ended
        if ended is not None and ended.reason == "max_tokens":  # and nobody told the model to go on
            limit = f"its limit of {self._turn.max_tokens} tokens"
            names.append(("cut_off", f"the model stopped at {limit}; ask it to go on"))
        if self._open_plan() is not None:
            names.append(("plan_unfinished", "The turn ended with an unfinished plan"))
        if files := self._unchecked():
            names.append(("changes_unchecked", f"Nothing was run after {', '.join(files[:5])} changed"))
        for name, words in names:
            event = Noticed(source="hames", name=name, message=words, turn_id=self._turn.turn_id)
            await self._turn.handle.emit(event)
        return (ended.word or ended.reason) if ended is not None else ""

    async def tell(self, *lines: str) -> None:
        """Adds a note of the harness to the conversation."""
        turn = self._turn
        await turn.handle.emit(ContextAdded(turn_id=turn.turn_id, step=turn.step, text=note(*lines)))

    def _answered(self) -> list[tuple[tuple[str, str], ToolItem]]:
        """The calls of the last step by name and arguments, with what came of each."""
        turn = self._turn
        calls = {called.call.id: (called.call.name, called.call.arguments) for called in turn.calls}
        found: list[tuple[tuple[str, str], ToolItem]] = []
        for item in turn.items:
            call_id: CallId | None = getattr(item, "call_id", None)
            if item.step == turn.step and call_id and call_id in calls:
                assert isinstance(item, ToolItem)
                found.append((calls[call_id], item))
        return found

    def _note_failure(self, call: tuple[str, str], item: ToolItem) -> list[str]:
        if item.status == "skipped":
            return []
        if item.result is None or not item.result.failed:
            self._failures.pop(call, None)
            if isinstance(item, FileChange):  # something is different: what failed before may work now
                self._failures.clear()
            return []
        text = re.sub(r"\d+", "0", item.result.text)
        before, times = self._failures.get(call, ("", 0))
        times = times + 1 if text == before else 1
        self._failures[call] = text, times
        if times >= FAILURES_STOPPED:
            why = item.result.text.strip().splitlines()
            raise RepeatedFailure(
                f"stopped: the same call of {call[0]!r} failed {times} times in the same way: {why[-1] if why else ''}"
            )
        if times != FAILURES_REMARKED:
            return []
        return [
            f"The same call of {call[0]!r} has now failed {times} times in the same way. Trying again will not help:"
            " find out why it fails, do it differently, or tell the user what is in the way."
        ]

    def _open_plan(self) -> Plan | None:
        """The plan of this turn, if it has steps that are not done."""
        plan = latest_plan(self._turn.items)
        if plan is None or all(entry.status in ("completed", "failed") for entry in plan.entries):
            return None
        return plan

    def _unchecked(self) -> list[str]:
        """Files that were changed and nothing was run since, where something could have been."""
        if "shell" not in self._turn.tools:
            return []
        return unchecked_files(self._turn.items)


def unchecked_files(items: Sequence[Item]) -> list[str]:
    changed: dict[str, None] = {}
    for item in items:
        match item:
            case FileChange(status="completed", changes=changes):
                changed |= {update.path: None for update in changes if not update.path.endswith(PROSE)}
            case CommandExecution(exit_code=int()):
                changed.clear()
            case McpToolCall(status="completed"):
                changed.clear()
            case ToolCall(status="completed", name=name) if name not in _LOOKING:
                changed.clear()
            case _:
                pass
    return [path.rpartition("/")[2] for path in changed]


_LOOKING = frozenset({"read", "grep", "glob", "list"})
"""Tools of ours that check nothing."""
