"""What a turn looks like on a terminal. Nothing from elsewhere reaches it raw: a command is shown with everything
hidden written out, and output without what would command the terminal.
"""

import sys
from collections import defaultdict
from typing import TextIO

from hames.client.bootstrap import Event
from hames.domain.display import PrintableStream, one_line, printable, visible
from hames.protocols.bootstrap import messages as m

DIM, BOLD, RED, GREEN, PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[0m"
WHY_CHARS = 400


class Screen:
    """Writes a turn as it happens. `colour` None: when the file is a terminal."""

    def __init__(self, file: TextIO | None = None, *, colour: bool | None = None) -> None:
        self._file = file or sys.stdout
        self._colour = self._file.isatty() if colour is None else colour
        self._in_line = False
        self._texts: defaultdict[str, PrintableStream] = defaultdict(PrintableStream)
        self._reasoning: set[str] = set()
        self._streamed: set[str] = set()
        self._asked: set[str] = set()
        self._seen: set[str] = set()
        """Logs of file changes that were looked at before they were allowed."""

    def show(self, event: Event) -> None:
        match event.params:
            case m.ItemDelta(item_id=item_id) if item_id in self._seen:
                pass
            case m.ItemDelta():
                dim = event.params.field == "output" or event.params.item_id in self._reasoning
                self._write(self._texts[event.params.item_id].feed(event.params.delta), DIM if dim else "")
            case m.ItemNews(item=item) if event.method == "item.started":
                self._started(item)
            case m.ItemNews(item=item):
                self._texts.pop(item.item_id, None)
                self._completed(item)
            case m.TurnFailed(status=status, error=error):
                self.line(f"[{status}] {printable(error.message)}", RED)
            case m.TurnNews() if event.method == "turn.completed":
                self.line("")
            case _:
                pass

    def question(self, asked: m.ApprovalRequested) -> None:
        """What is asked, to the letter."""
        self.line(f"May the agent use {visible(asked.tool)}? {printable(asked.reason)}", BOLD)
        if isinstance(asked.command, str):
            self.line(f"  {visible(asked.command)}")
            self.line(f"  in {visible(str(asked.cwd))}", DIM)
        if asked.changes:
            self._asked.add(asked.item_id)
            for change in asked.changes:
                self._diff(change)
        if asked.always_covers:
            self.line(f"  always: {visible(asked.always_covers.text)}", DIM)

    def line(self, text: str, style: str = "") -> None:
        """A line of its own."""
        if self._in_line:
            self._write("\n")
        if text:
            self._write(text + "\n", style)

    def _started(self, item: m.Item) -> None:
        match item:
            case m.AssistantMessage(data=data):
                self.line("")
                if data.kind != "text":
                    self._reasoning.add(item.item_id)
            case m.ToolExec(data=data):
                what = data.input.get("command") or " ".join(map(str, data.input.get("paths", data.input.values())))
                self.line(f"{visible(data.tool)}: {visible(str(what))}", BOLD)
            case m.ToolLog(data=data):
                if data.tool_item_id in self._asked:
                    self._seen.add(item.item_id)
                self._streamed.add(data.tool_item_id)
            case _:
                pass

    def _completed(self, item: m.Item) -> None:
        match item:
            case m.ToolExec(data=data):
                if data.status == "completed" and item.item_id not in self._streamed:
                    for change in data.changes or ():
                        self._diff(change)
                elif data.status != "completed":
                    code = f", exit code {data.exit_code}" if isinstance(data.exit_code, int) else ""
                    why = f": {one_line(data.reason, WHY_CHARS)}" if data.reason else ""
                    self.line(f"[{data.status}{code}{why}]", RED)
            case m.Artifact(data=data) if data.status != "completed":
                why = f": {one_line(data.reason, WHY_CHARS)}" if data.reason else ""
                self.line(f"[{data.status}{why}]", RED)
            case m.Artifact(data=data):
                self.line(f"made {visible(data.path)} {printable(data.title)}", BOLD)
            case m.ApprovalItem(data=data):
                self.line(f"[{data.decision}]", DIM)
            case _:
                pass

    def _diff(self, change: m.FileChange) -> None:
        self.line(f"{change.kind} {visible(change.path)}", BOLD)
        for line in change.diff.split("\n"):
            self.line(visible(line), GREEN if line.startswith("+") else RED if line.startswith("-") else DIM)

    def _write(self, text: str, style: str = "") -> None:
        if not text:
            return
        self._file.write(f"{style}{text}{PLAIN}" if style and self._colour else text)
        self._file.flush()
        self._in_line = not text.endswith("\n")
