"""Whether a repository could make git start a program of its choice, and what else stands in its way.

Git obeys `.git/config`: monitors, filters, external diffs, textconv, includes. An ordinary repository has none of
these, so every setting of one that git reads unasked must be on a list of settings that start nothing. Nested
repositories that git enters (submodules, and whatever else the index links to) are looked at in the same way.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from hames.domain.value import Value
from hames.sandbox.paths import is_inside
from hames.sandbox.trust.commands.doubt import Doubt
from hames.sandbox.walls.after_command.git.config import UnreadableConfig, read_config

MAX_CONFIG_BYTES = 1 << 20
MAX_INDEX_BYTES = 64 << 20
MAX_NESTED = 64

_BOOLEAN = re.compile(r"true|false|yes|no|on|off|0|1|", re.IGNORECASE)
_HARMLESS = re.compile(
    "|".join(
        (
            r"core\.(?:abbrev|autocrlf|bare|bigfilethreshold|checkstat|commentchar|commitgraph|compression|eol|filemode"
            r"|hookspath|ignorecase|logallrefupdates|longpaths|multipackindex|notesref|precomposeunicode|preloadindex"
            r"|protecthfs|protectntfs|quotepath|repositoryformatversion|safecrlf|sharedrepository|sparsecheckout"
            r"|sparsecheckoutcone|splitindex|symlinks|trustctime|untrackedcache|usereplacerefs|warnambiguousrefs|whitespace)",
            r"extensions\.(?:compatobjectformat|objectformat|preciousobjects|refstorage|relativeworktrees|worktreeconfig)",
            r"remote\..+\.(?:fetch|gh-resolved|mirror|prune|prunetags|push|pushurl|skipdefaultupdate|skipfetchall|tagopt|url)",
            r"remote\.pushdefault",
            r"branch\..+|user\.(?:email|name|signingkey|useconfigonly)|author\.\w+|committer\.\w+",
            r"submodule\.(?:active|fetchjobs|propagatebranches|recurse)|submodule\..+\.(?:active|branch|ignore|url)",
            r"(?:color|column|advice|init|pull|push|fetch|rebase|rerere|status|stash|versionsort|feature|index)\.\w+",
            r"color\.\w+\.\w+|commit\.(?:cleanup|gpgsign|status|verbose)|tag\.(?:gpgsign|sort|forcesignannotated)",
            r"merge\.(?:conflictstyle|ff|log|renamelimit|renames|stat)|checkout\.\w+|clone\.defaultremotename",
            r"diff\.(?:algorithm|colormoved|colormovedws|context|dirstat|ignoresubmodules|indentheuristic"
            r"|interhunkcontext|mnemonicprefix|noprefix|relative|renamelimit|renames|statgraphwidth|suppressblankempty"
            r"|wserrorhighlight|wordregex)",
            r"log\.(?:abbrevcommit|date|decorate|diffmerges|follow|mailmap)|blame\.\w+|grep\.\w+",
            r"gc\.(?:auto|autodetach|autopacklimit|pruneexpire|reflogexpire\w*|writecommitgraph)",
            # Only for what goes over the network, which no reading command does.
            r"http\..+|credential\..+|protocol\..+|url\..+\.(?:insteadof|pushinsteadof)",
            # An alias never replaces a command that git has.
            r"alias\..+|maintenance\.(?:auto|strategy)|pack\.\w+|lfs\.repositoryformatversion",
            r"lfs\..+\.(?:access|locksverify)|github\.user|gui\..+|gitflow\..+|i18n\.\w+",
        )
    )
)
_EXACTLY = {
    "filter.lfs.clean": "git-lfs clean -- %f",
    "filter.lfs.process": "git-lfs filter-process",
    "filter.lfs.required": "true",
    "filter.lfs.smudge": "git-lfs smudge -- %f",
}
"""What `git lfs install --local` writes."""
_USER_IN_URL = re.compile(r"://[^/@\s]*:[^/@\s]+@")
_GITLINK = b"\x00\x00\xe0\x00"
"""The mode of an index entry that is another repository: 160000 in octal."""


class Repository(Value):
    """`git_dir` belongs to this working tree, `common_dir` to all working trees of the repository."""

    top: str
    git_dir: str
    common_dir: str


def find_repository(place: str, workspace: str) -> Repository | None:
    """The repository git would find from here. Raises `Doubt` for one outside the workspace, or in disguise."""
    directory = Path(place)
    while True:
        marker = directory / ".git"
        if os.path.lexists(marker):
            if not is_inside(str(directory), workspace):
                raise Doubt(f"the git repository starts at `{directory}`, outside the workspace")
            return open_repository(str(directory), workspace)
        if _is_bare(directory):
            raise Doubt(f"`{directory}` is a bare repository, whose settings git would obey")
        if directory == directory.parent:
            return None
        directory = directory.parent


def open_repository(top: str, workspace: str) -> Repository:
    marker = Path(top, ".git")
    if marker.is_symlink():
        raise Doubt(f"`{marker}` is a symbolic link")
    git_dir = str(marker) if marker.is_dir() else _read_git_link(marker)
    common = _common_dir(git_dir)
    if not is_inside(git_dir, workspace) and not _points_back(git_dir, common, top):
        raise Doubt(f"`{marker}` leads to the repository of another directory")
    return Repository(top=top, git_dir=git_dir, common_dir=common)


def check_repository(repository: Repository, workspace: str) -> dict[str, list[str]]:
    """Raises `Doubt` if git could start a program that the repository, or one nested in it, names.

    Returns the settings of the outermost.
    """
    outermost: dict[str, list[str]] | None = None
    waiting, seen = [repository], {repository.top}
    while waiting:
        here = waiting.pop()
        settings = _check_settings(here)
        outermost = settings if outermost is None else outermost
        for path in _gitlinks(here, settings):
            top = os.path.normpath(Path(here.top, path))
            if top in seen or not os.path.lexists(Path(top, ".git")):
                continue
            if os.path.realpath(top) != top:
                raise Doubt(f"the nested repository `{path}` lies behind a symbolic link")
            seen.add(top)
            if len(seen) > MAX_NESTED:
                raise Doubt(f"it has more than {MAX_NESTED} nested repositories")
            waiting.append(open_repository(top, workspace))
    assert outermost is not None
    return outermost


def has_password(settings: dict[str, list[str]]) -> bool:
    """Whether the address of a remote has one in it."""
    return any(
        _USER_IN_URL.search(value) for key, values in settings.items() if key.startswith("remote.") for value in values
    )


def _check_settings(repository: Repository) -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {}
    for path in (Path(repository.common_dir, "config"), Path(repository.git_dir, "config.worktree")):
        for key, value in _read_config(path):
            settings.setdefault(key, []).append(value)
    for key, values in settings.items():
        for value in values:
            if not _is_harmless(key, value, repository):
                raise Doubt(f"the repository sets `{key}`, which can make git start a program or read elsewhere")
    return settings


def _is_harmless(key: str, value: str, repository: Repository) -> bool:
    if key == "core.fsmonitor":
        return _BOOLEAN.fullmatch(value) is not None
    if key == "core.worktree":  # what a submodule has: the way back
        return os.path.realpath(Path(repository.git_dir, value)) == repository.top
    return _EXACTLY.get(key) == value or _HARMLESS.fullmatch(key) is not None


def _read_config(path: Path) -> Iterator[tuple[str, str]]:
    """Every setting with its whole name. What git would not read raises `Doubt`."""
    try:
        if not os.path.lexists(path):
            return
        if not path.is_file():  # a pipe would never end
            raise Doubt(f"the settings of the repository are not a regular file (`{path.name}`)")
        with path.open("rb") as file:
            raw = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise Doubt(f"the settings of the repository cannot be read ({error.strerror})") from None
    try:
        # To git a lone carriage return is a part of a value. People would see a new line, and other programs read one.
        if len(raw) > MAX_CONFIG_BYTES or b"\r" in raw.replace(b"\r\n", b""):
            raise UnreadableConfig("too long, or a lone carriage return")
        for setting in read_config(raw):
            yield setting.key, "true" if setting.value is None else setting.value
    except UnreadableConfig:
        raise Doubt(f"the settings of the repository are written in an unusual way (`{path.name}`)") from None


def _gitlinks(repository: Repository, settings: dict[str, list[str]]) -> Iterator[str]:
    """Where the index links to other repositories."""
    hash_bytes = 32 if "sha256" in settings.get("extensions.objectformat", ()) else 20
    for path in (Path(repository.git_dir, "index"), *Path(repository.git_dir).glob("sharedindex.*")):
        try:
            if path.stat().st_size > MAX_INDEX_BYTES:
                raise Doubt("the repository is too large to look for nested ones")
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Doubt(f"the index of the repository cannot be read ({error.strerror})") from None
        if _GITLINK in data:  # seldom, and then the entries are read one by one
            yield from _read_gitlinks(data, hash_bytes)


def _read_gitlinks(data: bytes, hash_bytes: int) -> Iterator[str]:
    unreadable = Doubt("the index of the repository cannot be read")
    if data[:4] != b"DIRC":
        raise unreadable
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    at, previous = 12, b""
    for _ in range(count):
        start, at = at, at + 40 + hash_bytes
        flags = int.from_bytes(data[at : at + 2], "big")
        at += 4 if flags & 0x4000 else 2
        if version == 4:
            strip, at = _offset(data, at)
            end = data.find(b"\0", at)
            previous = name = previous[: len(previous) - strip] + data[at:end]
            at = end + 1
        else:
            end = data.find(b"\0", at)
            name = data[at:end]
            at = start + ((end - start) // 8 + 1) * 8
        if end < 0 or version not in (2, 3, 4):
            raise unreadable
        if data[start + 24 : start + 28] == _GITLINK:
            yield os.fsdecode(name)


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A number as packs write it: seven bits at a time, with one added at each step."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1


def _read_git_link(marker: Path) -> str:
    """Where a `.git` that is a file says that the repository is."""
    try:
        with marker.open("rb") as file:
            text = os.fsdecode(file.read(4097))
    except OSError as error:
        raise Doubt(f"`{marker}` cannot be read ({error.strerror})") from None
    if not text.startswith("gitdir: ") or len(text) > 4096 or text.rstrip("\n").count("\n"):
        raise Doubt(f"`{marker}` is neither a directory nor a link to one")
    return os.path.realpath(Path(marker.parent, text[len("gitdir: ") :].rstrip("\n")))


def _common_dir(git_dir: str) -> str:
    """A further working tree shares the repository of the first: `…/.git/worktrees/NAME`."""
    try:
        text = Path(git_dir, "commondir").read_text()
    except FileNotFoundError:
        return git_dir
    except (OSError, UnicodeDecodeError):
        raise Doubt("the repository cannot be read") from None
    common = os.path.realpath(Path(git_dir, text.rstrip("\n")))
    if Path(git_dir).parent != Path(common, "worktrees"):
        raise Doubt("the repository takes its settings from another one")
    return common


def _points_back(git_dir: str, common: str, top: str) -> bool:
    """Whether a repository elsewhere knows this directory as its own: nobody can forge that from in here."""
    if git_dir != common:
        try:
            back = Path(git_dir, "gitdir").read_text().rstrip("\n")
        except (OSError, UnicodeDecodeError):
            return False
        return os.path.realpath(Path(git_dir, back)) == f"{top}/.git"
    values = [value for key, value in _read_config(Path(common, "config")) if key == "core.worktree"]
    return bool(values) and os.path.realpath(Path(git_dir, values[-1])) == top


def _is_bare(directory: Path) -> bool:
    return (directory / "HEAD").exists() and (directory / "objects").is_dir() and (directory / "refs").is_dir()
