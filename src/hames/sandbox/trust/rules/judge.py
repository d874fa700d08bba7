"""What rules say about an intent: the tightest of those that match, and a question wherever that is not certain."""

import os
import re
from collections.abc import Iterator

from hames.domain.approvals import CallMcp, ChangeFiles, Harmless, Intent, RunCommand, UseTool
from hames.domain.network import HostPort
from hames.domain.policy import DangerFullAccess, ExternalSandbox, SandboxPolicy
from hames.domain.rules import (
    NO_RULE,
    Rule,
    RuleVerdict,
    covers_host,
    covers_path,
    covers_tool,
    deciding,
    host_of,
    in_doubt,
    pattern_words,
    strictest,
)
from hames.sandbox.trust.commands.command_line import WorkspaceJudge, follow
from hames.sandbox.trust.commands.doubt import Doubt
from hames.sandbox.trust.commands.shell_words import SimpleCommand, read_commands
from hames.sandbox.trust.rules.arguments import judge_arguments
from hames.sandbox.trust.rules.found_commands import ScriptCommand, ScriptWord
from hames.sandbox.trust.rules.inside import NESTED, Contents, look_inside
from hames.sandbox.trust.rules.matching import allows, mentions, refuses
from hames.sandbox.trust.rules.programs import is_copy

_WRITES = (">", ">>", ">|", ">&", "<>")
_SHOWN = 80
_HOST = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")


def judge_intent(
    intent: Intent, rules: tuple[Rule, ...], *, cwd: str, workspace: str, sandbox: SandboxPolicy
) -> RuleVerdict:
    """It raises nothing: rules that fail to judge something ask about it."""
    try:
        return _judge(intent, rules, cwd, workspace, sandbox)
    except Exception as error:  # a classifier that fails must not be the reason why something runs
        tight = next((rule for rule in rules if rule.action != "allow"), None)
        return in_doubt(tight, f"the rules could not be checked ({type(error).__name__})") if tight else NO_RULE


def _judge(intent: Intent, rules: tuple[Rule, ...], cwd: str, workspace: str, sandbox: SandboxPolicy) -> RuleVerdict:
    match intent:
        case Harmless(reads=reads):
            return strictest(_path_rules(rules, "read", reads))
        case ChangeFiles(changes=changes):
            return _change(rules, [change.path for change in changes])
        case CallMcp(server=server, tool=tool, arguments=arguments):
            named = [deciding(rule) for rule in rules if rule.mcp and covers_tool(rule.mcp, server, tool)]
            return strictest((*named, *judge_arguments(arguments, rules, cwd, f"{server}/{tool}")))
        case RunCommand(connects_to=HostPort(host=host), is_running=True):  # the command itself was judged before
            return strictest(deciding(rule, host) for rule in rules if rule.host and covers_host(rule.host, host))
        case RunCommand(url=url) if url:
            host = host_of(url)
            return strictest(deciding(rule, host) for rule in rules if rule.host and covers_host(rule.host, host))
        case RunCommand():
            return _command(intent, rules, cwd, workspace, sandbox)
        case UseTool(name=name, arguments=arguments, vouched=vouched):
            # A search that the user configured may name any host in its words.
            about = tuple(rule for rule in rules if not (vouched and rule.host))
            return strictest(judge_arguments(arguments, about, cwd, name))


def _path_rules(rules: tuple[Rule, ...], subject: str, paths: tuple[str, ...] | list[str]) -> Iterator[RuleVerdict]:
    for path in paths:
        for name in dict.fromkeys((path, os.path.realpath(path))):
            for rule in rules:
                if rule.subject == subject and covers_path(rule.pattern, name):
                    yield deciding(rule, path)


def _change(rules: tuple[Rule, ...], paths: list[str]) -> RuleVerdict:
    """One file that is denied or asked about decides for all; all have to be allowed."""
    each = [strictest(_path_rules(rules, "write", (path,))) for path in paths]
    tight = strictest(verdict for verdict in each if verdict.action != "allow")
    if tight.rule is not None:
        return tight
    return each[0] if each and all(verdict.rule is not None for verdict in each) else NO_RULE


def _command(
    intent: RunCommand, rules: tuple[Rule, ...], cwd: str, workspace: str, sandbox: SandboxPolicy
) -> RuleVerdict:
    cwd = intent.cwd or cwd
    walled = not isinstance(sandbox, DangerFullAccess | ExternalSandbox) and not intent.unsandboxed
    tight = tuple(rule for rule in rules if rule.action != "allow")
    found = strictest(_refusals(intent, tight, cwd, walled=walled)) if tight else NO_RULE
    if found.rule is not None or intent.process:
        return found
    return _allowed(intent, rules, cwd, workspace, walled=walled)


def _refusals(intent: RunCommand, rules: tuple[Rule, ...], cwd: str, *, walled: bool) -> Iterator[RuleVerdict]:
    contents = look_inside(intent.command, cwd)
    for rule in rules:
        if rule.command:
            yield from _of_command(rule, contents, intent)
        elif rule.host:
            if any(covers_host(rule.host, name) for name in _host_names(intent.command, contents)):
                yield deciding(rule)
            elif rule.action == "deny" and not walled:
                yield in_doubt(rule, "no sandbox keeps this command from the network")
        elif rule.subject in ("read", "write"):
            yield from _of_path(rule, contents, walled=walled)


def _of_command(rule: Rule, contents: Contents, intent: RunCommand) -> Iterator[RuleVerdict]:
    for command in contents.commands:
        match = refuses(rule.command, command.words)
        if match == "yes":
            yield deciding(rule, _cut(command.shown))
        elif match == "maybe":
            yield in_doubt(rule, f"what `{_cut(command.shown)}` runs cannot be known in advance")
        elif _is_copied(rule, command, contents):
            yield in_doubt(rule, f"`{_cut(command.shown)}` is the same program under another name")
    for command in contents.possible:
        if refuses(rule.command, command.words) != "no":
            yield in_doubt(rule, f"`{_cut(command.shown)}` may be run by the program before it")
    for text, where in contents.code:
        if mentions(rule.command, text):
            yield in_doubt(rule, f"{where} names the same words")
    for doubt in contents.doubts[:1]:
        yield in_doubt(rule, doubt)
    if NESTED.search(intent.command) and mentions(rule.command, intent.command):
        # The net below the reader: where shell is nested, naming the words is enough to be asked about.
        yield in_doubt(rule, "it names the same words inside nested shell")
    if intent.process:
        yield in_doubt(rule, f"it is input for {intent.process}")


def _of_path(rule: Rule, contents: Contents, *, walled: bool) -> Iterator[RuleVerdict]:
    for command in contents.commands:
        for word in _targets(command) if rule.write else (*_operands(command), *_targets(command)):
            for place in contents.places:
                for path in _paths(word, place):
                    if covers_path(rule.pattern, path):
                        yield deciding(rule, word)
        if rule.write and (rule.action == "ask" or not walled):
            for word in _operands(command):
                if any(covers_path(rule.pattern, path) for place in contents.places for path in _paths(word, place)):
                    yield in_doubt(rule, f"`{_cut(command.shown)}` may change it")
    if rule.action == "deny" and not walled:
        yield in_doubt(rule, "no sandbox keeps this command from the files")


def _operands(command: ScriptCommand) -> Iterator[str]:
    for word in command.words[1:]:
        text = _known(word)
        yield text
        if "=" in text:
            yield text.partition("=")[2]
        if re.match(r"-[A-Za-z].", text):
            yield text[2:]
    yield from (_known(word) for operator, word in command.redirects if operator == "<")


def _targets(command: ScriptCommand) -> Iterator[str]:
    yield from (_known(word) for operator, word in command.redirects if operator in _WRITES)


def _known(word: ScriptWord) -> str:
    """The beginning of a word that is known."""
    known = ""
    for part in word.parts:
        if part is None:
            break
        known += part
    return known


def _paths(word: str, place: str) -> Iterator[str]:
    if not word or "\0" in word or len(word) > 4096:
        return
    path = os.path.normpath(os.path.join(place, os.path.expanduser(word)))
    yield path
    if (real := os.path.realpath(path)) != path:
        yield real


def _is_copied(rule: Rule, command: ScriptCommand, contents: Contents) -> bool:
    program = command.words[0].text if command.words else None
    if program is None or "/" not in program:
        return False
    wanted = pattern_words(rule.command)[0]
    under_its_name = (ScriptWord(parts=(wanted,)), *command.words[1:])
    return refuses(rule.command, under_its_name) != "no" and is_copy(program, contents.places, wanted)


def _host_names(command: str, contents: Contents) -> set[str]:
    """As they are written, and as the words are without their quotes."""
    words = (_known(word) for one in contents.commands for word in one.words)
    return set(_HOST.findall("\n".join((command, *words))))


def _allowed(intent: RunCommand, rules: tuple[Rule, ...], cwd: str, workspace: str, *, walled: bool) -> RuleVerdict:
    wanted = tuple(rule for rule in rules if rule.command and rule.action == "allow")
    if intent.unsandboxed:
        wanted = tuple(rule for rule in wanted if rule.outside)
    if not wanted:
        return NO_RULE
    try:
        judge = _AllowingJudge(os.path.realpath(cwd), os.path.realpath(workspace), wanted, alone=intent.unsandboxed)
        follow(read_commands(intent.command), judge)
    except Doubt:
        return NO_RULE
    if not judge.used or (judge.sandbox_only and not walled):
        return NO_RULE
    return deciding(judge.used[0])


class _AllowingJudge(WorkspaceJudge):
    """Every command of the line is allowed by a rule, or only reads."""

    def __init__(self, cwd: str, workspace: str, rules: tuple[Rule, ...], *, alone: bool) -> None:
        super().__init__(cwd, workspace)
        self._rules = rules
        self._alone = alone
        """Outside the sandbox nothing else is taken along, and no word may stand for others."""
        self.used: list[Rule] = []

    def check(self, command: SimpleCommand, places: set[str]) -> None:
        words = tuple(word.text for word in command.words)
        plain = not any(word.stars or word.special or word.status for word in command.words)
        if words[0] != "cd":
            for rule in self._rules:
                if allows(rule.command, words) and (plain or not self._alone):
                    self.used.append(rule)
                    return
        if self._alone:
            raise Doubt(f"no rule allows `{words[0]}` outside the sandbox")
        super().check(command, places)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
