"""`grep` and `glob`: finding text in files, and files by their names."""

import os

from hames.domain.items import ToolResult
from hames.domain.policy import SandboxPolicy
from hames.ports import Job, ToolFailed, ToolSpec, Work
from hames.tools.files.places import PATH, Spot, encodable, locate_readable, named
from hames.tools.files.refusals import shown
from hames.tools.ripgrep import LEFT_OUT, Found, Ripgrep
from hames.tools.works import Looking, off_the_loop

_EVERYTHING = ("*", "**", "**/*")
_WHERE = "Where to search, inside the workspace. Default: the working directory."


class GrepTool:
    spec = ToolSpec(
        name="grep",
        description=(
            "Search the text of files with ripgrep. `pattern` is a regular expression (Rust syntax: no look-around, no "
            "backreferences) or, with `literal`, plain text. Ignored files (.gitignore) and binary files are skipped. "
            "Results are `path:line:text`, or with `output` only the paths, or how many lines match in each file."
        ),
        schema={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "maxLength": 10_000},
                "path": {**PATH, "description": f"File or directory. {_WHERE}"},
                "glob": {
                    "type": "string",
                    "maxLength": 1_000,
                    "description": "Only such files: `*.py`, `src/**`.",
                },
                "literal": {"type": "boolean", "description": "The pattern is plain text. Default: false."},
                "ignore_case": {"type": "boolean", "description": "Default: false."},
                "multiline": {"type": "boolean", "description": "Let `.` and the pattern span lines. Default: false."},
                "context": {"type": "integer", "minimum": 0, "maximum": 20, "description": "Lines around each match."},
                "output": {"type": "string", "enum": ["lines", "files", "count"], "description": "Default: lines."},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        parallel=True,
    )

    def __init__(self, ripgrep: Ripgrep) -> None:
        self._ripgrep = ripgrep

    async def prepare(self, job: Job) -> Work:
        spot = locate_readable(job.place, job.arguments.get("path", "."))
        where = named(job.place, spot.absolute)
        words = [
            *self._options(job),
            f"--regexp={_word(job.arguments['pattern'])}",
            "--",
            "./" if where == "." else where,
        ]

        async def look(policy: SandboxPolicy) -> ToolResult:
            await off_the_loop(lambda: _refuse_missing(spot))
            found = await self._ripgrep.run(job.place, policy, words, cwd=job.place.cwd)
            return self._told(found)

        return Looking(job, look)

    def _options(self, job: Job) -> list[str]:
        given = job.arguments
        options = [f"--max-columns={self._ripgrep.limits.line_chars}", "--max-columns-preview", "--no-heading"]
        options += {"files": ["--files-with-matches"], "count": ["--count", "--with-filename"]}.get(
            given.get("output", "lines"), ["--line-number", "--with-filename"]
        )
        if given.get("literal"):
            options.append("--fixed-strings")
        if given.get("ignore_case"):
            options.append("--ignore-case")
        if given.get("multiline"):
            options += ["--multiline", "--multiline-dotall"]
        if context := given.get("context"):
            options.append(f"--context={int(context)}")
        if glob := given.get("glob"):
            options.append(f"--glob={_word(glob)}")
        return [*options, *LEFT_OUT]

    def _told(self, found: Found) -> ToolResult:
        lines = found.output.decode("utf-8", "replace").replace("\0", "␀").split("\n")[:-1]
        if found.troubled:
            lines.append("[some files could not be read]")
        text = _bounded(self._ripgrep, [line.removeprefix("./") for line in lines], cut=found.cut)
        return ToolResult(text=text or "no match")


class GlobTool:
    spec = ToolSpec(
        name="glob",
        description=(
            "Find files by name: `*.py` anywhere below, `src/**/*.ts`, `**/test_*`. "
            "Sorted by path. Ignored directories (.gitignore) are skipped."
        ),
        schema={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "maxLength": 1_000},
                "path": {**PATH, "description": f"The directory. {_WHERE}"},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        parallel=True,
    )

    def __init__(self, ripgrep: Ripgrep) -> None:
        self._ripgrep = ripgrep

    async def prepare(self, job: Job) -> Work:
        spot = locate_readable(job.place, job.arguments.get("path", "."))
        where = named(job.place, spot.absolute)
        pattern = _word(job.arguments["pattern"])
        if pattern.startswith(("!", "/", "../")):
            raise ToolFailed("`pattern` is relative to `path` and does not begin with `!`, `/` or `..`")

        async def look(policy: SandboxPolicy) -> ToolResult:
            await off_the_loop(lambda: _refuse_missing(spot, directory=True))
            # ripgrep anchors a pattern with a slash where it runs, so it runs in the directory that is searched.
            # A pattern that matches everything would bring back what is ignored.
            wanted = [] if pattern in _EVERYTHING else [f"--glob={pattern}"]
            found = await self._ripgrep.run(
                job.place, policy, ["--files", "--null", *wanted, *LEFT_OUT, "--", "./"], cwd=spot.absolute
            )
            names = found.output.split(b"\0")[:-1]
            above = "" if where == "." else f"{where}/"
            paths = [shown(above + os.fsdecode(name).removeprefix("./")) for name in names]
            return ToolResult(text=_bounded(self._ripgrep, paths, cut=found.cut) or "no file")

        return Looking(job, look)


def _refuse_missing(spot: Spot, *, directory: bool = False) -> None:
    with spot.open_root() as root:
        is_directory = root.is_directory(spot.path)
    if directory and not is_directory:
        raise ToolFailed(f"{shown(spot.path)!r} is not a directory")


def _word(text: str) -> str:
    if "\0" in text or not encodable(text):
        raise ToolFailed(f"{text!r} cannot be searched for")
    return text


def _bounded(ripgrep: Ripgrep, lines: list[str], *, cut: bool) -> str:
    kept: list[str] = []
    size = 0
    for line in lines[: ripgrep.limits.results]:
        size += len(line) + 1
        if size > ripgrep.limits.told_chars:
            break
        kept.append(line)
    if cut or len(kept) < len(lines):
        more = f"{'at least ' if cut else ''}{len(lines) - len(kept)}"
        kept.append(f"[{more} more lines not shown; search for something narrower]")
    return "\n".join(kept)
