"""Allow and deny lists of Claude Code and Codex, as rules. Pure: text in, rules out, with what could not be taken."""

import ast
import json
import re
from pathlib import PurePosixPath

from hames.domain.json import Json
from hames.domain.rules import Rule, RuleAction, pattern_words
from hames.domain.value import Value

_ENTRY = re.compile(r"([A-Za-z_]\w*)(?:\((.*)\))?", re.DOTALL)
_READS = frozenset({"Read"})
_WRITES = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
_UNASKED = frozenset({"Glob", "Grep", "LS", "TodoWrite", "NotebookRead"})
_CLAUDE_MODES = {
    "default": "ask",
    "acceptEdits": "auto",
    "plan": "plan",
    "auto": "auto",
    "dontAsk": "approval_policy never",
    "bypassPermissions": "approval_policy never",
}
_CODEX_MODES: dict[str, str] = {
    "untrusted": "ask",
    "on-failure": "auto",
    "on-request": "auto",
    "never": "approval_policy never",
}
_DECISIONS: dict[str, RuleAction] = {"allow": "allow", "prompt": "ask", "forbidden": "deny", "deny": "deny"}


class Imported(Value):
    """`rules` were taken; `left` are entries that were not, each with the reason; `mode` is the nearest of ours."""

    rules: tuple[Rule, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    mode: str = ""


def from_claude(text: str, *, origin: str, project: str) -> Imported:
    """The `permissions` of a settings.json. `project`: the directory it belongs to; empty for the user's own.

    Raises `ValueError` for text that is no such file.
    """
    document: Json = json.loads(text)
    permissions = document.get("permissions", {}) if isinstance(document, dict) else None
    if not isinstance(permissions, dict):
        raise ValueError("it has no permissions")  # noqa: TRY004 - a file that makes no sense
    rules: list[Rule] = []
    left: list[tuple[str, str]] = []
    for action in ("deny", "ask", "allow"):
        entries = permissions.get(action, [])
        for entry in entries if isinstance(entries, list) else []:
            if not isinstance(entry, str):
                left.append((repr(entry), "it is not text"))
                continue
            made = _claude_rule(action, entry.strip(), project)
            if isinstance(made, str):
                left.append((f"{action} {entry}", made))
            else:
                rules.append(_placed(made, origin, project))
    left += [(name, "there is no such setting here") for name in permissions if name not in _CLAUDE_KEYS]
    if permissions.get("additionalDirectories"):
        left.append(("additionalDirectories", "write it as writableRoots of the sandbox"))
    return Imported(
        rules=tuple(rules), left=tuple(left), mode=_CLAUDE_MODES.get(str(permissions.get("defaultMode")), "")
    )


_CLAUDE_KEYS = frozenset({"allow", "ask", "deny", "defaultMode", "additionalDirectories"})


def _placed(rule: Rule, origin: str, project: str) -> Rule:
    from msgspec.structs import replace

    return replace(rule, why=f"imported from {origin}" if rule.action != "allow" else "", project=project)


def _claude_rule(action: RuleAction, entry: str, project: str) -> Rule | str:
    """A rule, or why there is none."""
    if entry.startswith("mcp__"):
        server, _, tool = entry.removeprefix("mcp__").partition("__")
        return Rule(action=action, mcp=f"{server}/{tool}" if tool not in ("", "*") else server)
    found = _ENTRY.fullmatch(entry)
    if found is None:
        return "it is not an entry of the form Tool(pattern)"
    tool, pattern = found[1], (found[2] or "").strip()
    if tool == "Bash":
        return _claude_command(action, pattern)
    if tool in _READS or tool in _WRITES:
        subject = "read" if tool in _READS else "write"
        if subject == "read" and action == "allow":
            return "reading is never asked about here; outside the workspace, see extra_read"
        path = _claude_path(pattern, project) if pattern else "**"
        if path.startswith("!"):
            return "exceptions from a pattern cannot be written as rules"
        return Rule(action=action, read=path) if subject == "read" else Rule(action=action, write=path)
    if tool == "WebFetch":
        host = pattern.removeprefix("domain:") if pattern else "*"
        if pattern and not pattern.startswith("domain:"):
            return "only WebFetch(domain:HOST) can be written as a rule"
        return Rule(action=action, host=host)
    if tool in _UNASKED:
        return "nobody is asked about that here"
    return f"there is no rule for the tool {tool!r} here"


def _claude_command(action: RuleAction, pattern: str) -> Rule | str:
    if pattern in ("", "*", ":*"):
        return Rule(action=action, command="*")
    words = f"{pattern.removesuffix(':*')} *" if pattern.endswith(":*") else pattern
    try:
        found = pattern_words(words)
    except ValueError as problem:
        return str(problem)
    if action != "allow" and any("*" in word for word in found[:-1]):
        return "a `*` in the middle stands for one word here, so it would deny less; write it as several rules"
    return Rule(action=action, command=words)


def _claude_path(pattern: str, project: str) -> str:
    """`//x` is absolute there, `/x` and `./x` belong to the project, `~/x` to the home directory."""
    if pattern.startswith("//"):
        return pattern[1:]
    if pattern.startswith("/") and project:
        return str(PurePosixPath(project) / pattern.lstrip("/"))
    return pattern


def from_codex_rules(text: str, *, origin: str) -> Imported:
    """A `*.rules` file: calls of `prefix_rule` and `network_rule`. Nothing in it is run. Raises `ValueError`."""
    try:
        body = ast.parse(text).body
    except SyntaxError as problem:
        raise ValueError(f"line {problem.lineno} cannot be read") from None
    rules: list[Rule] = []
    left: list[tuple[str, str]] = []
    for statement in body:
        shown = ast.unparse(statement)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            left.append((shown, "only prefix_rule and network_rule can be written as rules"))
            continue
        try:
            given = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
        except ValueError:
            left.append((shown, "it has something else than plain values"))
            continue
        made = _codex_rules(call.func.id, given, origin)
        if isinstance(made, str):
            left.append((shown, made))
        else:
            rules += made
    return Imported(rules=tuple(rules), left=tuple(left))


def _codex_rules(name: str, given: dict[str, Json], origin: str) -> list[Rule] | str:
    action = _DECISIONS.get(str(given.get("decision", "allow")))
    if action is None:
        return f"the decision {given.get('decision')!r} is not known"
    why = str(given.get("justification", "")) or (f"imported from {origin}" if action != "allow" else "")
    if name == "network_rule":
        host = str(given.get("host", ""))
        return [Rule(action=action, host=host, why=why)] if host else "it names no host"
    if name != "prefix_rule":
        return f"{name} cannot be written as a rule"
    pattern = given.get("pattern")
    if not isinstance(pattern, list) or not pattern:
        return "it has no pattern"
    every: list[list[str]] = [[]]
    for word in pattern:
        choices = word if isinstance(word, list) else [word]
        if not all(isinstance(choice, str) for choice in choices):
            return "its pattern has something else than words"
        every = [[*words, choice] for words in every for choice in choices][:64]
    made: list[Rule] = []
    for words in every:
        text = " ".join((*map(_quoted, words), "*"))
        try:
            pattern_words(text)
        except ValueError as problem:
            return str(problem)
        made.append(Rule(action=action, command=text, why=why))
    return made


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./*-]+", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def from_codex_config(text: str, *, origin: str) -> Imported:
    """The approval policy of a config.toml, and the tools of MCP servers it shuts. Raises `ValueError`."""
    import tomllib

    found = tomllib.loads(text)
    policy = found.get("approval_policy")
    rules: list[Rule] = []
    left: list[tuple[str, str]] = []
    if policy is not None and policy not in _CODEX_MODES:
        left.append((f"approval_policy = {policy!r}", "it is not known here"))
    servers = found.get("mcp_servers", {})
    for name, server in servers.items() if isinstance(servers, dict) else ():
        if not isinstance(server, dict):
            continue
        disabled = server.get("disabled_tools", [])
        for tool in disabled if isinstance(disabled, list) else [disabled]:
            if not isinstance(tool, str) or not tool or any(sign in f"{name}{tool}" for sign in "*/"):
                why = "the rule for it would be about other tools: write it as disabled_tools of the server here"
                left.append((f"mcp_servers.{name}.disabled_tools {tool!r}", why))
                continue
            rules.append(Rule(action="deny", mcp=f"{name}/{tool}", why=f"imported from {origin}"))
        if "enabled_tools" in server:
            why = "no rule says 'only these': write it as enabled_tools of the server here"
            left.append((f"mcp_servers.{name}.enabled_tools = {server['enabled_tools']!r}", why))
    return Imported(rules=tuple(rules), left=tuple(left), mode=_CODEX_MODES.get(str(policy), ""))
