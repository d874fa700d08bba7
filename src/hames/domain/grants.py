"""What `always` allows, said before it is chosen and checked afterwards. The same rules serve both."""

from collections.abc import Iterable

from hames.domain.approvals import CallMcp, ChangeFiles, Elicit, Intent, RunCommand
from hames.domain.network import HostPort
from hames.domain.options import Settings
from hames.domain.policy import CommandGrant, FileChangeGrant, Grant, HostGrant, McpGrant, ScriptFile
from hames.domain.rules import Rule
from hames.domain.value import Value

_NAMED = 3


class AlwaysCovers(Value):
    """What `always` would allow. `text` is a phrase such as "further changes to a.py, for the rest of this thread".

    `files`: for a file change, the files that may be changed again; for a command, the scripts that must not
    change.
    """

    text: str
    files: tuple[str, ...] = ()


def grant_for(intent: Intent | Elicit) -> Grant | None:
    """What `always` allows from now on. Never a prefix, never a pattern, never a protected path."""
    match intent:
        case RunCommand(connects_to=HostPort(host=host, port=port)):
            return HostGrant(host=host, port=port)
        case RunCommand(command=command, cwd=cwd, unsandboxed=unsandboxed, scripts=scripts, repeatable=True):
            return CommandGrant(command=command, cwd=cwd, unsandboxed=unsandboxed, scripts=scripts)
        case ChangeFiles(changes=changes, protected=False):
            paths = tuple(change.path for change in changes if change.kind != "delete")
            return FileChangeGrant(paths=paths) if paths else None
        case CallMcp(server=server, tool=tool):
            return McpGrant(server=server, tool=tool)
        case _:
            return None


def changed_servers(before: Settings, after: Settings) -> frozenset[str]:
    """The names of MCP servers that are no longer what they were: what was allowed to them is allowed no more."""
    was, now = ({server.name: server for server in one.mcp_servers} for one in (before, after))
    return frozenset(name for name in {*was, *now} if was.get(name) != now.get(name))


def without_servers(grants: tuple[Grant, ...], names: frozenset[str]) -> tuple[Grant, ...]:
    return tuple(grant for grant in grants if not (isinstance(grant, McpGrant) and grant.server in names))


def always_covers(intent: Intent | Elicit, *, cwd: str) -> AlwaysCovers | None:
    """What a person is told before choosing `always`; None: there is nothing to allow for good.

    Paths below `cwd` are named from there.

    >>> always_covers(CallMcp(server="s", tool="t"), cwd="/w").text
    'calls of t on the server s, for the rest of this thread'
    """
    match grant_for(intent):
        case CommandGrant(cwd=here, unsandboxed=unsandboxed, scripts=scripts):
            files = tuple(script.path for script in scripts)
            text = "this exact command in this directory, for the rest of this thread"
            text += ", outside the sandbox" if unsandboxed else ""
            return AlwaysCovers(text=text + _while_unchanged(files, here), files=files)
        case FileChangeGrant(paths=paths):
            return AlwaysCovers(
                text=f"further changes to {_listed(paths, cwd)}, for the rest of this thread", files=paths
            )
        case McpGrant(server=server, tool=tool):
            return AlwaysCovers(text=f"calls of {tool} on the server {server}, for the rest of this thread")
        case HostGrant(host=host, port=port):
            place = HostPort(host=host, port=port)
            return AlwaysCovers(text=f"connections of every command to {place}, for the rest of this thread")
        case None:
            return None


def project_covers(offer: Rule | None) -> AlwaysCovers | None:
    """What a person is told before a rule is kept for the project; None: none is offered.

    >>> project_covers(Rule(action="allow", command="pytest *", project="/w")).text
    'allow `pytest *` in this project, inside the sandbox, from now on (kept in your configuration)'
    """
    if offer is None:
        return None
    kind = {"mcp": "calls of ", "host": "pages of "}.get(offer.subject, "")
    walls = ", inside the sandbox" if offer.command else ""
    return AlwaysCovers(
        text=f"allow {kind}`{offer.pattern}` in this project{walls}, from now on (kept in your configuration)"
    )


def is_granted(intent: ChangeFiles, grants: Iterable[Grant]) -> bool:
    """Whether every file of a change was allowed, together or one by one."""
    allowed = {path for grant in grants if isinstance(grant, FileChangeGrant) for path in grant.paths}
    return all(change.path in allowed and change.kind != "delete" for change in intent.changes)


def what_changed(before: tuple[ScriptFile, ...], now: tuple[ScriptFile, ...], *, cwd: str) -> str:
    """The first difference between two sets of scripts, in words; empty if there is none."""
    earlier, later = ({script.path: script for script in scripts} for scripts in (before, now))
    for path in (*earlier, *(path for path in later if path not in earlier)):
        name = _short(path, cwd)
        if path not in later:
            return f"{name} is gone"
        if path not in earlier:
            return f"{name} is new"
        if earlier[path].target != later[path].target:
            is_link = later[path].target != ""
            return f"{name} is now a different symbolic link" if is_link else f"{name} is no longer a symbolic link"
        if earlier[path].sha256 != later[path].sha256:
            return f"{name} changed"
    return ""


def _while_unchanged(files: tuple[str, ...], cwd: str) -> str:
    if not files:
        return ""
    return f", as long as {_listed(files, cwd)} {'does' if len(files) == 1 else 'do'} not change"


def _listed(paths: tuple[str, ...], cwd: str) -> str:
    names = [_short(path, cwd) for path in paths[:_NAMED]]
    more = len(paths) - len(names)
    if more:
        return f"{', '.join(names)} and {more} more file{'s' if more > 1 else ''}"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _short(path: str, cwd: str) -> str:
    return path.removeprefix(cwd.rstrip("/") + "/")
