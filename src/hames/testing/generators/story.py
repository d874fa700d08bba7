"""The generator of histories: it does to a thread what an engine could do, with every choice drawn by hypothesis.

It keeps no fold of its own: what an item completes with is what was streamed into it, so that
the laws compare two things and not one thing with itself.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from msgspec.structs import replace

from hames.domain import events, items
from hames.domain.actors import HAMES, Actor
from hames.domain.approvals import Approval, CallMcp, ChangeFiles, Elicit, Intent, RunCommand, UseTool
from hames.domain.grants import grant_for
from hames.domain.ids import ApprovalId, CallId, ItemId, PromptId, ThreadId, TurnId
from hames.domain.network import HostPort
from hames.domain.options import Settings
from hames.domain.policy import Decision
from hames.domain.project_notes import NoteFile
from hames.domain.usage import Usage

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

THREAD = ThreadId("ses_history")
WORDS = ("Hello", " wörld", "\n", "{}", "\u2028", "😀", "done. ")

ACTORS = (None, HAMES, Actor(kind="user", name="ann", via="terminal"), Actor(kind="token", name="bob", via="page"))
DRAWN: frozenset[type[events.Event]] = frozenset(
    {
        events.ApprovalRequested,
        events.ApprovalResolved,
        events.ContextAdded,
        events.ContextTrimmed,
        events.ItemCompleted,
        events.ItemDelta,
        events.ItemStarted,
        events.NotesRead,
        events.Noticed,
        events.PromptQueued,
        events.PromptRemoved,
        events.QueueHeld,
        events.SettingsChanged,
        events.StepVoided,
        events.ThreadArchived,
        events.ThreadCreated,
        events.ThreadRenamed,
        events.ToolCalled,
        events.TurnEnded,
        events.TurnStarted,
        events.UsageReported,
    }
)
"""What this generator draws. The tests look for an example of each."""


class _Stopped(Exception):
    """The turn is over before its time."""


class HistoryGenerator:
    """Makes up one history. Raises `NotImplementedError` while there is an event that it never draws."""

    def __init__(self, draw: "DrawFn") -> None:
        from hypothesis import strategies as st

        if undrawn := set(get_args(events.Event)) - DRAWN:
            raise NotImplementedError(f"histories have no {', '.join(sorted(kind.__name__ for kind in undrawn))}")
        self._draw = draw
        self._st = st
        self._records: list[events.Record] = []
        self._now = 1_700_000_000_000
        self._names = 0
        self._turn = TurnId("")
        self._open: dict[ItemId, items.Item] = {}
        self._asked: dict[ApprovalId, Approval] = {}
        self._queue: list[PromptId] = []
        self._settings = Settings(model="anthropic/claude", cwd="/w")

    def history(self, max_turns: int) -> list[events.Record]:
        self._tell(events.ThreadCreated(settings=self._settings, title=self._one_of(("", "A title"))))
        for _ in range(self._number(0, max_turns)):
            self._aside()
            self._tell_turn()
        if self._perhaps():
            self._tell(events.ThreadArchived(archived=True))
        return self._records

    # What is drawn

    def _one_of(self, choices: Sequence[Any]) -> Any:
        return self._draw(self._st.sampled_from(choices))

    def _number(self, low: int, high: int) -> int:
        return self._draw(self._st.integers(low, high))

    def _perhaps(self) -> bool:
        return self._draw(self._st.booleans())

    def _seldom(self) -> bool:
        return self._number(0, 7) == 7

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}_{self._names}"

    # What is told

    def _tell(self, event: events.Event) -> None:
        self._now += self._number(0, 3)
        seq = self._records[-1].seq + 1 if self._records else 1
        self._records.append(events.Record(seq=seq, at_ms=self._now, thread_id=THREAD, event=event))

    def _start(self, item: items.Item) -> ItemId:
        self._tell(events.ItemStarted(turn_id=self._turn, item=item))
        self._open[item.id] = item
        return item.id

    def _complete(self, item_id: ItemId, **fields: Any) -> None:
        self._tell(events.ItemCompleted(turn_id=self._turn, item=replace(self._open.pop(item_id), **fields)))

    def _stream(self, item_id: ItemId) -> None:
        """One bundle into one of the item's streams."""
        item = self._open[item_id]
        streams = sorted(items.STREAMS[type(item)])
        if not streams:
            return
        stream, pieces = self._one_of(streams), [self._one_of(WORDS) for _ in range(self._number(1, 3))]
        for position, text in enumerate(pieces):
            delta = events.ItemDelta(turn_id=self._turn, item_id=item_id, stream=stream, text=text)
            if position == 0:
                self._tell(delta)
            else:
                self._records.append(replace(self._records[-1], event=delta))
            item = replace(item, **{stream: getattr(item, stream) + text})
        self._open[item_id] = item

    def _tell_turn(self) -> None:
        self._turn = TurnId(self._name("turn"))
        self._tell(
            events.TurnStarted(turn_id=self._turn, kind=self._one_of(("prompt", "review", "compact")), by=self._actor())
        )
        self._say_as_user(step=0)
        status, error = "completed", None
        try:
            for step in range(1, self._number(1, 3) + 1):
                self._tell_step(step)
        except _Stopped:
            status = self._one_of(("interrupted", "failed"))
            error = events.TurnError(message="no more", info="Other") if status == "failed" else None
            self._close_all()
        by = self._actor() if status == "interrupted" else None
        self._tell(events.TurnEnded(turn_id=self._turn, status=status, error=error, stop_reason="end_turn", by=by))

    def _say_as_user(self, step: int) -> None:
        content = (items.TextInput(text=self._one_of(WORDS)),)
        item_id = ItemId(self._name("item"))
        self._complete(self._start(items.UserMessage(id=item_id, step=step, content=content, by=self._actor())))

    def _actor(self) -> Actor | None:
        return self._one_of(ACTORS)

    def _close_all(self) -> None:
        for approval in list(self._asked.values()):
            self._answer(approval, "void")
        for item_id, item in list(self._open.items()):
            self._complete(item_id, status=items.closed(item, "interrupted").status)

    def _stop_here(self) -> None:
        if self._seldom():
            raise _Stopped

    def _tell_step(self, step: int) -> None:
        self._tell_reply(step)
        calls = [self._call() for _ in range(self._number(0, 3))]
        for call in calls:
            self._tell(events.ToolCalled(turn_id=self._turn, step=step, call=call))
        self._tell(
            events.UsageReported(turn_id=self._turn, model="claude", usage=Usage(input_tokens=3, output_tokens=5))
        )
        self._aside()
        for number, call in enumerate(calls, 1):
            if not self._tell_tool(self._tool_item(call, step)):
                for skipped in calls[number:]:
                    self._skip(skipped, step)
                break
        if self._seldom():
            self._say_as_user(step)
        if self._seldom():
            self._tell(events.ContextAdded(turn_id=self._turn, step=step, text=self._one_of(WORDS)))
        elif self._seldom():
            self._tell(events.ContextTrimmed(turn_id=self._turn, step=step, results=self._number(0, 3)))

    def _skip(self, call: items.Call, step: int) -> None:
        result = items.ToolResult(text="not executed", failed=True, reason="skipped")
        item = items.ToolCall(
            id=ItemId(self._name("item")), step=step, call_id=call.id, name=call.name, status="skipped", result=result
        )
        self._complete(self._start(item))

    def _tell_reply(self, step: int) -> None:
        """Blocks of one reply may stream side by side."""
        kinds: list[Callable[[ItemId], items.Item]] = [
            lambda name: items.AgentMessage(id=name, step=step),
            lambda name: items.Reasoning(id=name, step=step),
            lambda name: items.WebSearch(id=name, step=step, query="q"),
            lambda name: items.Compaction(id=name, step=step),
        ]
        blocks = [self._start(self._one_of(kinds)(ItemId(self._name("item")))) for _ in range(self._number(0, 2))]
        for _ in range(self._number(0, 3) if blocks else 0):
            self._stop_here()
            self._stream(self._one_of(blocks))
        for item_id in self._draw(self._st.permutations(blocks)):
            self._complete(item_id, status="completed")
        if self._seldom():
            self._tell(events.StepVoided(turn_id=self._turn, step=step))

    def _call(self) -> items.Call:
        return items.Call(id=CallId(self._name("call")), name=self._one_of(("shell", "edit", "plan")), arguments="{}")

    def _tool_item(self, call: items.Call, step: int) -> items.ToolItem:
        name, call_id = ItemId(self._name("item")), call.id
        update = items.FileUpdate(path="/w/a", kind=self._one_of(("add", "modify", "delete")), diff="@@\n+x\n")
        kinds: list[items.ToolItem] = [
            items.CommandExecution(id=name, step=step, call_id=call_id, command=self._one_of(("ls", "make")), cwd="/w"),
            items.FileChange(id=name, step=step, call_id=call_id, changes=(update,)),
            items.McpToolCall(id=name, step=step, call_id=call_id, server="s", tool="t", arguments={"a": 1}),
            items.Plan(
                id=name, step=step, call_id=call_id, entries=(items.PlanEntry(step="one", status="inProgress"),)
            ),
            items.ToolCall(id=name, step=step, call_id=call_id, name=call.name, arguments={}),
            items.Artifact(id=name, step=step, call_id=call_id, path="/w/out"),
            items.WebSearch(id=name, step=step, call_id=call_id, query="q"),
        ]
        return self._one_of(kinds)

    def _tell_tool(self, item: items.ToolItem) -> bool:
        """Whether the next call may run."""
        item_id = self._start(item)
        if (intent := _intent(item)) and self._perhaps() and not self._allowed(item, intent):
            self._complete(item_id, status="declined", result=items.ToolResult(text="declined", failed=True))
            return False
        for _ in range(self._number(0, 2)):
            self._stop_here()
            self._stream(item_id)
        if isinstance(item, items.McpToolCall) and self._seldom():
            self._allowed(item, Elicit(server=item.server, message="Sure?", schema={"type": "object"}))
        if isinstance(item, items.CommandExecution) and self._seldom():
            to = HostPort(host="example.org", port=443)
            self._allowed(item, RunCommand(command=item.command, cwd=item.cwd, connects_to=to, is_running=True))
        failed = self._seldom()
        result = items.ToolResult(text="so it went", failed=failed)
        self._complete(item_id, status="failed" if failed else "completed", result=result)
        return not failed

    def _allowed(self, item: items.ToolItem, intent: Any) -> bool:
        approval = Approval(id=ApprovalId(self._name("apr")), turn_id=self._turn, item_id=item.id, intent=intent)
        self._asked[approval.id] = approval
        self._tell(events.ApprovalRequested(approval=approval))
        self._stop_here()
        decision: Decision = self._one_of(("once", "always", "reject"))
        self._answer(approval, decision)
        return decision != "reject"

    def _answer(self, approval: Approval, decision: Decision) -> None:
        del self._asked[approval.id]
        self._tell(
            events.ApprovalResolved(
                turn_id=approval.turn_id,
                approval_id=approval.id,
                item_id=approval.item_id,
                decision=decision,
                grant=grant_for(approval.intent) if decision == "always" else None,
                by=self._actor(),
            )
        )

    def _aside(self) -> None:
        """What happens beside the work."""
        match self._number(0, 10):
            case 0:
                severity = self._one_of(("info", "warning"))
                self._tell(events.Noticed(source="hames", name="retry", message="once more", severity=severity))
            case 1:
                self._tell(events.ThreadRenamed(title=self._one_of(WORDS), by=self._actor()))
            case 2:
                self._queue.append(PromptId(self._name("prompt")))
                self._tell(
                    events.PromptQueued(
                        prompt_id=self._queue[-1], content=(items.TextInput(text="next"),), by=self._actor()
                    )
                )
            case 3 if self._queue:
                self._tell(events.PromptRemoved(prompt_id=self._queue.pop(0), by=self._actor()))
            case 4:
                self._tell(events.QueueHeld(held=self._perhaps()))
            case 5:
                self._settings = replace(self._settings, model=self._one_of(("openai/gpt", "anthropic/claude")))
                self._tell(events.SettingsChanged(settings=self._settings, by=self._actor()))
            case 6:
                self._tell(events.NotesRead(files=(NoteFile(path=self._one_of(("/w/AGENTS.md", "/w/a/CLAUDE.md"))),)))
            case 7 if begun := [
                one.event.turn_id for one in self._records if isinstance(one.event, events.TurnStarted)
            ]:
                about = {"byTurn": {turn: ["a"] for turn in {self._one_of(begun), self._one_of(begun)}}}
                name = self._one_of((events.UNDONE, events.UNDONE, events.REDONE))
                self._tell(events.Noticed(source="hames", name=name, message="1 change undone", data=about))
            case _:
                pass


def _intent(item: items.ToolItem) -> Intent | None:
    match item:
        case items.CommandExecution(command=command, cwd=cwd):
            return RunCommand(command=command, cwd=cwd)
        case items.FileChange(changes=changes):
            return ChangeFiles(changes=changes)
        case items.McpToolCall(server=server, tool=tool, arguments=arguments):
            return CallMcp(server=server, tool=tool, arguments=arguments)
        case items.ToolCall(name=name, arguments=arguments):
            return UseTool(name=name, arguments=arguments)
        case items.WebSearch(query=query):
            return UseTool(name="web_search", arguments={"query": query}, vouched=True)
        case items.Plan() | items.Artifact():
            return None
