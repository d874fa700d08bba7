"""What rules about commands, files and hosts say about the arguments of a tool whose effects are unknown.

A tool of an MCP server, of an installed package or of another agent runs outside our sandbox. If its arguments name
what a rule denies or asks about, a person has to look.
"""

import os
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from hames.domain.json import Json
from hames.domain.rules import Rule, RuleVerdict, covers_host, covers_path, in_doubt
from hames.sandbox.trust.rules.inside import look_inside
from hames.sandbox.trust.rules.matching import refuses

MAX_TEXTS = 2_000
_COMMAND_NAMES = frozenset(
    {"command", "cmd", "commandline", "command_line", "script", "shell", "argv", "args", "input"}
)


def judge_arguments(arguments: Json, rules: tuple[Rule, ...], cwd: str, tool: str) -> Iterator[RuleVerdict]:
    tight = tuple(rule for rule in rules if rule.action != "allow" and not rule.mcp)
    if not tight:
        return
    for name, text in _texts(arguments, ""):
        for rule in tight:
            if rule.command:
                if name.lower() in _COMMAND_NAMES and _runs(rule, text, cwd):
                    yield in_doubt(rule, f"an argument of `{tool}` is a command like that")
            elif rule.host:
                if covers_host(rule.host, _host(text)):
                    yield in_doubt(rule, f"an argument of `{tool}` names that host")
            elif any(covers_path(rule.pattern, path) for path in argument_paths(text, cwd)):
                yield in_doubt(rule, f"an argument of `{tool}` names that file")


def argument_paths(text: str, cwd: str) -> tuple[str, ...]:
    """The files that a text may name: as it is, and where links lead."""
    if not text or "\0" in text or "\n" in text or len(text) > 4096:
        return ()
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    path = os.path.normpath(os.path.join(cwd, os.path.expanduser(text)))
    return tuple(dict.fromkeys((path, os.path.realpath(path))))


def _runs(rule: Rule, text: str, cwd: str) -> bool:
    contents = look_inside(text, cwd)
    return bool(contents.doubts) or any(refuses(rule.command, one.words) != "no" for one in contents.commands)


def _host(text: str) -> str:
    """Of an address, or of a text that is nothing but a host."""
    try:
        found = urlsplit(text if "//" in text else f"//{text}").hostname
    except ValueError:
        return ""
    return found or ""


def _texts(value: Json, name: str) -> Iterator[tuple[str, str]]:
    """Each text of the arguments, with the name of the argument that it is in. A list of words is also a line."""
    waiting, seen = [(name, value)], 0
    while waiting and seen < MAX_TEXTS:
        name, value = waiting.pop()
        seen += 1
        match value:
            case str():
                yield name, value
            case dict():
                waiting += [(str(key), one) for key, one in value.items()]
            case list():
                waiting += [(name, one) for one in value]
                yield name, " ".join(one for one in value if isinstance(one, str))
            case _:
                pass
