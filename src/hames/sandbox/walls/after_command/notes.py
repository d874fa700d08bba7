"""The sentences that a command's result says about what was done with what it left behind."""

from collections.abc import Sequence

from hames.sandbox.paths import root_of
from hames.sandbox.walls.after_command.git.disarm import Disarmed

_MOST_NAMED = 8
_MOST_SENTENCES = 20


def disarm_notes(disarmed: Sequence[Disarmed], roots: Sequence[str]) -> list[str]:
    notes = [_problem(one, roots) for one in disarmed if one.problem]
    groups: dict[tuple[str, str, bool], list[Disarmed]] = {}
    for one in disarmed:
        if not one.problem:
            directory = one.path.rpartition("/")[0]
            groups.setdefault((one.piece.kind, directory, one.restored), []).append(one)
    notes += [_note(group, roots) for group in groups.values()]
    if len(notes) > _MOST_SENTENCES:
        left = len(notes) - _MOST_SENTENCES
        notes = [*notes[:_MOST_SENTENCES], f"The same was done in {left} more places"]
    return notes


def bit_notes(dropped: Sequence[str], stuck: Sequence[str], roots: Sequence[str]) -> list[str]:
    notes: list[str] = []
    for paths, did in ((dropped, "Removed"), (stuck, "Could not remove")):
        if paths:
            names = named_list([short_name(path, roots) for path in paths])
            notes.append(
                f"{did} the set-uid and set-gid bits from {names}: whoever runs such a file runs it as its owner"
            )
    return notes


def short_name(path: str, roots: Sequence[str]) -> str:
    """From the workspace, which is the first root; whole elsewhere."""
    if root_of(path, tuple(roots[:1])) is None:
        return path
    return path[len(roots[0].rstrip("/")) + 1 :] or "."


def named_list(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_MOST_NAMED]))
    more = len(names) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _note(group: Sequence[Disarmed], roots: Sequence[str]) -> str:
    first = group[0]
    place = short_name(first.path.rpartition("/")[0], roots)
    path = short_name(first.path, roots)
    names = named_list([one.path.rpartition("/")[2] for one in group])
    kept = f" Kept as {named_list([one.kept_as for one in group if one.kept_as])}" if first.kept_as else ""
    match first.piece.kind:
        case "hook" if first.restored:
            return f"Restored the git hooks {names} in {place!r}: the command had changed them.{kept}"
        case "hook":
            return f"Disabled the git hooks {names} in {place!r}: git would have run them outside the sandbox.{kept}"
        case "config" if not first.what and first.restored:
            return f"Restored the git settings {path!r}: git could not read what the command had left.{kept}"
        case "config" if not first.what:
            return f"Replaced the git settings {path!r}: git cannot read them, or they lead elsewhere.{kept}"
        case "config":
            return (
                f"Disabled {named_list(first.what)} in the git settings {path!r}: git could run a program outside the"
                f" sandbox because of it. Kept there as comments.{kept}"
            )
        case "todo":
            return (
                f"Removed {named_list(first.what)} from the paused rebase {path!r}: `git rebase --continue` would have"
                f" run it outside the sandbox. Run it yourself if it is needed.{kept}"
            )
        case "strategy":
            return f"Disabled the merge strategy in {path!r}: git would have run it as a program.{kept}"
        case "pointer" | "common":
            return f"Disabled {path!r}: it leads git to a repository outside the workspace.{kept}"
        case "link":
            return f"Disabled the link {path!r}: git would have used its target.{kept}"


def _problem(one: Disarmed, roots: Sequence[str]) -> str:
    return (
        f"Could not disable {short_name(one.path, roots)!r} ({one.problem}): git would run what it names outside the"
        " sandbox. Remove it before git is used there"
    )
