"""`read`: lines of a text file, with their numbers, or a picture."""

import base64
from pathlib import Path

from hames.domain.items import Picture, ToolResult
from hames.domain.pictures import shape
from hames.domain.policy import SandboxPolicy
from hames.domain.value import Value
from hames.ports import Job, ToolSpec, Work
from hames.ports.workspace import NotRegular, TooLarge
from hames.tools.files.places import PATH, Spot, locate, relative
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
                f"are shown to you. At most {limits.lines:,} lines at a time; go on with `offset`. "
                "Use `list` for directories and `grep` to find something in large files."
            ),
            schema={
                "type": "object",
                "properties": {
                    "path": {
                        **PATH,
                        "description": "The file, inside the workspace; relative to the working directory.",
                    },
                    "offset": {"type": "integer", "minimum": 1, "description": "The first line to show. Default: 1."},
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": limits.lines,
                        "description": f"How many lines to show. Default: {limits.lines}.",
                    },
                },
                "required": ["path"],
                "additionalProperties": False,
            },
        )

    async def prepare(self, job: Job) -> Work:
        if output := self._outputs.find(job.arguments["path"]):
            return Looking(job, lambda _: off_the_loop(lambda: self._read_output(job, output)))
        spot = locate(job.place, job.arguments["path"])

        async def look(_: SandboxPolicy) -> ToolResult:
            content, result = await off_the_loop(lambda: self._read(job, spot))
            self._seen.note(spot.absolute, content)
            return result

        return Looking(job, look)

    def _read_output(self, job: Job, path: str) -> ToolResult:
        """Of a command, which was too long to be told."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise NotRegular(f"{path!r} cannot be read: {error.strerror}") from error
        text = Text(body=content.decode("utf-8", "replace"))
        return ToolResult(text=self._numbered(path, text, *self._range(job)))

    def _range(self, job: Job) -> tuple[int, int]:
        return int(job.arguments.get("offset", 1)), int(job.arguments.get("limit", self._limits.lines))

    def _read(self, job: Job, spot: Spot) -> tuple[bytes, ToolResult]:
        name = relative(job.place, spot.absolute)
        with spot.open_root() as root:
            content = root.read(spot.path, limit=WALL_BYTES)
        if seen := shape(content):
            if seen.complaint:
                raise TooLarge(f"{name!r} is a picture that cannot be shown: {seen.complaint}; make a smaller copy")
            if len(content) > PICTURE_BYTES:
                raise TooLarge(f"{name!r} is a picture of {len(content):,} bytes; the limit is {PICTURE_BYTES:,}")
            picture = Picture(media_type=seen.media_type, base64=base64.b64encode(content).decode())
            text = f"{name}: {seen.media_type}, {seen.width} × {seen.height} pixels"
            return content, ToolResult(text=text, pictures=(picture,))
        text = decoded(content)
        if text is None:
            raise NotRegular(f"{name!r} is not a text file ({len(content):,} bytes); use the shell to look into it")
        return content, ToolResult(text=self._numbered(name, text, *self._range(job)))

    def _numbered(self, name: str, text: Text, first: int, most: int) -> str:
        lines = lines_of(text.body)
        if not lines:
            return f"[{name} is empty]"
        if first > len(lines):
            return f"[{name} has only {len(lines)} lines]"
        out: list[str] = []
        size, cut, last = 0, 0, first - 1
        for number in range(first, min(first + most, len(lines) + 1)):
            line = lines[number - 1].rstrip("\n").replace("\0", "␀")
            if len(line) > self._limits.line_chars:
                cut += 1
                line = f"{line[: self._limits.line_chars]} [… {len(line) - self._limits.line_chars:,} more characters]"
            size += len(line) + 8
            if size > self._limits.told_chars and out:
                break
            out.append(f"{number:>6}\t{line}")
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
        return "\n".join(out) + (f"\n[{'; '.join(notes)}]" if notes else "")
