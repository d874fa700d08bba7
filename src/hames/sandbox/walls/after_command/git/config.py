"""Git configuration files: read as git itself reads them, and written back without settings that can run a program.

Only settings known to be harmless pass. A list of the dangerous ones would be wrong with the next version of git.
A file that git would not accept raises `UnreadableConfig`: what we cannot read we do not call harmless.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from hames.domain.value import Value

DISABLED = "# Disabled by hames: "

_BOM = "\ufeff"
_SPACES = " \t\r\n"
_KEY = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "\\": "\\", '"': '"'}


class UnreadableConfig(ValueError):
    """Git would refuse this file, or we cannot tell what git would make of it."""


class GitSetting(Value):
    """`key` as git writes it: section and name in lower case. `start` and `end` are where it stands in the text."""

    key: str
    value: str | None
    start: int = 0
    end: int = 0


class _Reader:
    """Character by character, the way git's own parser goes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = len(_BOM) if text.startswith(_BOM) else 0
        self.ended = False

    def next(self) -> str:
        if self.at >= len(self.text):
            self.ended = True
            return "\n"
        character = self.text[self.at]
        self.at += 1
        if character == "\r" and self.text[self.at : self.at + 1] == "\n":
            self.at += 1
            return "\n"
        return character

    def settings(self) -> list[GitSetting]:
        found: list[GitSetting] = []
        section, comment = "", False
        while True:
            start = self.at
            character = self.next()
            if character == "\n":
                if self.ended:
                    return found
                comment = False
            elif comment or character in _SPACES:
                continue
            elif character in "#;":
                comment = True
            elif character == "[":
                section = self.section()
            elif section and character.isascii() and character.isalpha():
                key, value = self.setting(character)
                found.append(GitSetting(key=f"{section}.{key}", value=value, start=start, end=self.end_of_line()))
            else:
                raise UnreadableConfig(f"unexpected {character!r}")

    def end_of_line(self) -> int:
        """Where the text before the newline that was just read ends."""
        if self.ended:
            return len(self.text)
        end = self.at - 1
        return end - 1 if self.text[end - 1 : end] == "\r" else end

    def section(self) -> str:
        name = ""
        while True:
            character = self.next()
            if self.ended:
                raise UnreadableConfig("unfinished section")
            if character == "]":
                break
            if character in _SPACES:
                return f"{_check_section(name)}.{self.subsection(character)}"
            if character not in _KEY and character != ".":
                raise UnreadableConfig(f"unexpected {character!r} in a section")
            name += character.lower()
        return _check_section(name)

    def subsection(self, character: str) -> str:
        while character in _SPACES:
            if character == "\n":
                raise UnreadableConfig("unfinished section")
            character = self.next()
        if character != '"':
            raise UnreadableConfig("a section without its quotation mark")
        name = ""
        while (character := self.next()) != '"':
            if character == "\\":
                character = self.next()
            if character == "\n":
                raise UnreadableConfig("unfinished section")
            name += character
        if self.next() != "]":
            raise UnreadableConfig("unfinished section")
        return name

    def setting(self, character: str) -> tuple[str, str | None]:
        key = ""
        while not self.ended and character in _KEY:
            key += character.lower()
            character = self.next()
        while character in " \t":
            character = self.next()
        if character == "\n":
            return key, None
        if character != "=":
            raise UnreadableConfig(f"unexpected {character!r} after {key!r}")
        return key, self.value()

    def value(self) -> str:
        value, spaces, quoted, comment = "", 0, False, False
        while True:
            character = self.next()
            if character == "\n":
                if quoted:
                    raise UnreadableConfig("unfinished quotation")
                return value
            if comment:
                continue
            if not quoted and character in _SPACES:
                spaces += bool(value)
                continue
            if not quoted and character in "#;":
                comment = True
                continue
            value, spaces = value + " " * spaces, 0
            if character == "\\":
                character = self.next()
                if character == "\n":
                    if self.ended:
                        raise UnreadableConfig("unfinished line")
                    continue
                if character not in _ESCAPES:
                    raise UnreadableConfig(f"unknown escape {character!r}")
                value += _ESCAPES[character]
            elif character == '"':
                quoted = not quoted
            else:
                value += character


def _check_section(section: str) -> str:
    if not section.strip("."):
        raise UnreadableConfig("a section without a name")
    return section


def read_config(content: bytes) -> list[GitSetting]:
    """Every setting in the file, in order. Included files are not followed. Raises `UnreadableConfig`.

    >>> [(setting.key, setting.value) for setting in read_config(b'[Remote "Up"]\\n\\tURL = a # b\\n[core]bare')]
    [('remote.Up.url', 'a'), ('core.bare', None)]
    """
    if b"\0" in content:
        raise UnreadableConfig("a NUL byte")
    return _Reader(_text(content)).settings()


def without_settings(content: bytes, harmful: Callable[[GitSetting], bool]) -> tuple[bytes, list[GitSetting]]:
    """The file with every harmful setting turned into a comment, and what was turned. Raises `UnreadableConfig`."""
    removed = [setting for setting in read_config(content) if harmful(setting)]
    text = _text(content)
    for setting in reversed(removed):
        # On one line: the rest of a value that goes on would otherwise be read as settings of its own.
        was = " ".join(text[setting.start : setting.end].split())
        text = f"{text[: setting.start]}{DISABLED}{was}{text[setting.end :]}"
    result = text.encode("utf-8", "surrogateescape")
    if any(harmful(setting) for setting in read_config(result)):
        raise UnreadableConfig("a harmful setting is still there")
    return result, removed


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


class ConfigJudge:
    """Says which settings of a changed file can run a program, or lead git to other files.

    `known` are the settings that were there before: they are the user's own. `inside` says whether a path, seen from
    the git directory, stays in the workspace.
    """

    def __init__(self, known: Iterable[GitSetting], *, inside: Callable[[str], bool]) -> None:
        self._known = Counter((setting.key, setting.value) for setting in known)
        self._inside = inside

    def harmful(self, setting: GitSetting) -> bool:
        return (setting.key, setting.value) not in self._known and not self._harmless(setting)

    def _harmless(self, setting: GitSetting) -> bool:
        key, value = setting.key, setting.value or ""
        section, _, rest = key.partition(".")
        name = rest.rpartition(".")[2]
        if key in HARMLESS or (section in ALL_HARMLESS and "." not in rest):
            return True
        if section == "color":
            return True
        if key == "core.worktree":
            return self._inside(value)
        if key == "core.fsmonitor":
            # `true` is the daemon built into git. Anything else is a program.
            return value.lower() in ("true", "false")
        if name == rest or name not in HARMLESS_BELOW.get(section, ()):
            return False
        if name in ("url", "pushurl") or (section == "branch" and name in ("remote", "pushremote")):
            return is_plain_address(value)
        if (section, name) == ("submodule", "update"):
            return value in ("checkout", "rebase", "merge", "none")
        return True


_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCHEMES = frozenset({"http", "https", "ssh", "git", "git+ssh", "ssh+git", "file", "ftp", "ftps"})


def is_plain_address(value: str) -> bool:
    """Whether git fetches it without a helper program that the address itself names.

    >>> [is_plain_address(text) for text in ("https://host/x", "git@host:x", "../x", "ext::sh -c x", "-x", "origin")]
    [True, True, True, False, False, True]
    """
    if value.startswith("-") or _HELPER.match(value) or any(ord(character) < 32 for character in value):
        return False
    scheme = _SCHEME.match(value)
    return scheme is None or (scheme[1].lower() in _SCHEMES and not scheme[2].startswith("-"))


ALL_HARMLESS = frozenset({"advice", "column", "i18n", "index", "pack", "extensions", "status"})
"""Sections in which no setting (without a subsection) names a program or a file."""

_TABLE = {
    "author": "email name",
    "apply": "ignorewhitespace whitespace",
    "blame": "coloring date showemail showroot",
    "branch": "autosetupmerge autosetuprebase sort",
    "checkout": "defaultremote guess thresholdforparallelism workers",
    "clone": "defaultremotename filtersubmodules rejectshallow",
    "commit": "cleanup gpgsign status verbose",
    "commitgraph": "changedpaths generationversion maxnewfilters readchangedpaths",
    "committer": "email name",
    "core": (
        "abbrev autocrlf bare bigfilethreshold checkroundtripencoding checkstat commentchar commentstring commitgraph"
        " compression createobject deltabasecachelimit eol filemode fsync fsyncmethod fsyncobjectfiles hidedotfiles"
        " ignorecase ignorestat logallrefupdates loosecompression maxtreedepth multipackindex packedgitlimit"
        " packedgitwindowsize packedrefstimeout precomposeunicode prefersymlinkrefs preloadindex protecthfs"
        " protectntfs quotepath repositoryformatversion restrictinheritedhandles safecrlf sharedrepository"
        " sparsecheckout sparsecheckoutcone splitindex symlinks trustctime untrackedcache unsetenvvars"
        " warnambiguousrefs whitespace"
    ),
    "diff": (
        "algorithm autorefreshindex colormoved colormovedws context dirstat ignoresubmodules indentheuristic"
        " interhunkcontext mnemonicprefix noprefix relative renamelimit renames statgraphwidth submodule"
        " suppressblankempty wordregex wserrorhighlight"
    ),
    "feature": "experimental manyfiles",
    "fetch": (
        "all fsckobjects negotiationalgorithm output parallel prune prunetags recursesubmodules showforcedupdates"
        " unpacklimit writecommitgraph"
    ),
    "gc": (
        "aggressivedepth aggressivewindow auto autodetach autopacklimit bigpackthreshold cruftpacks logexpiry"
        " maxcruftsize packrefs pruneexpire reflogexpire reflogexpireunreachable rerereresolved rerereunresolved"
        " worktreepruneexpire writecommitgraph"
    ),
    "http": "lowspeedlimit lowspeedtime maxrequests postbuffer version",
    "init": "defaultbranch defaultobjectformat defaultrefformat",
    "lfs": "repositoryformatversion",
    "log": "abbrevcommit date decorate diffmerges follow initialdecorationset mailmap showroot",
    "maintenance": "auto autodetach strategy",
    "merge": (
        "autostash branchdesc conflictstyle defaulttoupstream directoryrenames ff log renamelimit renames renormalize"
        " stat suppressdest verbosity"
    ),
    "protocol": "version",
    "pull": "ff rebase",
    "push": "autosetupremote default followtags gpgsign negotiate recursesubmodules usebitmaps useforceifincludes",
    "rebase": (
        "abbreviatecommands autosquash autostash forkpoint missingcommitscheck rebasemerges reschedulefailedexec"
        " stat updaterefs"
    ),
    "receive": (
        "advertiseatomic advertisepushoptions autogc denycurrentbranch denydeletecurrent denydeletes"
        " denynonfastforwards fsckobjects hiderefs keepalive maxinputsize shallowupdate unpacklimit updateserverinfo"
    ),
    "remote": "pushdefault",
    "rerere": "autoupdate enabled",
    "stash": "showincludeuntracked showpatch showstat",
    "submodule": "active alternateerrorstrategy alternatelocation fetchjobs propagatebranches recurse",
    "tag": "forcesignannotated gpgsign sort",
    "transfer": "advertisesid credentialsinurl fsckobjects hiderefs unpacklimit",
    "uploadpack": "allowanysha1inwant allowfilter allowreachablesha1inwant allowrefinwant allowtipsha1inwant hiderefs",
    "user": "email name useconfigonly",
    "versionsort": "suffix",
    "worktree": "guessremote userelativepaths",
}
HARMLESS = frozenset(f"{section}.{name}" for section, names in _TABLE.items() for name in names.split())
"""Settings without a subsection."""

HARMLESS_BELOW: dict[str, frozenset[str]] = {
    section: frozenset(names.split())
    for section, names in {
        "branch": (
            "base description gh-merge-base github-pr-owner-number merge pushremote rebase remote vscode-merge-base"
        ),
        "lfs": "access locksverify",
        "remote": (
            "fetch followremotehead gh-resolved mirror partialclonefilter promisor prune prunetags push pushurl"
            " skipdefaultupdate skipfetchall tagopt url"
        ),
        "submodule": "active branch fetchrecursesubmodules ignore path shallow update url",
    }.items()
}
"""Settings with a subsection, such as `remote.NAME.url`."""
