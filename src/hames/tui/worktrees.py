"""/worktree: start or fork a thread in a git worktree of its own, and merge, keep or drop that."""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from hames.client.appserver.client import AppServerClient
from hames.domain.display import visible
from hames.protocols.flint import messages as m
from hames.tui.pickers import PickerChoice
from hames.tui.session import Session

Choose = Callable[[str, list[PickerChoice]], Awaitable[str]]
AskLine = Callable[[str], Awaitable[str | None]]


async def use_worktree(session: Session, name: str, choose: Choose, ask: AskLine) -> str:
    """Returns the sentence that says what was done; empty if the thread itself says it with a notice."""
    client, talk = session.connected, session.talk
    if not talk.thread_id:
        session.worktree = m.WorktreeOptions(name=name or None)
        return "This thread will work in a git worktree of its own. /worktree merges, keeps or drops it later"
    found = next((one for one in await client.worktrees(cwd=talk.cwd) if one.thread_id == talk.thread_id), None)
    if found is not None:
        return await _finish(client, found, choose, ask)
    if not await choose("Go on in a worktree", [_FORK, PickerChoice(id="", label="Cancel")]):
        return "Nothing was changed"
    await session.open(talk.thread_id, fork=True, worktree=m.WorktreeOptions(name=name or None))
    return "This is a copy of the thread, in a worktree of its own. The original stays as it is"


_FORK = PickerChoice(
    id="fork",
    label="Continue in a copy of this thread, in a git worktree of its own",
    detail="With the files as they are now, uncommitted ones too; ignored files stay here",
)


async def _finish(client: AppServerClient, tree: m.WorktreeEntry, choose: Choose, ask: AskLine) -> str:
    given = m.WorktreeFinishParams(action="drop", thread_id=tree.thread_id)
    seen = await client.finish_worktree(replace(given, preview=True))
    commits = f"{len(tree.commits)} commit{'s' * (len(tree.commits) != 1)}"
    files = f", {len(tree.uncommitted)} uncommitted files will be committed" if tree.uncommitted else ""
    choices = [
        PickerChoice(id="merge", label=f"Merge into {tree.base}", detail=f"{commits}{files}"),
        PickerChoice(id="keep", label="Keep it", detail=visible(tree.path)),
        PickerChoice(id="drop", label="Drop it", detail="; ".join(seen.loses) or "Nothing would be lost"),
        PickerChoice(id="", label="Cancel"),
    ]
    picked = await choose(f"Worktree {visible(tree.name)}", choices if tree.base else choices[1:])
    match picked:
        case "merge" | "keep":
            report = await client.finish_worktree(replace(given, action=picked))
            if report.done:
                return ""
            return "\n".join([visible(report.message), *(f"  conflict  {visible(path)}" for path in report.conflicts)])
        case "drop":
            if seen.loses:
                lost = "; ".join(seen.loses)
                typed = await ask(f"This deletes {visible(lost)}. Type {visible(tree.name)} to delete it")
                if (typed or "").strip() != tree.name:
                    return "Nothing was deleted"
                given = replace(given, discard=tree.name)
            report = await client.finish_worktree(given)
            return "" if report.done else visible(report.message)
        case _:
            return "Nothing was changed"
