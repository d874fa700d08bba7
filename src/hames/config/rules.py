"""`[[rules]]` of the user's file and of projects: read, checked, and added to.

A project that is not trusted can only tighten: its `ask` and `deny` hold, its `allow` does not.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hames.config.edit_file import toml_text, write_user_file
from hames.config.paths import PROJECT_CONFIG, user_config, user_state
from hames.config.project import ProjectTrust, read_obeyed, worktree_origin
from hames.deferred import pattern
from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.rules import ACTIONS, SUBJECTS, Rule, absolute_glob, pattern_words, shown_rule

KEYS = ("action", *SUBJECTS, "outside", "why", "project")
LOOK_SECONDS = 1.0
"""How long the files may be taken to be what they were."""
_HEADER = pattern(r"\s*\[\[\s*rules\s*\]\]")
_HOST = pattern(r"\*|(?:\*\.)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[?[0-9A-Fa-f:.]+\]?")


def read_rules(tables: Json, text: str, origin: str, *, base: str, home: str, problems: list[str]) -> tuple[Rule, ...]:
    """The rules of one file. What is wrong with one goes to `problems`, and the others count.

    Relative paths start at `base`: the project.
    """
    if not isinstance(tables, list):
        problems.append(f"rules ({origin}) must be tables: [[rules]] with action and what it is about")
        return ()
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _HEADER.match(line)]
    found: list[Rule] = []
    for at, table in enumerate(tables):
        source = f"{origin}:{lines[at]}" if at < len(lines) else origin
        try:
            found.append(read_rule(table, source, base=base, home=home))
        except Misconfigured as problem:
            problems.append(str(problem))
    return tuple(found)


def flag_rules(
    user: Mapping[str, Json], file: Path, given: Json, *, base: str, home: str, problems: list[str]
) -> tuple[Rule, ...]:
    """Those of the command line. The user's are only checked here: `RuleFiles` reads them whenever they change."""
    text = file.read_text(errors="replace") if file.exists() else ""
    read_rules(user.get("rules", []), text, str(file), base=base, home=home, problems=problems)
    return read_rules(given, "", "command line", base=base, home=home, problems=problems)


def read_rule(table: Json, source: str, *, base: str, home: str) -> Rule:
    """Raises `Misconfigured`."""
    where = f"the rule in {source}"
    if not isinstance(table, dict):
        raise Misconfigured(f"{where} is not a table")
    if unknown := [key for key in table if key not in KEYS]:
        raise Misconfigured(f"{where} has {unknown[0]!r}, which is not a known key. The keys are: {', '.join(KEYS)}")
    if table.get("action") not in ACTIONS:
        raise Misconfigured(f"{where} needs action = one of {', '.join(reversed(ACTIONS))}")
    try:
        rule = msgspec.convert({**table, "source": source}, Rule, strict=True)
    except msgspec.ValidationError as problem:
        raise Misconfigured(f"{where} cannot be used: {problem}") from None
    subjects = [name for name in SUBJECTS if getattr(rule, name)]
    if len(subjects) != 1:
        raise Misconfigured(f"{where} needs exactly one of {', '.join(SUBJECTS)}")
    if "\0" in rule.pattern or len(rule.pattern) > 1000:
        raise Misconfigured(f"{where}: its {rule.subject} is not a pattern")
    return _checked(rule, where, base=base, home=home)


def _checked(rule: Rule, where: str, *, base: str, home: str) -> Rule:
    match rule.subject:
        case "command":
            try:
                words = pattern_words(rule.command)
            except ValueError as problem:
                raise Misconfigured(f"{where}: command = {rule.command!r}: {problem}") from None
            if rule.outside and (words[0].startswith(".") or ("/" in words[0] and not words[0].startswith("/"))):
                raise Misconfigured(
                    f"{where}: outside is for programs of the machine; {words[0]!r} is a file that the agent can change"
                )
            if rule.outside and "*" in words[0]:
                raise Misconfigured(f"{where}: outside needs the name of a program, not {words[0]!r}")
        case "read" | "write":
            pattern = absolute_glob(rule.pattern, base=rule.project or base, home=home)
            rule = msgspec.structs.replace(rule, **{rule.subject: pattern})
        case "host":
            if not _HOST.fullmatch(rule.host):
                raise Misconfigured(f"{where}: host = {rule.host!r} is not a host name; write it without https:// or /")
        case _:
            if rule.mcp.startswith("/") or rule.mcp.count("/") > 1:
                raise Misconfigured(f"{where}: mcp = {rule.mcp!r} must be a server, or server/tool")
    if rule.outside and not (rule.subject == "command" and rule.action == "allow"):
        raise Misconfigured(f"{where}: outside is only for rules that allow a command")
    if rule.project and not rule.project.startswith("/"):
        full = os.path.join(home, rule.project[2:]) if rule.project.startswith("~/") else ""  # noqa: PTH118
        if not full:
            raise Misconfigured(f"{where}: project = {rule.project!r} must be an absolute path, or begin with '~/'")
        rule = msgspec.structs.replace(rule, project=full)
    return rule


class RuleFiles:
    """The rules of the user's file, of a workspace's own file, and of the command line. Files that change are read
    again; one that cannot be read any more keeps the rules that it had."""

    def __init__(self, environment: Mapping[str, str], more: tuple[Rule, ...] = ()) -> None:
        self.user = Path(user_config(environment))
        self._home = environment.get("HOME") or str(Path.home())
        self._state = Path(user_state(environment))
        self._more = more
        self._known: dict[str, tuple[float, object, tuple[Rule, ...]]] = {}
        self.problems: list[str] = []

    def in_force(self, workspace: str) -> tuple[Rule, ...]:
        now = time.monotonic()
        known = self._known.get(workspace)
        if known is not None and now - known[0] < LOOK_SECONDS:
            return known[2]
        origin = worktree_origin(self._state, workspace)
        stamp = (
            _stamp(self.user),
            _stamp(Path(workspace, PROJECT_CONFIG)),
            _stamp(self._state / "trusted.json"),
            origin and _stamp(Path(origin, PROJECT_CONFIG)),
        )
        if known is None or known[1] != stamp:
            rules = self._read(workspace, known[2] if known is not None else ())
        else:
            rules = known[2]
        self._known[workspace] = (now, stamp, rules)
        return rules

    def _read(self, workspace: str, before: tuple[Rule, ...]) -> tuple[Rule, ...]:
        self.problems = []
        real = os.path.realpath(workspace)
        try:
            text = self.user.read_bytes().decode() if self.user.exists() else ""
            users = self._rules(text, str(self.user), base=real)
        except (OSError, ValueError, Misconfigured) as problem:
            self.problems.append(f"{self.user} cannot be read: {problem}")
            users = tuple(rule for rule in before if rule.source.startswith(str(self.user)))
        origin = worktree_origin(self._state, real)
        mine = tuple(rule for rule in users if not rule.project or _is_below(real, rule.project))
        of_project = self._of_project(workspace, real)
        if origin is not None:
            mine += tuple(rule for rule in users if rule.project and _is_below(origin, rule.project))
            of_project += self._of_project(origin, real) if Path(origin).is_dir() else ()
            mine += tuple(moved for rule in mine if (moved := _moved(rule, origin, real)) != rule)
        return (*self._more, *mine, *of_project)

    def _of_project(self, workspace: str, real: str) -> tuple[Rule, ...]:
        directory = Path(workspace)
        try:
            text = read_obeyed(directory, PROJECT_CONFIG).decode()
            trusted = ProjectTrust(self._state).trusts(directory)
            found = self._rules(text, PROJECT_CONFIG, base=real) if text else ()
        except (OSError, ValueError, Misconfigured) as problem:
            self.problems.append(f"{PROJECT_CONFIG} cannot be read: {problem}")
            return ()
        kept: list[Rule] = []
        for rule in found:
            if rule.outside or rule.project:
                self.problems.append(
                    f"{shown_rule(rule)} is ignored: outside and project belong in the user's own file"
                )
            elif rule.action == "allow" and not trusted:
                self.problems.append(
                    f"{shown_rule(rule)} is ignored because this project is not trusted. Run `hames trust`"
                )
            else:
                kept.append(rule)
        return tuple(kept)

    def _rules(self, text: str, origin: str, *, base: str) -> tuple[Rule, ...]:
        if "rules" not in text:
            return ()
        import tomllib

        tables = tomllib.loads(text).get("rules", [])
        return read_rules(tables, text, origin, base=base, home=self._home, problems=self.problems)

    def keep(self, rule: Rule) -> Rule:
        """Adds a rule to the user's file, and returns it with its place there. Raises `Misconfigured`."""
        import tomllib

        text = self.user.read_text(encoding="utf-8") if self.user.exists() else ""
        changed = f"{text.rstrip()}\n\n{rule_text(rule)}".lstrip("\n")
        try:
            before, after = (tomllib.loads(one).get("rules", []) for one in (text, changed))
        except tomllib.TOMLDecodeError as problem:
            raise Misconfigured(f"add the rule to {str(self.user)!r} yourself: {problem}") from None
        if len(after) != len(before) + 1:
            raise Misconfigured(f"add the rule to {str(self.user)!r} yourself: hames cannot edit the way it is written")
        write_user_file(self.user, changed)
        self._known.clear()
        line = len(f"{text.rstrip()}\n\n".lstrip("\n").splitlines()) + 1
        return msgspec.structs.replace(rule, source=f"{self.user}:{line}")


def rule_text(rule: Rule) -> str:
    """A rule as TOML.

    >>> print(rule_text(Rule(action="allow", command="pytest *", project="/w")), end="")
    [[rules]]
    action = "allow"
    command = "pytest *"
    project = "/w"
    """
    lines = ["[[rules]]", f"action = {toml_text(rule.action)}", f"{rule.subject} = {toml_text(rule.pattern)}"]
    lines += ["outside = true"] if rule.outside else []
    lines += [f"{name} = {toml_text(value)}" for name in ("why", "project") if (value := getattr(rule, name))]
    return "\n".join(lines) + "\n"


def _is_below(path: str, directory: str) -> bool:
    top = os.path.realpath(directory).rstrip("/")
    return path == top or path.startswith(f"{top}/")


def _moved(rule: Rule, origin: str, worktree: str) -> Rule:
    """A rule about files of a workspace, for the same files of a worktree that was made from it.

    >>> _moved(Rule(action="deny", write="/shop/keys/*"), "/shop", "/trees/a").write
    '/trees/a/keys/*'
    """
    if rule.subject not in ("read", "write") or not rule.pattern.startswith(f"{origin.rstrip('/')}/"):
        return rule
    return msgspec.structs.replace(rule, **{rule.subject: worktree + rule.pattern[len(origin.rstrip("/")) :]})


def _stamp(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
