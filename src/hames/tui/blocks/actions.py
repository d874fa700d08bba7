"""Blocks of what is done: commands, changed files, tools, searches and what they made.

Whatever comes from a model or a tool passes through `printable` or `visible` here.
"""

from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace
from rich.style import Style
from rich.text import Text

from hames.domain.display import printable, visible
from hames.domain.items import NOT_RUN
from hames.protocols.flint import items as wire
from hames.tui.ansi import Output
from hames.tui.blocks.block import INDENT, Block, ItemBlock, bars, folded
from hames.tui.diffs import count_changes, diff_lines
from hames.tui.lines import cut, indented, line, paragraphs, wrapped
from hames.tui.palette import Palette
from hames.tui.text import json_on_one_line
from hames.tui.user_shell import Ran

HEAD, TAIL = 4, 8
"""Lines of a long output that are shown folded."""
DIFF_LINES = 40
OPEN_LINES = 2000
"""Unfolded, a block shows no more than that: a screen is no pager."""
REASON_LINES = 10
"""Lines of a reason that are shown folded."""
STATUS = {"inProgress": "…", "completed": "✓", "failed": "✗", "declined": "⊘", "interrupted": "■", "pending": "·"}


WAITING = "waiting for approval"
BINARY_DIFF = "@@ -0,0 +0,0 @@\n binary file or no text changed\n"
"""The diff of a binary file, for which git shows none."""


class Command(ItemBlock[wire.CommandExecutionItem]):
    """A command, its output as it comes, and how it ended."""

    foldable = True
    mark = "$ "

    def __init__(self, item: wire.CommandExecutionItem) -> None:
        super().__init__(item)
        self.finish(item)

    def finish(self, item: wire.ThreadItem) -> None:
        super().finish(item)
        self._output = Output()
        if isinstance(self._item.aggregated_output, str):
            self._output.feed(self._item.aggregated_output)

    def add(self, text: str) -> None:
        self._output.feed(text)

    def size(self) -> int:
        return 80 * (2 + min(len(self._output.lines), HEAD + TAIL + 1))

    def draw(self, width: int, palette: Palette) -> list[Text]:
        word, style = self._ending(palette)
        told = visible(self._item.command) if "\n" not in self._item.command else printable(self._item.command)
        head = indented(
            paragraphs(told, palette.strong, width - INDENT - len(word) - 2), line((self.mark, palette.accent))
        )
        if not self.open and len(head) > 6:
            head = folded(head, head=4, tail=1, palette=palette)
        blank = max(1, width - head[0].cell_len - len(word))
        head[0] = line(head[0], (" " * blank, style), (word, style))
        bar = line(("  │ ", palette.faint))
        shown = [line(bar, row) for row in self._shown(width - 4, palette)]
        return [*head, *shown, *reason_lines(self._item, width, palette, whole=self.open)]

    def _shown(self, width: int, palette: Palette) -> list[Text]:
        lines = self._output.lines
        tail = self._output.tail
        kept = [*lines, tail] if tail.plain else lines
        head, last = (OPEN_LINES // 2, OPEN_LINES // 2) if self.open else (HEAD, TAIL)
        note: list[Text] = []
        first, rest = kept, kept[:0]
        if (hidden := len(kept) - head - last) > 1:
            hint = " (click, or ctrl+o for all)" if not self.open else ""
            note = [line((f"… {hidden} more lines{hint}", palette.faint))]
            first, rest = kept[:head], kept[-last:]
        before, after = ([part for row in rows for part in _tinted(row, width, palette)] for rows in (first, rest))
        return [*before, *note, *after]

    def _ending(self, palette: Palette) -> tuple[str, Style]:
        item = self._item
        took = f" · {item.duration_ms / 1000:.1f} s" if isinstance(item.duration_ms, int) else ""
        match item.status:
            case "inProgress":
                return WAITING if self.waiting else "running", palette.warn
            case "failed" if _is_skipped(item):
                return "– not run", palette.quiet
            case "completed" | "failed":
                code = item.exit_code if isinstance(item.exit_code, int) else None
                good = item.status == "completed" and not code
                told = "✓" if good else f"✗ exit {code}" if code is not None else "✗"
                return f"{told}{took}", palette.good if good else palette.bad
            case _:
                return f"{STATUS.get(item.status, '·')} {item.status}", palette.warn


class UserCommand(Command):
    """A command of the user's own. Its output goes to the model with the next message."""

    mark = "! "
    _stopped = False

    def end(self, ran: Ran | None, *, duration_ms: int) -> None:
        """Nothing: it was stopped."""
        if ran is None:
            self._item = replace(self._item, status="failed", duration_ms=duration_ms)
            self._stopped = True
        else:
            code = UNSET if ran.exit_code is None else ran.exit_code
            self.finish(
                replace(
                    self._item,
                    status=ran.status,
                    exit_code=code,
                    duration_ms=duration_ms,
                    aggregated_output=ran.output,
                )
            )

    def draw(self, width: int, palette: Palette) -> list[Text]:
        words = "ran as you, outside the sandbox · the output goes with your next message; until then it is not saved"
        if self._item.status == "inProgress":
            words = "runs as you, outside the sandbox · esc stops it"
        elif self._stopped:
            words = "stopped · its output is not sent"
        return [*super().draw(width, palette), *indented(paragraphs(words, palette.faint, width - 2), Text("  "))]

    def _ending(self, palette: Palette) -> tuple[str, Style]:
        return (f"{STATUS['interrupted']} stopped", palette.warn) if self._stopped else super()._ending(palette)


def _tinted(row: Text, width: int, palette: Palette) -> list[Text]:
    shown = Text(row.plain, palette.quiet, end="")
    shown.spans = list(row.spans)
    return wrapped(shown, width)


class FileChangeBlock(ItemBlock[wire.FileChangeItem]):
    foldable = True

    def __init__(self, item: wire.FileChangeItem, root: str = "") -> None:
        """Paths below `root` are shown without it."""
        super().__init__(item)
        self._root = root
        self.taken_back: frozenset[str] = frozenset()
        """The paths whose changes were undone."""

    def size(self) -> int:
        return 80 * sum(2 + min(change.diff.count("\n"), DIFF_LINES) for change in self._item.changes)

    def draw(self, width: int, palette: Palette) -> list[Text]:
        made: list[Text] = []
        mark = STATUS.get(self._item.status, "·")
        style = {"completed": palette.good, "inProgress": palette.warn}.get(self._item.status, palette.bad)
        ending = line((f" {mark}", style))
        for change in self._item.changes:
            if self._item.status == "inProgress":
                # Until it has happened it is a question, and the question shows the diff.
                waits = line((f"  {WAITING}", style)) if self.waiting else ending
                made.append(change_head(change, width, palette, root=self._root, ending=waits))
            else:
                undone = self._item.status == "completed" and change.path in self.taken_back
                ends = line((" ↶ undone", palette.warn)) if undone else ending
                made += change_lines(change, width, palette, ending=ends, whole=self.open, root=self._root)
        made = made or [line(("± no changes ", palette.quiet), (mark, style))]
        return [*made, *reason_lines(self._item, width, palette, whole=self.open)]


class WorkspaceChanges(FileChangeBlock):
    """`/diff`: changes that are there already, of whoever made them. New files without text come last, in one line."""

    _problem = ""

    def fail(self, why: str) -> None:
        self._problem = why

    def draw(self, width: int, palette: Palette) -> list[Text]:
        if self._problem:
            return indented(paragraphs(visible(self._problem), palette.warn, width - 2), line(("! ", palette.warn)))
        if self._item.status == "inProgress":
            return [line(("± ", palette.accent), ("Reading the changes …", palette.quiet))]
        binary = [change.path for change in self._item.changes if _is_new_binary(change)]
        shown = [change for change in self._item.changes if len(binary) < 2 or not _is_new_binary(change)]
        rows = [row for change in shown for row in change_lines(change, width, palette, whole=self.open)]
        if len(binary) > 1:
            rows += self._binary(binary, width, palette)
        return rows or [line(("± ", palette.accent), ("No uncommitted changes", palette.quiet))]

    def _binary(self, paths: list[str], width: int, palette: Palette) -> list[Text]:
        head = f"{len(paths)} new binary files"
        if self.open:
            named = [line((f"  {visible(path)}", palette.quiet)) for path in paths]
            return [line(("± ", palette.accent), (head, palette.strong)), *named]
        listed = cut(visible(", ".join(paths)), max(12, width - len(head) - 4))
        return [line(("± ", palette.accent), (head, palette.strong), (f": {listed}", palette.quiet))]


def _is_new_binary(change: wire.FileUpdateChange) -> bool:
    return change.kind == "add" and change.diff == BINARY_DIFF


def change_lines(
    change: wire.FileUpdateChange,
    width: int,
    palette: Palette,
    *,
    ending: Text | None = None,
    whole: bool = False,
    root: str = "",
) -> list[Text]:
    """One file's diff under its name."""
    rows = diff_lines(change.diff, width - INDENT, palette)
    if not whole:
        rows = folded(rows, head=DIFF_LINES - 4, tail=4, palette=palette)
    return [change_head(change, width, palette, root=root, ending=ending), *indented(rows, Text(" " * INDENT))]


def change_head(
    change: wire.FileUpdateChange, width: int, palette: Palette, *, root: str = "", ending: Text | None = None
) -> Text:
    path = change.path.removeprefix(f"{root.rstrip('/')}/") if root else change.path
    came, went = count_changes(change.diff)
    word = {"add": "new", "delete": "deleted", "modify": ""}[change.kind]
    return line(
        ("± ", palette.accent),
        (visible(shorten_path(path, max(12, width - 24))), palette.strong),
        (f" {word}" if word else "", palette.quiet),
        (f"  +{came}", palette.good),
        (f" −{went}", palette.bad),
        ending or Text(),
    )


class ToolBlock(Block):
    """A generic tool call, an MCP tool call, or an item of an unknown type."""

    compact = True
    foldable = True

    def __init__(self, item: wire.ToolCallItem | wire.McpToolCallItem | wire.UnknownItem) -> None:
        super().__init__(item.id)
        self._item = item
        self._streamed = ""

    def finish(self, item: wire.ThreadItem) -> None:
        if not isinstance(item, wire.ToolCallItem | wire.McpToolCallItem | wire.UnknownItem):
            return
        self._item = item

    def add(self, text: str) -> None:
        self._streamed += self.pieces.feed(text)

    def draw(self, width: int, palette: Palette) -> list[Text]:
        name, arguments, status, result = self._told()
        style = {"completed": palette.good, "inProgress": palette.warn, "": palette.quiet}.get(status, palette.bad)
        mark = WAITING if self.waiting and status == "inProgress" else STATUS.get(status, "·")
        if _is_skipped(self._item):
            mark, style = "–", palette.quiet
        room = width - len(name) - len(mark) - 5
        head = line(
            ("· ", palette.accent),
            (f"{visible(name)} ", palette.text),
            (cut(visible(arguments), room), palette.quiet),
            (f" {mark}", style),
        )
        if not self.open:
            return [head, *reason_lines(self._item, width, palette)]
        body = printable(result) or self._streamed or "no output"
        rows = paragraphs(body[: OPEN_LINES * 80].rstrip("\n"), palette.quiet, width - 4)
        return [head, *indented(folded(rows, head=OPEN_LINES, tail=0, palette=palette), *bars(palette))]

    def _told(self) -> tuple[str, str, str, str]:
        match self._item:
            case wire.ToolCallItem(name=name, arguments=arguments, status=status, result=result):
                return name, json_on_one_line(arguments), status, result if isinstance(result, str) else ""
            case wire.McpToolCallItem(server=server, tool=tool, arguments=arguments, status=status) as item:
                result = item.error if isinstance(item.error, str) else json_on_one_line(item.result)
                return f"{server}/{tool}", json_on_one_line(arguments), status, result
            case wire.UnknownItem(id=item_id, kind=kind, members=members) as item:
                status = members.get("status")
                told = item.text or json_on_one_line(members)
                return kind or "item", f"{item_id} {told}", status if isinstance(status, str) else "", told
            case _ as never:
                assert_never(never)


class Search(ItemBlock[wire.WebSearchItem]):
    compact = True

    def draw(self, width: int, palette: Palette) -> list[Text]:
        head = line(
            ("⌕ ", palette.accent), ("web ", palette.text), (cut(visible(self._item.query), width - 6), palette.quiet)
        )
        return [head, *reason_lines(self._item, width, palette)]


class ArtifactBlock(ItemBlock[wire.ArtifactItem]):
    compact = True

    def draw(self, width: int, palette: Palette) -> list[Text]:
        title = f"{visible(self._item.title)}  " if isinstance(self._item.title, str) else ""
        path = visible(shorten_path(self._item.path, width - len(title) - 4))
        head = line(("◈ ", palette.accent), (title, palette.strong), (path, palette.quiet))
        return [head, *reason_lines(self._item, width, palette)]


def reason_lines(item: wire.ThreadItem, width: int, palette: Palette, *, whole: bool = False) -> list[Text]:
    """Why it was refused, failed or skipped. A sentence is there to its end; what a tool says at length is `whole` or
    has its first lines."""
    reason = wire.reason_of(item)
    if not reason:
        return []
    style = palette.quiet if _is_skipped(item) else palette.bad
    told = printable(reason) if whole else visible(" ".join(reason[: OPEN_LINES * 80].split()))
    rows = paragraphs(told, style, max(12, width - 4))
    if not whole:
        rows = folded(rows, head=REASON_LINES, tail=0, palette=palette)
    return indented(rows, *bars(palette))


def _is_skipped(item: wire.ThreadItem) -> bool:
    """It never began."""
    return isinstance(item, wire.ToolItem) and (item.outcome == "skipped" or wire.reason_of(item) == NOT_RUN)


def shorten_path(path: str, width: int) -> str:
    """The end of a path says most."""
    return path if len(path) <= width else f"…{path[-max(1, width - 1) :]}"
