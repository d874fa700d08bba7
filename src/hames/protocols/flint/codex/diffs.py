"""Diffs as Codex's clients expect them: the bare text of a file that was added or deleted, hunks without headers for
one that was changed, and one diff of everything a turn has changed.

Our own diffs are unified ones with headers. Another agent's may have Codex's form already; those stay as they are.
"""

import re
from collections.abc import Iterable

from hames.deferred import pattern
from hames.domain.items import FileChange, FileUpdate
from hames.domain.state import Turn

_HEAD = pattern(
    r"(?P<mode>(?:(?:new|old|deleted)(?: file)? mode [0-7]+\n)*)--- (?P<old>[^\n]*)\n\+\+\+ (?P<new>[^\n]*)\n"
)
_NO_NEWLINE = "\\ No newline at end of file"


def codex_diff(change: FileUpdate) -> str:
    """The `diff` of one changed file.

    >>> codex_diff(FileUpdate(path="/w/a", kind="add", diff="--- /dev/null\\n+++ b/a\\n@@ -0,0 +1 @@\\n+hello\\n"))
    'hello\\n'
    >>> codex_diff(FileUpdate(path="/w/a", kind="modify", diff="--- a/a\\n+++ b/a\\n@@ -1 +1 @@\\n-x\\n+y\\n"))
    '@@ -1 +1 @@\\n-x\\n+y\\n'
    """
    head = _HEAD.match(change.diff)
    if head is None:
        return change.diff if "\n" not in change.diff or "mode " not in change.diff[:14] else _without_mode(change)
    hunks = change.diff[head.end() :]
    return hunks if change.kind == "modify" else _text(hunks, "+" if change.kind == "add" else "-")


def turn_diff(turn: Turn) -> str:
    """Everything the turn has changed with its tools so far, as git writes it. A file that was changed twice is there
    twice, in the order of the changes."""
    done = (item for item in turn.items if isinstance(item, FileChange) and item.status == "completed")
    return "".join(_git_diff(change) for item in done for change in item.changes)


def _without_mode(change: FileUpdate) -> str:
    """Nothing but the mode has changed, or the file is empty: there is no text to show."""
    return (
        re.sub(r"\A(?:(?:new|old|deleted)(?: file)? mode [0-7]+\n)+", "", change.diff)
        if change.kind != "modify"
        else change.diff
    )


def _text(hunks: str, sign: str) -> str:
    lines: list[str] = []
    for line in _lines(hunks):
        if line.startswith(_NO_NEWLINE) and lines:
            lines[-1] = lines[-1].removesuffix("\n")
        elif line.startswith(sign):
            lines.append(line[1:])
        elif not line.startswith("@@"):
            lines.append(line)  # a diff that was too long says so at its end
    return "".join(lines)


def _lines(text: str) -> Iterable[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)  # a line ends at LF and nowhere else


def _git_diff(change: FileUpdate) -> str:
    head = _HEAD.match(change.diff)
    if head is None:
        name = change.path.lstrip("/")
        return f"diff --git a/{name} b/{name}\n{change.diff}"
    old, new = head["old"], head["new"]
    name = (new if change.kind != "delete" else old).partition("/")[2]
    mode = head["mode"] or {"add": "new file mode 100644\n", "delete": "deleted file mode 100644\n"}.get(
        change.kind, ""
    )
    return f"diff --git a/{name} b/{name}\n{mode}--- {old}\n+++ {new}\n{change.diff[head.end() :]}"
