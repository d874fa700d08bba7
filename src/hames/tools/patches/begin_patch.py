"""Reading the other patch format that models write: `*** Begin Patch` … `*** End Patch`."""

from hames.ports import ToolFailed
from hames.tools.patches.hunks import FilePatch, Hunk, Sign

BEGIN, END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
_END_OF_FILE = "*** End of File"


def parse_patch(patch: str) -> list[FilePatch]:
    """Raises `ToolFailed` with the line that is wrong."""
    lines = patch.strip().split("\n")
    if lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise ToolFailed(f"the patch begins with `{BEGIN}` and ends with `{END}`")
    files: list[FilePatch] = []
    at = 1
    while at < len(lines) - 1:
        head = lines[at]
        body = at + 1
        at = next((i for i in range(body, len(lines)) if _is_head(lines[i])), len(lines) - 1)
        if head.startswith(_ADD):
            files.append(_added(head.removeprefix(_ADD).strip(), lines[body:at], body))
        elif head.startswith(_DELETE):
            files.append(FilePatch(path=head.removeprefix(_DELETE).strip(), kind="delete"))
        elif head.startswith(_UPDATE):
            files.append(_updated(head.removeprefix(_UPDATE).strip(), lines[body:at], body))
        elif head.strip():
            raise ToolFailed(f"line {body} of the patch: {head!r} is none of `{_ADD}`, `{_UPDATE}`, `{_DELETE}`")
    if not files:
        raise ToolFailed("there is no file in this patch")
    return files


def _is_head(line: str) -> bool:
    return line.startswith((_ADD, _DELETE, _UPDATE)) or line.strip() == END


def _added(path: str, lines: list[str], first: int) -> FilePatch:
    for number, line in enumerate(lines, first + 1):
        if not line.startswith("+"):
            raise ToolFailed(f"line {number} of the patch: every line of a new file begins with `+`")
    signed: tuple[tuple[Sign, str], ...] = tuple(("+", line[1:]) for line in lines)
    return FilePatch(path=path, kind="add", hunks=(Hunk(lines=signed),) if signed else ())


def _updated(path: str, lines: list[str], first: int) -> FilePatch:
    move_to = ""
    if lines and lines[0].startswith(_MOVE):
        move_to = lines[0].removeprefix(_MOVE).strip()
        lines, first = lines[1:], first + 1
    hunks: list[Hunk] = []
    anchors: list[str] = []
    body: list[tuple[Sign, str]] = []

    def close(*, at_end: bool = False) -> None:
        if body:
            hunks.append(Hunk(lines=tuple(body), anchors=tuple(anchors), at_end=at_end))
            anchors.clear()
            body.clear()

    for number, line in enumerate(lines, first + 1):
        match line[:1]:
            case "@":
                close()
                if anchor := line.strip("@ "):
                    anchors.append(anchor)
            case (" " | "-" | "+") as sign:
                body.append((sign, line[1:]))
            case "":
                body.append((" ", ""))
            case _ if line.strip() == _END_OF_FILE:
                close(at_end=True)
            case _:
                raise ToolFailed(f"line {number} of the patch begins with none of ` `, `-`, `+`, `@@`: {line!r}")
    close()
    if not hunks and not move_to:
        raise ToolFailed(f"the patch updates {path!r} without a change")
    return FilePatch(path=path, kind="modify", hunks=tuple(hunks), move_to=move_to)
