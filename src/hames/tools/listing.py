"""`list`: what is in a directory."""

from hames.domain.items import ToolResult
from hames.domain.policy import SandboxPolicy
from hames.domain.rules import covers_path
from hames.ports import DirectoryEntry, Job, ToolSpec, Work
from hames.tools.files.places import PATH, Spot, locate_readable, relative
from hames.tools.files.refusals import shown
from hames.tools.works import Looking, off_the_loop

MAX_ENTRIES = 1_000
MAX_DEPTH = 5
NOT_ENTERED = frozenset({".git", "node_modules", "__pycache__", ".venv"})


class ListTool:
    spec = ToolSpec(
        name="list",
        description=(
            "List a directory: directories end with `/`, links show their target, files their size in bytes. "
            f"`depth` shows several levels. At most {MAX_ENTRIES:,} entries. Use `glob` to find files by name."
        ),
        schema={
            "type": "object",
            "properties": {
                "path": {**PATH, "description": "The directory, inside the workspace. Default: the working directory."},
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_DEPTH,
                    "description": "How many levels to show. Default: 1.",
                },
            },
            "required": [],
            "additionalProperties": False,
        },
        parallel=True,
    )

    async def prepare(self, job: Job) -> Work:
        spot = locate_readable(job.place, job.arguments.get("path", "."))

        async def look(_: SandboxPolicy) -> ToolResult:
            return await off_the_loop(lambda: _listed(job, spot))

        return Looking(job, look, reads=(spot.absolute,))


def _listed(job: Job, spot: Spot) -> ToolResult:
    depth = int(job.arguments.get("depth", 1))
    with spot.open_root() as root:
        entries = list(root.walk(spot.path, depth=depth, limit=MAX_ENTRIES + 1, skip=NOT_ENTERED))
    denied = [rule.read for rule in job.place.denied if rule.read]
    root_path = spot.absolute.rstrip("/")
    if denied:
        entries = [one for one in entries if not any(covers_path(glob, f"{root_path}/{one.path}") for glob in denied)]
    lines = [_line(entry) for entry in entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        lines.append(f"[more than {MAX_ENTRIES:,} entries; the rest is not shown]")
    return ToolResult(text="\n".join(lines) or f"[{relative(job.place, spot.absolute)} is empty]")


def _line(entry: DirectoryEntry) -> str:
    indent, name = "  " * entry.path.count("/"), shown(entry.path.rpartition("/")[2])
    match entry.kind:
        case "directory":
            return f"{indent}{name}/"
        case "link":
            return f"{indent}{name} -> {shown(entry.target)}"
        case "file":
            return f"{indent}{name} ({entry.size:,})"
        case "other":
            return f"{indent}{name} [not a regular file]"
