"""The rules in force and what they say, for the engine. What reads and writes the files is given to it."""

import re
from collections.abc import Callable

from hames.deferred import pattern
from hames.domain.approvals import CallMcp, Intent, RunCommand
from hames.domain.policy import SandboxPolicy
from hames.domain.rules import Rule, RuleVerdict, host_of

_SUBCOMMANDS = frozenset(
    "git npm pnpm yarn cargo go uv pip pip3 poetry docker podman kubectl gh make just task bundle rake dotnet gradle "
    "mvn terraform helm systemctl brew apt apt-get deno bun rustup conda nox tox hatch pdm composer php".split()
)
"""Programs whose second word says what they do."""
_RUNNERS = frozenset({"run", "exec", "run-script"})
"""After these the third word says what is run."""
_NEVER_OFFERED = pattern(
    r"(?:ba|da|a|k|z|fi)?sh|sudo|doas|su|env|xargs|eval|exec|command|nohup|timeout|time|nice|find|parallel|ssh|busybox"
    r"|rm|dd|mkfs.*|shutdown|reboot|kill|killall|pkill|chmod|chown|curl|wget|nc|ncat|scp|sftp|rsync|source|\."
)
"""Programs for which a pattern would allow far more than what was asked about."""
_RUNS_CODE = pattern(r"-(?:c|e|-eval|-command|r|p)")


class FileRuleBook:
    """Implements `ports.RuleBook`."""

    def __init__(self, in_force: Callable[[str], tuple[Rule, ...]], keep: Callable[[Rule], Rule]) -> None:
        self._in_force = in_force
        self._keep = keep

    def in_force(self, workspace: str) -> tuple[Rule, ...]:
        return self._in_force(workspace)

    def judge(
        self, intent: Intent, rules: tuple[Rule, ...], *, cwd: str, workspace: str, sandbox: SandboxPolicy
    ) -> RuleVerdict:
        # Imported when the first rule is judged: no start of the harness waits for the tables.
        from hames.sandbox.trust.rules.judge import judge_intent

        return judge_intent(intent, rules, cwd=cwd, workspace=workspace, sandbox=sandbox)

    def suggest(self, intent: Intent, *, workspace: str) -> Rule | None:
        match intent:
            case CallMcp(server=server, tool=tool) if "*" not in server + tool and "/" not in server:
                return Rule(action="allow", mcp=f"{server}/{tool}", project=workspace)
            case RunCommand(url=url) if url:
                host = host_of(url)
                return Rule(action="allow", host=host, project=workspace) if host else None
            case RunCommand(unsandboxed=False, process="") as command:
                pattern = suggested_pattern(command.command)
                return Rule(action="allow", command=pattern, project=workspace) if pattern else None
            case _:
                return None

    def keep(self, rule: Rule) -> Rule:
        return self._keep(rule)


def suggested_pattern(command: str) -> str:
    """A pattern for a plain command and what is like it; empty: it is not plain, or the pattern would allow too much.

    >>> [suggested_pattern(text) for text in ("pytest -q tests/a.py", "npm run lint -- --fix", "git push origin main")]
    ['pytest *', 'npm run lint *', 'git push *']
    >>> [suggested_pattern(text) for text in ("bash -c 'x'", "make; rm x", "python -c 'print(1)'", "FOO=1 make")]
    ['', '', '', '']
    >>> suggested_pattern("python scripts/build.py --fast"), suggested_pattern("./run.sh a")
    ('python scripts/build.py *', './run.sh *')
    """
    from hames.sandbox.trust.commands.doubt import Doubt
    from hames.sandbox.trust.commands.shell_words import read_commands
    from hames.sandbox.trust.rules.inside import INTERPRETER

    try:
        commands = read_commands(command)
    except Doubt:
        return ""
    if len(commands) != 1:
        return ""
    words = [word.text for word in commands[0].words]
    name = words[0].rpartition("/")[2]
    if _NEVER_OFFERED.fullmatch(name) or not re.fullmatch(r"[\w@%+=:,./-]+", words[0]):
        return ""
    kept = [words[0]]
    if INTERPRETER.fullmatch(name) and name not in _SUBCOMMANDS:
        kept += _script_words(words[1:])
        if len(kept) == 1:
            return ""
    elif name in _SUBCOMMANDS:
        rest = words[1:]
        if not rest or rest[0].startswith("-"):
            return words[0] if not rest else ""
        kept += rest[: 2 if rest[0] in _RUNNERS else 1]
        if kept[-1].startswith("-") or kept[-1] in _RUNNERS:
            return ""
    if not all(re.fullmatch(r"[\w@%+=:,./-]+", word) for word in kept):
        return ""
    return " ".join((*kept, "*"))


def _script_words(words: list[str]) -> list[str]:
    """The script or module that an interpreter runs; nothing if it runs code from its arguments."""
    if words[:1] == ["-m"]:
        return words[:2] if len(words) > 1 else []
    if not words or words[0].startswith("-") or any(_RUNS_CODE.fullmatch(word) for word in words[:2]):
        return []
    return words[:1]
