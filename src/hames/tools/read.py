"""`read`: lines of a text file, with their numbers; the cells of a notebook, the text of a PDF, or a picture."""

import base64
from pathlib import Path
from typing import NamedTuple

from hames.domain.items import Picture, ToolResult
from hames.domain.pictures import shape
from hames.domain.policy import SandboxPolicy
from hames.domain.value import Value
from hames.ports import Job, ToolSpec, Work
from hames.ports.workspace import Missing, NotRegular, TooLarge
from hames.tools.documents.notebook import notebook_text
from hames.tools.documents.pdf import pdf_text
from hames.tools.files.missing import no_file
from hames.tools.files.places import PATH, Spot, locate_readable, relative
from hames.tools.files.texts import Text, decoded, lines_of
from hames.tools.output_files import OutputFiles
from hames.tools.works import Looking, Seen, off_the_loop

PICTURE_BYTES = 3_750_000
"""Five megabytes in base64: what model services take."""

WALL_BYTES = 32 << 20
"""No file beyond this is opened at all."""


class ReadLimits(Value):
    lines: int = 2_000
    line_chars: int = 2_000
    told_chars: int = 60_000


class ReadTool:
    def __init__(self, seen: Seen, limits: ReadLimits, outputs: OutputFiles | None = None) -> None:
        self._seen = seen
        self._outputs = outputs or OutputFiles()
        self._limits = limits
        self.spec = ToolSpec(
            name="read",
            description=(
                "Read a file: text comes with line numbers and a tab before each line; pictures (PNG, JPEG, GIF, WebP) "
                "are shown to you; notebooks (.ipynb) come as cells and PDF files as text. "
                f"At most {limits.lines:,} lines at a time; go on with `offset`. "
                "Use `list` for directories and `grep` to find something in large files."
            ),
            schema={
                "type": "object",
                "properties": {
                    "path": {**PATH, "description": "The file; relative to the working directory."},
                    "offset": {"type": "integer", "minimum": 0, "description": "The first line to show. Default: 1."},
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "description": f"How many lines to show. Default: {limits.lines}.",
                    },
                },
                "required": ["path"],
                "additionalProperties": False,
            },
            parallel=True,
        )

    async def prepare(self, job: Job) -> Work:
        if output := self._outputs.find(job.arguments["path"]):
            return Looking(job, lambda _: off_the_loop(lambda: self._read_output(job, output)))
        results = job.place.results
        if results is not None and (text := results.find(job.arguments["path"])) is not None:
            return Looking(job, lambda _: self._read_result(job, text))
        spot = locate_readable(job.place, job.arguments["path"])

        async def look(_: SandboxPolicy) -> ToolResult:
            found = await off_the_loop(lambda: self._read(job, spot))
            if found.pdf:
                name = relative(job.place, spot.absolute)
                return self._lines(job, name, Text(body=await pdf_text(name, found.content))).result
            if found.lines is None:
                self._seen.note(spot.absolute, found.content)
            else:
                self._seen.note_lines(spot.absolute, found.content, found.lines)
            return found.result

        return Looking(job, look, reads=(spot.absolute,))

    async def _read_result(self, job: Job, text: str) -> ToolResult:
        return self._lines(job, job.arguments["path"], Text(body=text)).result

    def _read_output(self, job: Job, path: str) -> ToolResult:
        """Of a command, which was too long to be told."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise NotRegular(f"{path!r} cannot be read: {error.strerror}") from error
        return self._lines(job, path, Text(body=content.decode("utf-8", "replace"))).result

    def _read(self, job: Job, spot: Spot) -> "_Shown":
        name = relative(job.place, spot.absolute)
        try:
            with spot.open_root() as root:
                content = root.read(spot.path, limit=WALL_BYTES)
        except Missing:
            raise Missing(no_file(job.place, spot)) from None
        if seen := shape(content):
            if seen.complaint:
                raise TooLarge(f"{name!r} is a picture that cannot be shown: {seen.complaint}; make a smaller copy")
            if len(content) > PICTURE_BYTES:
                raise TooLarge(f"{name!r} is a picture of {len(content):,} bytes; the limit is {PICTURE_BYTES:,}")
            picture = Picture(media_type=seen.media_type, base64=base64.b64encode(content).decode())
            text = f"{name}: {seen.media_type}, {seen.width} × {seen.height} pixels"
            return _Shown(content, ToolResult(text=text, pictures=(picture,)))
        if content.startswith(b"%PDF-"):
            return _Shown(content, ToolResult(text=""), pdf=True)
        if name.lower().endswith(".ipynb") and (cells := notebook_text(content)) is not None:
            return _Shown(content, self._lines(job, name, Text(body=cells)).result, ())
        text = decoded(content)
        if text is None:
            raise NotRegular(f"{name!r} is not a text file ({len(content):,} bytes); use the shell to look into it")
        return self._lines(job, name, text, content)

    def _lines(self, job: Job, name: str, text: Text, content: bytes = b"") -> "_Shown":
        first = max(1, int(job.arguments.get("offset", 1)))
        most = min(int(job.arguments.get("limit", self._limits.lines)), self._limits.lines)
        shown, lines = self._numbered(name, text, first, most)
        return _Shown(content, ToolResult(text=shown), lines)

    def _numbered(self, name: str, text: Text, first: int, most: int) -> tuple[str, tuple[str, ...] | None]:
        """What is shown, and which lines that were; None: all of them."""
        lines = lines_of(text.body)
        if not lines:
            return f"[{name} is empty]", None
        if first > len(lines):
            return f"[{name} has only {len(lines)} lines]", ()
        out: list[str] = []
        size, cut, last = 0, 0, first - 1
        known: list[str] = []
        for number in range(first, min(first + most, len(lines) + 1)):
            whole = lines[number - 1].removesuffix("\n")
            line = whole.replace("\0", "␀")
            if len(line) > self._limits.line_chars:
                cut += 1
                line = f"{line[: self._limits.line_chars]} [… {len(line) - self._limits.line_chars:,} more characters]"
            size += len(line) + 8
            if size > self._limits.told_chars and out:
                break
            out.append(f"{number:>6}\t{line}")
            if len(whole) <= self._limits.line_chars:
                known.append(whole)
            last = number
        notes = [f"lines {first} to {last} of {len(lines)}"] if (first, last) != (1, len(lines)) else []
        if last < len(lines):
            notes.append(f"go on with offset {last + 1}")
        if cut:
            notes.append(f"{cut} long line{'' if cut == 1 else 's'} cut")
        if text.peculiarities:
            notes.append(text.peculiarities)
        if not text.body.endswith("\n"):
            notes.append("no newline at the end of the file")
        shown = "\n".join(out) + (f"\n[{'; '.join(notes)}]" if notes else "")
        return shown, None if (first, last, cut) == (1, len(lines), 0) else tuple(known)


class _Shown(NamedTuple):
    """A file and what the model is shown of it. `lines`: which of its lines; None: all of it."""

    content: bytes
    result: ToolResult
    lines: tuple[str, ...] | None = None
    pdf: bool = False
