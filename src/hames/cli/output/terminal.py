"""`hames run` for people: the answer on one stream, what is done for it on the other."""

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol, TextIO

import anyio
import msgspec

from hames.cli.answers import read_answer
from hames.cli.paint import Paint, diff_lines
from hames.cli.wrapping import WordWrap, columns, fold
from hames.client.appserver import events as agent_events
from hames.domain.display import PrintableStream, one_line, printable, visible
from hames.domain.foreign import FOREIGN
from hames.domain.items import NOT_RUN, USER_DECLINED
from hames.domain.json import Json
from hames.domain.value import Value
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.tui.text import dollars, source_lines, tokens

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS = 0.12
WHY_CHARS = 400
"""Of a reason, in one line."""


class Ending(Value):
    """How a run ended. `hint` is what to do after a failure, `cost` is in dollars."""

    code: int
    why: str = ""
    said: str = ""
    answer: Json = None
    hint: str = ""
    usage: m.Usage | None = None
    cost: float | None = None

    @property
    def used(self) -> str:
        """
        >>> Ending(code=0, usage=m.Usage(input_tokens=1200, output_tokens=30), cost=0.02).used
        '1.2k tokens in, 30 out · $0.02'
        """
        if self.usage is None:
            return ""
        cached = (self.usage.cache_read_tokens, self.usage.cache_write_tokens)
        count = self.usage.input_tokens + sum(part for part in cached if isinstance(part, int))
        words = f"{tokens(count)} tokens in, {tokens(self.usage.output_tokens)} out"
        return words if self.cost is None else f"{words} · {dollars(self.cost)}"


class RunView(Protocol):
    """Where a run is shown."""

    def opened(self, opened: m.ThreadOpened) -> None: ...
    def handle_event(self, event: agent_events.AgentEvent) -> None: ...
    def answer(self, answer: Json) -> None: ...
    def ended(self, ending: "Ending") -> None: ...

    async def decide(self, asked: agent_events.ApprovalAsked) -> m.ApprovalWord | None:
        """None where no person can answer."""
        ...

    async def progress(self) -> None:
        """Runs beside everything until it is cancelled."""
        ...


def next_step(info: str, thread_id: str) -> str:
    """What to do about a failed turn. `info` is the error's kind in flint."""
    again = f"continue with: hames run --thread {thread_id} PROMPT"
    match info:
        case "Unauthorized":
            return f"`hames config` shows where the key comes from; with the right one {again}"
        case "ModelNotFound":
            return f"`hames models` lists the models; {again} --model MODEL"
        case "UsageLimitExceeded" | "ServerOverloaded":
            return f"wait a while, or choose another model: hames run --thread {thread_id} PROMPT --model MODEL"
        case "ContextWindowExceeded":
            return f"start a new thread, or shorten this one with /compact in: hames tui --thread {thread_id}"
        case "SandboxError":
            return f"`hames doctor` says what is missing; then {again}"
        case "BudgetReached":
            return f"{again}; `budgets` in config.toml or --max-cost and the like allow more"
        case "StepLimitReached":
            return f"{again}; `max_steps` in config.toml allows more model calls"
        case "NeedsApproval":
            return (
                f"to answer yourself, continue in the terminal: hames --thread {thread_id}; to continue without"
                f" questions,"
                f" in the sandbox: hames run --thread {thread_id} --approval-policy never PROMPT"
            )
        case _:
            return again


class TerminalView:
    def __init__(self, out: TextIO | None, aside: TextIO | None, *, paint: Paint, asks: bool) -> None:
        """`out` gets the agent's words, `aside` the rest; None is silence. `asks`: a person can answer."""
        self._out = out
        self._aside = aside
        self._paint = paint
        self._asks = asks
        self._thread_id = ""
        self._doing = "thinking"
        self._since = time.monotonic()
        self._moving = aside is not None and aside.isatty()
        self._drawn = False
        self._texts: defaultdict[str, PrintableStream] = defaultdict(PrintableStream)
        self._wrap = WordWrap(columns(out) if out is not None else 0)
        self._half = False
        """Whether the agent's last line is still open."""
        self.final_only = False
        """Of the agent's words only the last message is shown, at the end."""

    def opened(self, opened: m.ThreadOpened) -> None:
        self._thread_id = opened.thread.id
        head = f"{visible(opened.model)} in {visible(opened.cwd)} · {opened.thread.id}"
        self._line(self._paint.dim(fold(head, columns(sys.stderr))))
        if opened.thread.foreign:
            self._always(f"! {FOREIGN}", self._paint.warn)

    def handle_event(self, event: agent_events.AgentEvent) -> None:
        match event:
            case agent_events.ItemStarted(item=item):
                self._started(item)
            case agent_events.ItemDelta(channel="agentMessage/delta", item_id=item_id, text=text):
                self._say(self._texts[item_id].feed(text))
            case agent_events.ItemDelta(channel="commandExecution/outputDelta", item_id=item_id, text=text):
                for line in self._texts[item_id].feed(text).splitlines():
                    self._line(self._paint.dim(f"  {line}"))
            case agent_events.ItemCompleted(item=item):
                self._texts.pop(item.id, None)
                self._completed(item)
            case agent_events.PlanUpdated(plan=plan):
                marks = {"completed": "✓", "inProgress": "→", "failed": "✗", "pending": "·"}
                for entry in plan:
                    self._line(self._paint.dim(f"  {marks[entry.status]} {visible(entry.step)}"))
            case agent_events.Unknown(method="hames/foreign_thread"):
                pass  # said when the thread was opened
            case agent_events.Unknown(params={"message": str(words), "severity": "warning"}):
                self._line(self._paint.warn(f"! {visible(words)}"))
            case agent_events.Unknown(params={"message": str(words)}) if words:
                self._doing = visible(words)
                self._line(self._paint.dim(f"· {printable(words)}"))
            case _:
                pass

    async def decide(self, asked: agent_events.ApprovalAsked) -> m.ApprovalWord | None:
        self._line(self._paint.warn(f"? {visible(asked.params.reason or 'this needs an approval')}"))
        match asked.params:
            case m.CommandApprovalParams(command=command, cwd=cwd):
                self._line(f"  $ {visible(command)}\n  in {visible(cwd)}")
            case m.FileChangeApprovalParams(changes=changes):
                for change in changes:
                    self._change(change)
            case m.McpApprovalParams(server=server, tool=tool):
                self._line(f"  {visible(server)}/{visible(tool)}")
            case m.ToolApprovalParams(name=name):
                self._line(f"  {visible(name)}")
            case m.ElicitationParams():
                pass  # the reason says who asks, what, and for which fields
        if not self._asks:
            return None
        moving, self._moving = self._moving, False
        self._clear()
        if asked.always_covers:
            self._line(self._paint.dim(self._indented("always: ", asked.always_covers)))
        if asked.project_covers:
            self._line(self._paint.dim(self._indented("project: ", asked.project_covers)))
        offered = ["[y]es", *["[a]lways"] * asked.offers_always, *["[p]roject"] * bool(asked.project_covers), "[n]o"]
        try:
            answer = await read_answer(f"  {', '.join(offered)}: ")
        except anyio.get_cancelled_exc_class():
            sys.stderr.write("\n")
            raise
        finally:
            self._moving = moving
        words: dict[str, m.ApprovalWord] = {"y": "accept"}
        if asked.offers_always:
            words["a"] = "acceptForSession"
        if asked.project_covers:
            words["p"] = "acceptForProject"
        return words.get(answer.strip().lower()[:1], "decline")

    def answer(self, answer: Json) -> None:
        self._clear()
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n")
        sys.stdout.flush()

    def ended(self, ending: "Ending") -> None:
        self._moving = False  # `progress` still runs for a moment, and would leave its line behind
        self._end_line()
        self._clear()
        if self.final_only and ending.said:
            said = printable(ending.said).removesuffix("\n") + "\n"
            sys.stdout.write(WordWrap(columns(sys.stdout)).feed(said))
            sys.stdout.flush()
        match ending.code:
            case 1 | 4 | 5 | 6 | 7 | 10:
                self._always(f"failed: {visible(ending.why or 'the turn failed')}", self._paint.bad)
            case 2:
                self._always(f"hames: {visible(ending.why)}")
            case 8 | 9:
                self._always(f"unfinished: {visible(ending.why)}", self._paint.warn)
            case 3:
                self._always(f"stopped: {visible(ending.why)}", self._paint.warn)
            case 130:
                self._always("interrupted", self._paint.warn)
            case _:
                pass
        if ending.hint:
            self._always(ending.hint)
        if ending.usage is not None and self._aside is not None and self._aside.isatty():
            self._line(self._paint.dim(ending.used))

    async def progress(self) -> None:
        while True:
            await anyio.sleep(FRAME_SECONDS)
            if self._moving and self._aside is not None and not self._half:
                spent = time.monotonic() - self._since
                frame = FRAMES[int(spent / FRAME_SECONDS) % len(FRAMES)]
                self._aside.write(f"\r\x1b[2K{frame} {spent:.0f} s · {self._doing}")
                self._aside.flush()
                self._drawn = True

    def _started(self, item: wire.ThreadItem) -> None:
        match item:
            case wire.CommandExecutionItem(command=command):
                self._doing = f"$ {visible(command)[:50]}"
                self._line(f"{self._paint.accent('$')} {self._paint.bold(visible(command))}")
            case wire.FileChangeItem(changes=changes):
                self._doing = "changing files"
                for change in changes:
                    self._change(change)
            case wire.ToolCallItem(name=name, arguments=arguments):
                told_of = " ".join(f"{key}={value}" for key, value in (arguments or {}).items())
                self._doing = visible(name)
                self._line(self._paint.dim(f"· {visible(name)} {visible(told_of)[:200]}"))
            case wire.McpToolCallItem(server=server, tool=tool):
                self._line(self._paint.dim(f"· {visible(server)}/{visible(tool)}"))
            case wire.WebSearchItem(query=query):
                self._line(self._paint.dim(f"· web {visible(query)}"))
            case wire.UnknownItem(kind=kind, id=item_id, text=text):
                self._line(self._paint.dim(f"· {visible(kind)} {visible(item_id)} {visible(text)[:200]}"))
            case _:
                self._doing = "thinking"

    def _completed(self, item: wire.ThreadItem) -> None:
        self._doing = "thinking"
        match item:
            case wire.AgentMessageItem():
                self._end_line()
                if sources := source_lines(item):
                    self._say("\n" + "".join(f"{visible(source)}\n" for source in sources))
            case wire.CommandExecutionItem(status="completed", exit_code=code):
                self._line(self._paint.good(f"  ✓ exit code {code}" if isinstance(code, int) else "  ✓ completed"))
            case wire.CommandExecutionItem() | wire.FileChangeItem() | wire.ToolCallItem() | wire.McpToolCallItem():
                self._failed(item)
            case wire.ArtifactItem(status="completed", path=path):
                self._line(f"made {visible(path)}")
            case wire.ArtifactItem() | wire.WebSearchItem():
                self._failed(item)
            case _:
                pass

    def _failed(self, item: wire.ToolItem) -> None:
        """How a tool ended that did not do what it was called for, and why: one line."""
        if item.status == "completed" or not isinstance(item.status, str):
            return
        why = one_line(wire.reason_of(item), WHY_CHARS)
        why = "" if why == USER_DECLINED else why
        if item.outcome == "skipped" or why == NOT_RUN:
            self._line(self._paint.dim(f"  – {why or 'skipped'}"))
            return
        code = item.exit_code if isinstance(item, wire.CommandExecutionItem) else None
        words = f"exit code {code}" if isinstance(code, int) else item.status
        self._line(self._paint.bad(f"  ✗ {words}: {why}" if why else f"  ✗ {words}"))

    def _change(self, change: wire.FileUpdateChange) -> None:
        self._line(f"{self._paint.accent('±')} {self._paint.bold(visible(change.path))}")
        for line in diff_lines(change.diff):
            self._line(f"  {self._paint.diff(visible(line))}")

    def _say(self, text: str) -> None:
        if self._out is not None and text:
            self._clear()
            self._out.write(self._wrap.feed(text))
            self._out.flush()
            self._half = not text.endswith("\n")

    def _indented(self, head: str, words: str) -> str:
        width = columns(self._aside) if self._aside is not None else 0
        return f"  {head}{fold(visible(words), width, indent=len(head) + 2)}"

    def _end_line(self) -> None:
        if self._half and self._out is not None:
            self._out.write(self._wrap.feed("\n"))
            self._out.flush()
        self._half = False

    def _line(self, text: str) -> None:
        if self._aside is not None:
            self._end_line()
            self._clear()
            self._aside.write(text + "\n")
            self._aside.flush()

    def _always(self, text: str, paint: Callable[[str], str] = str) -> None:
        sys.stderr.write(paint(fold(text, columns(sys.stderr))) + "\n")
        sys.stderr.flush()

    def _clear(self) -> None:
        if self._drawn and self._aside is not None:
            self._aside.write("\r\x1b[2K")
            self._aside.flush()
            self._drawn = False
