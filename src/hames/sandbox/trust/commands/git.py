"""Which calls of git only read: subcommands, their options and their operands, each from a list.

What git does beside its words (hooks, filters, the monitor, textconv, external diffs, signatures) is the business of
`repository`, and of `hardening`, the environment in which it then runs.
"""

import re

from hames.sandbox.trust.commands.doubt import Doubt
from hames.sandbox.trust.commands.known_programs import read_programs
from hames.sandbox.trust.commands.options import CallOptions, read_options
from hames.sandbox.trust.commands.program_checks import ReadingCall, check_search
from hames.sandbox.trust.commands.secret_names import is_secret_path

_SUBCOMMANDS = read_programs(
    """
status: names_only -bsvz -u[=] --ahead-behind --branch --column[=] --find-renames[=] --ignore-submodules[=]
    --ignored[=] --long --no-ahead-behind --no-column --no-renames --porcelain[=] --renames --short --show-stash
    --untracked-files[=] --verbose
diff: -abprsuwzR -GS= -BCMU[=] --abbrev[=] --abbrev-commit --binary --cached --check --color[=] --color-moved
    --color-words[=] --compact-summary --cumulative --diff-algorithm= --diff-filter= --dirstat[=] --dst-prefix=
    --exit-code --find-copies[=] --find-copies-harder --find-object= --find-renames[=] --first-parent --full-index
    --function-context --histogram --ignore-all-space --ignore-blank-lines --ignore-cr-at-eol --ignore-space-at-eol
    --ignore-space-change --ignore-submodules[=] --indent-heuristic --inter-hunk-context= --merge-base --minimal
    --name-only --name-status --no-color --no-ext-diff --no-indent-heuristic --no-patch --no-prefix --no-renames
    --no-textconv --numstat --patch --patch-with-raw --patch-with-stat --patience --pickaxe-all --pickaxe-regex --quiet
    --raw --relative --reverse --shortstat --src-prefix= --staged --stat[=] --stat-count= --stat-name-width=
    --stat-width= --summary --text --unified[=] --word-diff[=] --word-diff-regex=
log show stash: bare_number +diff -cgimqtEFP -Ln= --after= --all --all-match --ancestry-path --author=
    --author-date-order --before= --boundary --branches[=] --cc --cherry-mark --cherry-pick --committer= --count
    --date= --date-order --decorate[=] --dense --diff-merges[=] --encoding= --exclude= --follow --format[=] --full-diff
    --full-history --glob= --graph --grep= --invert-grep --left-only --left-right --log-size --max-count=
    --max-parents[=] --merge --merges --min-parents[=] --no-abbrev-commit --no-decorate --no-graph --no-max-parents
    --no-merges --no-min-parents --no-notes --no-walk[=] --notes[=] --oneline --parents --pretty[=]
    --regexp-ignore-case --relative-date --remotes[=] --right-only --root --show-pulls --simplify-by-decoration
    --simplify-merges --since= --skip= --source --sparse --tags[=] --topo-order --until= --use-mailmap --walk-reflogs
shortlog: names_only bare_number -cens --after= --all --author= --before= --committer --email --grep= --group= --merges
    --no-merges --numbered --since= --summary --until=
reflog: names_only bare_number +log
rev-list: names_only bare_number -n= --after= --all --author= --before= --boundary --branches[=] --committer= --count
    --date-order --exclude= --first-parent --format[=] --glob= --grep= --left-only --left-right --max-count= --merges
    --no-merges --oneline --parents --pretty[=] --remotes[=] --reverse --right-only --since= --skip= --tags[=]
    --topo-order --until=
diff-tree: -prstz --name-only --name-status --no-commit-id --numstat --patch --raw --root --shortstat --stat
branch: names_only -arvil --abbrev[=] --all --color[=] --column[=] --contains[=] --format= --ignore-case --list
    --merged[=] --no-abbrev --no-color --no-column --no-contains[=] --no-merged[=] --points-at= --remotes
    --show-current --sort= --verbose
tag: names_only -il -n[=] --color[=] --column[=] --contains[=] --format= --ignore-case --list --merged[=] --no-column
    --no-contains[=] --no-merged[=] --points-at= --sort=
remote: names_only -v --all --push --verbose
rev-parse: names_only -q --abbrev-ref[=] --absolute-git-dir --all --branches[=] --default= --git-common-dir --git-dir
    --git-path= --is-bare-repository --is-inside-git-dir --is-inside-work-tree --is-shallow-repository --path-format[=]
    --quiet --remotes[=] --short[=] --show-cdup --show-object-format --show-prefix --show-superproject-working-tree
    --show-toplevel --symbolic --symbolic-full-name --tags[=] --verify
ls-files: names_only -cdikmostuvz -x= --abbrev[=] --cached --debug --deduplicate --deleted --directory --eol
    --error-unmatch --exclude= --exclude-standard --format= --full-name --ignored --killed --modified
    --no-empty-directory --others --stage --unmerged --with-tree=
ls-tree: names_only -dlrtz --abbrev[=] --format= --full-name --full-tree --long --name-only --name-status --object-only
blame: -bcefklnpstw -L= -CM[=] --abbrev[=] --color-by-age --color-lines --date= --first-parent --incremental
    --line-porcelain --no-progress --porcelain --root --score-debug --show-email --show-name --show-number --show-stats
    --since=
describe: names_only --abbrev[=] --all --always --candidates= --contains --dirty[=] --exact-match --exclude=
    --first-parent --long --match= --no-exclude --no-match --tags
cat-file: ..2 -epst
merge-base: names_only -a --all --fork-point --independent --is-ancestor --octopus
name-rev: names_only --always --exclude= --name-only --refs= --tags
for-each-ref: names_only --color[=] --contains= --count= --exclude= --format= --ignore-case --merged= --no-contains=
    --no-merged= --points-at= --sort=
show-ref: names_only -dq --abbrev[=] --branches --dereference --hash[=] --head --heads --quiet --tags --verify
symbolic-ref: 1..1 names_only -q --quiet --short
check-ignore: 1.. names_only -nqv --no-index --non-matching --quiet --verbose
count-objects: none names_only -Hv --human-readable --verbose
grep: -EFGHILPWachilnopqrvwz -ABCem= --after-context= --all-match --and --basic-regexp --before-context= --break
    --cached --color[=] --column --context= --count --exclude-standard --extended-regexp --files-with-matches
    --files-without-match --fixed-strings --full-name --function-context --heading --ignore-case --invert-match
    --line-number --max-count= --max-depth= --name-only --no-color --no-exclude-standard --not --null --only-matching
    --or --perl-regexp --quiet --show-function --text --threads= --untracked --word-regexp
worktree: none names_only -vz --porcelain --verbose
submodule: names_only --cached --quiet --recursive
config: 1..1 names_only -z --bool --get --get-all --global --int --local --null --show-origin --show-scope
""",
    operands="words",
)
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
        reads=not program.names_only,
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
        if not _SUBCOMMANDS[subcommand].names_only and any(map(is_secret_path, word.split(":"))):
            raise Doubt(f"the file `{word}` may hold a secret")
    return (*searched, *filter(None, lines))
