"""A web page as Markdown: headings, lists, links, code and tables in the order they are read.

No library: what a model needs of a page is its text and its links, and a page is a stranger's.
"""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "object", "nav", "footer"})
_BLOCKS = frozenset(
    {
        *("p", "div", "section", "article", "main", "header", "aside", "ul", "ol", "table", "form", "figure"),
        *("blockquote", "dl", "dt", "dd", "details", "summary", "address", "fieldset"),
    }
)
_VOID = frozenset(
    {"br", "hr", "img", "input", "meta", "link", "area", "base", "col", "embed", "source", "track", "wbr"}
)
_BLANK = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
MAX_DEPTH = 500


def markdown(page: str, base: str = "") -> str:
    """Links are made absolute with `base`.

    >>> markdown("<h1>A</h1><p>b <a href='/c'>c</a></p>", "http://x.org/")
    '# A\\n\\nb [c](http://x.org/c)'
    """
    reader = _Reader(base)
    reader.feed(page)
    reader.close()
    return _BLANK.sub("\n\n", "".join(reader.out)).strip()


class _Reader(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self._base = base
        self._skipped = 0
        self._code = 0
        self._links: list[tuple[str, int]] = []
        self._lists: list[int | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED:
            self._skipped += 1
        if self._skipped:
            return
        given = dict(attrs)
        match tag:
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self.out.append(f"\n\n{'#' * int(tag[1])} ")
            case "br":
                self.out.append("\n")
            case "hr":
                self.out.append("\n\n---\n\n")
            case "li":
                self._start_item()
            case "ul" | "ol" if len(self._lists) < MAX_DEPTH:
                self._lists.append(0 if tag == "ol" else None)
                self.out.append("\n")
            case "pre":
                self._code += 1
                self.out.append("\n\n```\n")
            case "code" if not self._code:
                self.out.append("`")
            case "strong" | "b":
                self.out.append("**")
            case "tr":
                self.out.append("\n| ")
            case "a":
                self._links.append((given.get("href") or "", len(self.out)))
            case "img":
                self.out.append(f"![{given.get('alt') or ''}]")
            case _:
                self.out.append("\n\n" if tag in _BLOCKS else "")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED:
            self._skipped = max(0, self._skipped - 1)
            return
        if self._skipped or tag in _VOID:
            return
        match tag:
            case "pre" if self._code:
                self._code -= 1
                self.out.append("\n```\n\n")
            case "code" if not self._code:
                self.out.append("`")
            case "strong" | "b":
                self.out.append("**")
            case "td" | "th":
                self.out.append(" | ")
            case "ul" | "ol" if self._lists:
                self._lists.pop()
                self.out.append("\n")
            case "a" if self._links:
                self._end_link()
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self.out.append("\n\n")
            case _:
                self.out.append("\n\n" if tag in _BLOCKS else "")

    def handle_data(self, data: str) -> None:
        if self._skipped:
            return
        text = data if self._code else re.sub(r"\s+", " ", data)
        if not self._code and text.startswith(" ") and (not self.out or self.out[-1].endswith((" ", "\n"))):
            text = text[1:]
        if text:
            self.out.append(text)

    def _start_item(self) -> None:
        sign = "-"
        if self._lists and (count := self._lists[-1]) is not None:
            self._lists[-1] = count + 1
            sign = f"{count + 1}."
        self.out.append(f"\n{'  ' * (len(self._lists) - 1)}{sign} ")

    def _end_link(self) -> None:
        target, start = self._links.pop()
        words = "".join(self.out[start:]).strip()
        try:
            address = urljoin(self._base, target.strip())
        except ValueError:
            return
        if words and address.startswith(("http://", "https://")):
            self.out[start:] = [f"[{words}]({address})"]
