"""Which calls of git only read: subcommands, their options and their operands, each from a list.

What git does beside its words (hooks, filters, the monitor, textconv, external diffs, signatures) is the business of
`repository`, and of `hardening`, the environment in which it then runs.
"""

import re

from hames.sandbox.trust.commands.calls import ReadingCall, check_search
from hames.sandbox.trust.commands.doubt import Doubt
from hames.sandbox.trust.commands.options import CallOptions, read_options
from hames.sandbox.trust.commands.programs import ReadingProgram, names
from hames.sandbox.trust.commands.secret_names import is_secret_path

_DIFF = ReadingProgram(
    operands="words",
    flags="abprsuwzR",
    values="GS",
    maybe="BCMU",
    long=names(
        "abbrev-commit binary cached check color-moved compact-summary cumulative dirstat exit-code find-copies "
        "find-copies-harder find-renames first-parent full-index function-context histogram ignore-all-space "
        "ignore-blank-lines ignore-cr-at-eol ignore-space-at-eol ignore-space-change indent-heuristic merge-base "
        "minimal name-only name-status no-color no-ext-diff no-indent-heuristic no-patch no-prefix no-renames "
        "no-textconv numstat patch patch-with-raw patch-with-stat patience pickaxe-all pickaxe-regex quiet raw "
        "relative reverse shortstat staged stat summary text"
    ),
    long_values=names(
        "diff-algorithm diff-filter dst-prefix find-object inter-hunk-context src-prefix stat-count stat-name-width "
        "stat-width word-diff-regex"
    ),
    long_maybe=names(
        "abbrev color color-words dirstat find-copies find-renames ignore-submodules stat unified word-diff"
    ),
)
_LOG = ReadingProgram(
    operands="words",
    flags=_DIFF.flags + "cgimqtEFP",
    values=_DIFF.values + "Ln",
    maybe=_DIFF.maybe,
    long=(
        *_DIFF.long,
        *names(
            "all all-match ancestry-path author-date-order boundary branches cc cherry-mark cherry-pick count "
            "date-order dense follow full-diff full-history graph invert-grep left-only left-right log-size merge "
            "merges name-status no-abbrev-commit no-decorate no-graph no-max-parents no-merges no-min-parents no-notes "
            "no-walk oneline parents regexp-ignore-case relative-date remotes reverse right-only root show-pulls "
            "simplify-by-decoration simplify-merges source sparse tags topo-order use-mailmap walk-reflogs"
        ),
    ),
    long_values=(
        *_DIFF.long_values,
        *names("after author before committer date encoding exclude glob grep max-count since skip until"),
    ),
    long_maybe=(
        *_DIFF.long_maybe,
        *names("branches decorate diff-merges format max-parents min-parents no-walk notes pretty remotes tags"),
    ),
    bare_number=True,
)

_SUBCOMMANDS: dict[str, ReadingProgram] = {
    "status": ReadingProgram(
        operands="words",
        flags="bsvz",
        maybe="u",
        long=names(
            "ahead-behind branch column long no-ahead-behind no-column no-renames renames short show-stash verbose"
        ),
        long_maybe=names("column find-renames ignore-submodules ignored porcelain untracked-files"),
    ),
    "diff": _DIFF,
    "log": _LOG,
    "show": _LOG,
    "shortlog": ReadingProgram(
        operands="words",
        flags="cens",
        long=names("all committer email merges no-merges numbered summary"),
        long_values=names("after author before grep group since until"),
        bare_number=True,
    ),
    "reflog": _LOG,
    "stash": _LOG,
    "rev-list": ReadingProgram(
        operands="words",
        long=names(
            "all boundary branches count date-order first-parent left-only left-right merges no-merges oneline parents "
            "remotes reverse right-only tags topo-order"
        ),
        values="n",
        long_values=names("after author before committer exclude glob grep max-count since skip until"),
        long_maybe=names("branches format pretty remotes tags"),
        bare_number=True,
    ),
    "diff-tree": ReadingProgram(
        operands="words",
        flags="prstz",
        long=names("name-only name-status no-commit-id numstat patch raw root shortstat stat"),
    ),
    "branch": ReadingProgram(
        operands="words",
        flags="arvil",
        long=names("all color column ignore-case list no-abbrev no-color no-column remotes show-current verbose"),
        long_values=names("format points-at sort"),
        long_maybe=names("abbrev color column contains merged no-contains no-merged"),
    ),
    "tag": ReadingProgram(
        operands="words",
        flags="il",
        maybe="n",
        long=names("column ignore-case list no-column"),
        long_values=names("format points-at sort"),
        long_maybe=names("color column contains merged no-contains no-merged"),
    ),
    "remote": ReadingProgram(operands="words", flags="v", long=names("verbose all push")),
    "rev-parse": ReadingProgram(
        operands="words",
        flags="q",
        long=names(
            "abbrev-ref absolute-git-dir all branches git-common-dir git-dir is-bare-repository is-inside-git-dir "
            "is-inside-work-tree is-shallow-repository quiet remotes short show-cdup show-object-format show-prefix "
            "show-superproject-working-tree show-toplevel symbolic symbolic-full-name tags verify"
        ),
        long_values=names("git-path default"),
        long_maybe=names("abbrev-ref branches path-format remotes short tags"),
    ),
    "ls-files": ReadingProgram(
        flags="cdikmostuvz",
        values="x",
        long=names(
            "cached debug deduplicate deleted directory eol error-unmatch exclude-standard full-name ignored killed "
            "modified no-empty-directory others stage unmerged"
        ),
        long_values=names("exclude format with-tree"),
        long_maybe=("abbrev",),
        operands="words",
        names_only=True,
    ),
    "ls-tree": ReadingProgram(
        operands="words",
        flags="dlrtz",
        long=names("full-name full-tree long name-only name-status object-only"),
        long_values=("format",),
        long_maybe=("abbrev",),
        names_only=True,
    ),
    "blame": ReadingProgram(
        operands="words",
        flags="bcefklnpstw",
        values="L",
        maybe="CM",
        long=names(
            "color-by-age color-lines first-parent incremental line-porcelain no-progress porcelain root score-debug "
            "show-email show-name show-number show-stats"
        ),
        long_values=names("date since"),
        long_maybe=("abbrev",),
    ),
    "describe": ReadingProgram(
        operands="words",
        long=names("all always contains dirty exact-match first-parent long no-exclude no-match tags"),
        long_values=names("candidates exclude match"),
        long_maybe=names("abbrev dirty"),
    ),
    "cat-file": ReadingProgram(operands="words", flags="epst", most=2),
    "merge-base": ReadingProgram(
        operands="words", flags="a", long=names("all fork-point independent is-ancestor octopus")
    ),
    "name-rev": ReadingProgram(
        operands="words", long=names("always name-only tags"), long_values=names("exclude refs")
    ),
    "for-each-ref": ReadingProgram(
        operands="words",
        long=names("ignore-case"),
        long_values=names("contains count exclude format merged no-contains no-merged points-at sort"),
        long_maybe=("color",),
    ),
    "show-ref": ReadingProgram(
        operands="words",
        flags="dq",
        long=names("branches dereference head heads quiet tags verify"),
        long_maybe=names("abbrev hash"),
    ),
    "symbolic-ref": ReadingProgram(operands="words", flags="q", long=names("quiet short"), least=1, most=1),
    "check-ignore": ReadingProgram(
        operands="words", flags="nqv", long=names("no-index non-matching quiet verbose"), least=1
    ),
    "count-objects": ReadingProgram(operands="none", flags="Hv", long=names("human-readable verbose")),
    "grep": ReadingProgram(
        operands="words",
        flags="EFGHILPWachilnopqrvwz",
        values="ABCem",
        long=names(
            "all-match and basic-regexp break cached column count exclude-standard extended-regexp "
            "files-with-matches files-without-match fixed-strings full-name function-context heading ignore-case "
            "invert-match line-number max-depth name-only no-color no-exclude-standard not null only-matching or "
            "perl-regexp quiet show-function text untracked word-regexp"
        ),
        long_values=names("after-context before-context context max-count max-depth threads"),
        long_maybe=("color",),
    ),
    "worktree": ReadingProgram(operands="none", flags="vz", long=names("porcelain verbose")),
    "submodule": ReadingProgram(operands="words", long=names("cached quiet recursive")),
    "config": ReadingProgram(
        operands="words",
        flags="z",
        long=names("bool get get-all global int local null show-origin show-scope"),
        least=1,
        most=1,
    ),
}
_NAMES_ONLY = frozenset(name for name, program in _SUBCOMMANDS.items() if program.names_only) | {
    *("branch", "check-ignore", "config", "count-objects", "describe", "for-each-ref", "merge-base", "name-rev"),
    *(
        "reflog",
        "remote",
        "rev-list",
        "rev-parse",
        "shortlog",
        "show-ref",
        "status",
        "submodule",
        "symbolic-ref",
        "tag",
    ),
    "worktree",
}
_SECOND_WORDS: dict[str, frozenset[str]] = {
    "stash": frozenset(("list", "show")),
    "worktree": frozenset(("list",)),
    "remote": frozenset(("get-url",)),
    "submodule": frozenset(("status",)),
    "reflog": frozenset(("show", "HEAD")),
}
_READS_ALONE = frozenset(("reflog", "remote", "submodule"))
_NEEDS_LIST = {"branch": ("list",), "tag": ("l", "list")}
"""Without one of these an operand is the name of something to make."""
_READABLE_KEYS = re.compile(
    r"(?:user\.(?:name|email)|core\.\w+|init\.\w+|pull\.\w+|push\.\w+|merge\.\w+|diff\.\w+|remote\.[\w-]+\.(?:url|fetch)"
    r"|branch\.[\w/-]+\.(?:remote|merge))",
    re.IGNORECASE,
)


class GitCall(ReadingCall):
    """`directories` are those that `-C` names, to be entered one after the other; `subcommand` is "" for none."""

    subcommand: str = ""
    directories: tuple[str, ...] = ()
    shows_remotes: bool = False


def check_git(words: list[str]) -> GitCall:
    """What a reading call of git opens. Raises `Doubt` for any other call."""
    rest = list(words)
    directories: list[str] = []
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-C" and rest:
            directories.append(rest.pop(0))
        elif option not in ("--no-pager", "--no-optional-locks"):
            raise Doubt(f"`git {option}` changes how git runs")
    if not rest:
        raise Doubt("`git` has no subcommand")
    subcommand, *arguments = rest
    program = _SUBCOMMANDS.get(subcommand)
    if program is None:
        raise Doubt(f"`git {subcommand}` may change the repository")
    if subcommand in _SECOND_WORDS:
        arguments = _after_second_word(subcommand, arguments)
    options = read_options(f"git {subcommand}", program, arguments)
    operands = _operands(subcommand, options)
    if not program.least <= len(operands) <= program.most or (program.operands == "none" and operands):
        raise Doubt(f"`git {subcommand}` called like this may do more than read")
    _check_formats(options)
    if subcommand == "grep":
        check_search(options)
    paths = _paths(subcommand, operands, options)
    return GitCall(
        paths=paths,
        reads=subcommand not in _NAMES_ONLY,
        sandbox_only=True,
        subcommand=subcommand,
        directories=tuple(directories),
        shows_remotes=subcommand == "remote" or (subcommand == "config" and operands[0].startswith("remote.")),
    )


def _operands(subcommand: str, options: CallOptions) -> tuple[str, ...]:
    """Those that may be names of commits or paths. Raises `Doubt` where one of them is an order."""
    operands = options.operands
    if subcommand in _NEEDS_LIST and operands and not options.has(*_NEEDS_LIST[subcommand]):
        if options.has("contains", "no-contains", "merged", "no-merged") and len(operands) == 1:
            return operands
        raise Doubt(f"`git {subcommand} {operands[0]}` would create a {subcommand}")
    if subcommand == "config" and not (operands and _READABLE_KEYS.fullmatch(operands[0])):
        raise Doubt("`git config` called like this could show a password or change a setting")
    return operands


def _after_second_word(subcommand: str, arguments: list[str]) -> list[str]:
    """`list` of `git stash list`. It has to come first: after an option or `--` it could be the name of a file."""
    if arguments and arguments[0] in _SECOND_WORDS[subcommand]:
        return arguments[1:]
    if subcommand not in _READS_ALONE or not all(word.startswith("-") and word != "--" for word in arguments):
        what = " ".join(("git", subcommand, *arguments[:1]))
        raise Doubt(f"`{what}` may change the repository")
    return arguments


def _check_formats(options: CallOptions) -> None:
    """Signatures are verified by a program that the repository can name."""
    for value in options.values("format", "group", "pretty", "sort"):
        if "%G" in value or "signature" in value.casefold():
            raise Doubt("it asks git to verify signatures, which starts another program")


def _paths(subcommand: str, operands: tuple[str, ...], options: CallOptions) -> tuple[str, ...]:
    """Operands that could be paths: a name of a commit is none, and stays in the workspace as well."""
    if subcommand in ("config", "remote", "symbolic-ref"):
        return ()
    searched = operands[1:] if subcommand == "grep" and not options.has("e") else operands
    lines = [value.rpartition(":")[2] for value in options.values("L")] if subcommand != "blame" else []
    for word in (*searched, *lines):
        if subcommand not in _NAMES_ONLY and any(map(is_secret_path, word.split(":"))):
            raise Doubt(f"the file `{word}` may hold a secret")
    return (*searched, *filter(None, lines))
