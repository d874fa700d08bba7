"""Markdown that grows: what is finished is laid out once, only the last paragraph is laid out again.

No hyperlink sequences: an address is shown, so that nobody is sent elsewhere than the text says.
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text

from hames.tui.lines import indented, line, rendered, wrapped
from hames.tui.palette import Palette

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode
    from rich.console import JustifyMethod

HIGHLIGHTED_LINES = 400
"""A longer piece of code is shown without colours: it must not hold up the keys."""


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _parse(text: str) -> "list[SyntaxTreeNode]":
    from markdown_it.tree import SyntaxTreeNode

    return SyntaxTreeNode(_parser().parse(text)).children


def load() -> None:
    """Loads what the first answer needs, which is not needed to show the screen."""
    _parser()
    _parse("")
    import_module("rich.syntax")
    import_module("rich.table")


class StreamingMarkdown:
    """A text, and its lines at one width, set in by `indent` blanks."""

    def __init__(self, *, indent: int = 0) -> None:
        self._source = ""
        self._fresh: list[str] = []
        """Pieces not yet joined: joining each at once would copy a long text a thousand times a second."""
        self._indent = Text(" " * indent)
        self._upto = 0
        self._done: list[Text] = []
        self._made_for: tuple[int, Palette] | None = None

    @property
    def source(self) -> str:
        if self._fresh:
            self._source += "".join(self._fresh)
            self._fresh.clear()
        return self._source

    def add(self, text: str) -> None:
        self._fresh.append(text)

    def replace(self, text: str) -> None:
        if text != self.source:
            self._source = text
            self._made_for = None

    def lines(self, width: int, palette: Palette) -> list[Text]:
        if self._made_for != (width, palette):
            self._made_for = (width, palette)
            self._upto, self._done = 0, []
        layout, room = _Layout(palette), width - len(self._indent)
        rest = self.source[self._upto :]
        nodes = _parse(rest)
        if len(nodes) > 1 and (last := nodes[-1].map) is not None:
            # In place: a long answer is not copied for each of its paragraphs.
            self._done += indented([*layout.blocks(nodes[:-1], room), Text()], self._indent)
            self._upto += sum(len(row) + 1 for row in rest.split("\n")[: last[0]])
            nodes = nodes[-1:]
        return [*self._done, *indented(layout.blocks(nodes, room), self._indent)]


class _Layout:
    def __init__(self, palette: Palette) -> None:
        self._palette = palette

    def blocks(self, nodes: "list[SyntaxTreeNode]", width: int, *, tight: bool = False) -> list[Text]:
        made: list[Text] = []
        for number, node in enumerate(nodes):
            if number and not tight:
                made.append(Text())
            made += self._block(node, max(8, width))
        return made

    def _block(self, node: "SyntaxTreeNode", width: int) -> list[Text]:
        palette = self._palette
        match node.type:
            case "heading":
                style = palette.accent + Style(bold=True, underline=node.tag == "h1")
                return wrapped(self._inline(node.children, style), width)
            case "paragraph":
                return wrapped(self._inline(node.children, palette.text), width)
            case "bullet_list" | "ordered_list":
                return self._list(node, width)
            case "blockquote":
                bar = line(("▎ ", palette.faint))
                return indented(self.blocks(node.children, width - 2), bar, bar)
            case "fence" | "code_block":
                return self._code(node, width)
            case "hr":
                return [Text("─" * width, palette.faint)]
            case "table":
                return self._table(node, width)
            case _:
                return wrapped(Text(node.content, palette.text), width)

    def _list(self, node: "SyntaxTreeNode", width: int) -> list[Text]:
        made: list[Text] = []
        number = int(node.attrs.get("start", 1))
        widest = len(str(number + len(node.children))) + 2
        for index, item in enumerate(node.children):
            loose = any(child.type == "paragraph" and not child.hidden for child in item.children)
            if index and loose:
                made.append(Text())
            marker = f"{number + index}.".ljust(widest) if node.type == "ordered_list" else "• "
            rows = self.blocks(item.children, width - len(marker), tight=not loose) or [Text()]
            made += indented(rows, line((marker, self._palette.accent)))
        return made

    def _code(self, node: "SyntaxTreeNode", width: int) -> list[Text]:
        code = node.content.removesuffix("\n").expandtabs(4)
        language = node.info.split()[0] if node.info.split() else ""
        body = Text(code, self._palette.text)
        if language and code.count("\n") < HIGHLIGHTED_LINES:
            body = highlighted(code, language, self._palette)
        bar = line(("│ ", self._palette.faint))
        return [
            part for row in body.split("\n", allow_blank=True) for part in indented(_folded(row, width - 2), bar, bar)
        ]

    def _table(self, node: "SyntaxTreeNode", width: int) -> list[Text]:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, border_style=self._palette.faint, pad_edge=False, padding=(0, 1))
        for part in node.children:
            for row in part.children:
                cells = [self._inline(cell.children, self._palette.text) for cell in row.children]
                if part.type == "thead":
                    for head, cell in zip(row.children, cells, strict=True):
                        cell.stylize("bold")
                        table.add_column(cell, overflow="fold", justify=_alignment(head))
                else:
                    table.add_row(*cells)
        return [row for row in rendered(table, width) if row.plain.strip()]

    def _inline(self, nodes: "list[SyntaxTreeNode]", style: Style) -> Text:
        made = Text(style=style)
        for node in nodes:
            match node.type:
                case "inline" | "strong" | "em" | "s":
                    extra = {"strong": Style(bold=True), "em": Style(italic=True), "s": Style(strike=True)}
                    made.append_text(self._inline(node.children, extra.get(node.type, Style())))
                case "code_inline":
                    made.append(node.content, self._palette.code)
                case "link":
                    self._link(made, node)
                case "image":
                    made.append(f"[{node.content or 'image'}]", self._palette.accent)
                    made.append(f" ({node.attrs.get('src', '')})", self._palette.quiet)
                case "softbreak":
                    made.append(" ")
                case "hardbreak":
                    made.append("\n")
                case _:
                    made.append(node.content)
        return made

    def _link(self, made: Text, node: "SyntaxTreeNode") -> None:
        shown = self._inline(node.children, self._palette.accent + Style(underline=True))
        address = str(node.attrs.get("href", ""))
        made.append_text(shown)
        if address.removeprefix("mailto:") != shown.plain:
            made.append(f" ({address})", self._palette.quiet)


def _alignment(cell: "SyntaxTreeNode") -> "JustifyMethod":
    """As the row below a table's head says: `---:` is right, `:---:` is centred."""
    match str(cell.attrs.get("style", "")).removeprefix("text-align:"):
        case "right":
            return "right"
        case "center":
            return "center"
        case _:
            return "left"


def highlighted(code: str, language: str, palette: Palette) -> Text:
    """Coloured without a background of its own: the terminal's stays."""
    from rich.syntax import Syntax

    text = Syntax(code, language, theme=palette.code_theme, background_color="default").highlight(code)
    made = Text(text.plain.removesuffix("\n"), palette.text)
    for span in text.spans:
        if isinstance(span.style, Style):
            shown = Style(color=span.style.color, bold=span.style.bold, italic=span.style.italic)
            made.stylize(shown, span.start, span.end)
    return made


def _folded(row: Text, width: int) -> list[Text]:
    return wrapped(row, width) if row.cell_len > width else [row]
