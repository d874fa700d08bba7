"""`/diff`: what is changed in the workspace and not committed, asked of git.

A repository can name programs in its configuration that git runs (filters, hooks, pagers), and the agent may have
written that configuration. So git runs in the sandbox, read-only, and never directly.
"""

import subprocess
from pathlib import Path

import anyio

from hames.executables import hames_command
from hames.protocols.flint.items import FileUpdateChange
from hames.tui.blocks.actions import BINARY_DIFF

GIT_SECONDS = 20.0
MOST_CHARACTERS = 2_000_000
MOST_NEW_FILES = 50
NO_REPOSITORY = 3
SCRIPT = """
most=$1
set -- git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.quotePath=false --no-optional-locks --no-pager
plain="--no-color --no-ext-diff --no-textconv"
"$@" rev-parse --is-inside-work-tree >/dev/null || exit 3
base=$("$@" rev-parse --verify --quiet HEAD) || base=--cached
"$@" diff $plain "$base" -- . || exit 1
"$@" ls-files --others --exclude-standard -z -- . | head -z -n "$most" |
    xargs -0 -r -n 1 "$@" diff $plain --no-index -- /dev/null
exit 0
"""


class NoDiff(Exception):
    """Why there is nothing to show, in words."""


async def uncommitted_changes(cwd: Path) -> list[FileUpdateChange]:
    """New files beyond the first fifty are left out. Raises `NoDiff`."""
    program = hames_command("sandbox", f"--cwd={cwd}", "--sandbox=readOnly", "--", workspace=str(cwd))
    with anyio.move_on_after(GIT_SECONDS):
        done = await anyio.run_process(
            [*program, "sh", "-c", SCRIPT, "sh", str(MOST_NEW_FILES)], check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode == NO_REPOSITORY and b"not a git repository" in done.stdout:
            raise NoDiff("This directory is not in a git repository, so there is nothing to compare with")
        if done.returncode != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip().rpartition("\n")[2]
            raise NoDiff(said.removeprefix("hames: ") or f"git ended with code {done.returncode}")
        return changed_files(done.stdout.decode(errors="replace")[:MOST_CHARACTERS])
    raise NoDiff(f"git did not answer within {GIT_SECONDS:g} seconds")


def changed_files(diff: str) -> list[FileUpdateChange]:
    r"""A diff of many files, file by file.

    >>> diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    >>> [(change.path, change.kind) for change in changed_files(diff)]
    [('x', 'modify')]
    """
    made: list[FileUpdateChange] = []
    for part in f"\n{diff}".split("\ndiff --git ")[1:]:
        head, rest = part.partition("\n")[::2]
        names = {
            row[:4]: row[4:].rstrip("\t") for row in rest.split("\n@@", 1)[0].split("\n") if row[:4] in ("--- ", "+++ ")
        }
        old, new = names.get("--- ", ""), names.get("+++ ", "")
        path = (old if new in ("", "/dev/null") else new) or head.rpartition(" ")[2]
        gone, came = "\ndeleted file mode" in f"\n{rest}", "\nnew file mode" in f"\n{rest}"
        kind = "delete" if gone else "add" if came else "modify"
        body = rest if "\n@@" in f"\n{rest}" else BINARY_DIFF
        made.append(FileUpdateChange(path=_unquoted(path), kind=kind, diff=body))
    return made


def _unquoted(path: str) -> str:
    path = path.removeprefix('"').removesuffix('"')
    return path[2:] if path.startswith(("a/", "b/")) else path
