"""Rules: what people wrote down about commands, files, hosts and MCP tools. Pure.

The tightest rule wins: deny, then ask, then allow. `allow` removes a question and never the sandbox; only a rule with
`outside` lets a command out of it, and only from the user's own file.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from hames.deferred import pattern
from hames.domain.value import Value

RuleAction = Literal["allow", "ask", "deny"]
ACTIONS: tuple[RuleAction, ...] = ("deny", "ask", "allow")
"""The tightest first."""
SUBJECTS = ("command", "read", "write", "host", "mcp")
"""What a rule can be about. Each rule names exactly one."""
_NOT_IN_PATTERNS = pattern(r"[;|&<>`\n\r\0]|\$\(")


class Rule(Value, omit_defaults=True):
    """One line of what may happen. Exactly one of `command`, `read`, `write`, `host` and `mcp` is set.

    `read` and `write` are absolute globs, except while they are read from a file.
    """

    action: RuleAction
    command: str = ""
    """Words; `*` stands for anything in a word, and at the end for any further words."""
    read: str = ""
    write: str = ""
    host: str = ""
    """A host name, or `*.example.org` for everything below it."""
    mcp: str = ""
    """A server, or `server/tool`."""
    outside: bool = False
    """An allowed command also runs outside the sandbox when the agent asks for that."""
    why: str = ""
    """The user's own words, shown with the question or the refusal."""
    project: str = ""
    """It holds in this directory only; empty: everywhere."""
    source: str = ""
    """Where it is written: a file with a line, or a flag."""

    @property
    def subject(self) -> str:
        return next((name for name in SUBJECTS if getattr(self, name)), "")

    @property
    def pattern(self) -> str:
        return getattr(self, self.subject) if self.subject else ""


class RuleVerdict(Value):
    """What the rules say about an intent. No `rule`: nothing."""

    rule: Rule | None = None
    reason: str = ""
    """For `ask` and `deny`: a sentence for people that names the rule."""

    @property
    def action(self) -> RuleAction | None:
        return self.rule.action if self.rule is not None else None


NO_RULE = RuleVerdict()


def shown_rule(rule: Rule) -> str:
    """
    >>> shown_rule(Rule(action="deny", command="git push *", source="config.toml:3"))
    'deny `git push *` (config.toml:3)'
    >>> shown_rule(Rule(action="ask", read="/w/secrets/**"))
    'ask read `/w/secrets/**`'
    """
    kind = "" if rule.subject == "command" else f"{rule.subject} "
    text = f"{rule.action} {kind}`{rule.pattern}`"
    text += " outside the sandbox" if rule.outside else ""
    return f"{text} ({rule.source})" if rule.source else text


def strictest(found: Iterable[RuleVerdict]) -> RuleVerdict:
    """The tightest of them; of two alike the first."""
    order = {action: at for at, action in enumerate(ACTIONS)}
    return min(
        (verdict for verdict in found if verdict.rule is not None),
        key=lambda verdict: order[verdict.rule.action] if verdict.rule else 0,
        default=NO_RULE,
    )


def deciding(rule: Rule, what: str = "") -> RuleVerdict:
    """What a rule that matches says. `what` is the part that it matched, if that is not all of it."""
    said = {"deny": "denied", "ask": "asked about", "allow": "allowed"}[rule.action]
    about = f"`{what}` is {said}" if what else said
    why = f". {rule.why}" if rule.why else ""
    return RuleVerdict(rule=rule, reason=f"{about} by the rule {shown_rule(rule)}{why}")


def in_doubt(rule: Rule, doubt: str) -> RuleVerdict:
    """What a rule says about something that it may or may not match: that a person has to look."""
    asking = Rule(action="ask", command=rule.command, why=rule.why, source=rule.source)
    return RuleVerdict(rule=asking, reason=f"{doubt}, so it may be what this rule is about: {shown_rule(rule)}")


@lru_cache(maxsize=512)
def pattern_words(pattern: str) -> tuple[str, ...]:
    """The words of a command pattern. Raises `ValueError` with a sentence for one that makes no sense.

    >>> pattern_words("git commit -m *")
    ('git', 'commit', '-m', '*')
    """
    import shlex

    if found := _NOT_IN_PATTERNS.search(pattern):
        raise ValueError(f"a pattern is one command; it cannot contain `{found[0].strip() or 'a line break'}`")
    try:
        words = tuple(shlex.split(pattern))
    except ValueError as problem:
        raise ValueError(f"its quotes are not closed ({problem})") from None
    if not words or not words[0]:
        raise ValueError("it names no program")
    return words


@lru_cache(maxsize=512)
def _glob(pattern: str) -> re.Pattern[str]:
    made = ""
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            made += "(?:.*/)?"
            at += 3
        elif pattern.startswith("**", at):
            made += ".*"
            at += 2
        elif pattern[at] == "*":
            made += "[^/]*"
            at += 1
        elif pattern[at] == "?":
            made += "[^/]"
            at += 1
        else:
            made += re.escape(pattern[at])
            at += 1
    return re.compile(made, re.DOTALL)


def covers_path(pattern: str, path: str) -> bool:
    """Whether an absolute glob covers an absolute path. What names a directory covers everything in it.

    >>> [covers_path("/w/secrets/**", path) for path in ("/w/secrets", "/w/secrets/a/b", "/w/secrets2")]
    [True, True, False]
    >>> [covers_path("/w/**/*.pem", path) for path in ("/w/a.pem", "/w/x/y/a.pem", "/w/a.pem/b", "/w/a.pe")]
    [True, True, True, False]
    """
    plain = pattern.removesuffix("/**") if pattern != "/**" else pattern
    parts = path.rstrip("/").split("/")
    return any(_glob(plain).fullmatch("/".join(parts[:count]) or "/") for count in range(1, len(parts) + 1))


def absolute_glob(pattern: str, *, base: str, home: str) -> str:
    """A path pattern as an absolute one: `~/` is the home directory, a bare name is found at any depth below `base`.

    >>> absolute_glob("./secrets/**", base="/w", home="/h"), absolute_glob("*.pem", base="/w", home="/h")
    ('/w/secrets/**', '/w/**/*.pem')
    >>> absolute_glob("~/.aws", base="/w", home="/h"), absolute_glob("/etc/x", base="/w", home="/h")
    ('/h/.aws', '/etc/x')
    """
    if pattern.startswith("/"):
        return _tidy(pattern)
    if pattern == "~" or pattern.startswith("~/"):
        return _tidy(f"{home}/{pattern[2:]}")
    anchored = "/" in pattern.rstrip("/")
    middle = "" if anchored or pattern in ("*", "**") else "**/"
    return _tidy(f"{base}/{middle}{pattern}")


def _tidy(pattern: str) -> str:
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def covers_host(pattern: str, host: str) -> bool:
    """
    >>> [covers_host("*.example.org", host) for host in ("example.org", "a.example.org", "badexample.org")]
    [True, True, False]
    """
    name, wanted = host.lower().rstrip("."), pattern.lower().rstrip(".")
    if wanted == "*":
        return True
    if wanted.startswith("*."):
        return name == wanted[2:] or name.endswith(wanted[1:])
    return name == wanted


def host_of(url: str) -> str:
    from urllib.parse import urlsplit

    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def covers_tool(pattern: str, server: str, tool: str) -> bool:
    """
    >>> [covers_tool(text, "gh", "list_issues") for text in ("gh", "gh/list_*", "gh/create", "*", "g*")]
    [True, True, False, True, True]
    """
    wanted_server, _, wanted_tool = pattern.partition("/")
    return bool(_word(wanted_server).fullmatch(server)) and bool(_word(wanted_tool or "*").fullmatch(tool))


@lru_cache(maxsize=512)
def _word(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
