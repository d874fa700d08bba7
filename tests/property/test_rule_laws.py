"""No way past a rule that denies, and none past plan mode: whatever wraps a command, whoever asks, in any order."""

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hames.domain.approvals import CallMcp, ChangeFiles, Harmless, Intent, RunCommand, UseTool
from hames.domain.grants import grant_for
from hames.domain.items import FileUpdate
from hames.domain.policy import (
    ApprovalPolicy,
    DangerFullAccess,
    ExternalSandbox,
    Grant,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from hames.domain.rules import Rule
from hames.domain.rulings import Verdict, decide
from hames.sandbox.trust.rules.judge import judge_intent

DENIED = ("git push origin main", "git -C sub push", "/usr/bin/git push --force")
DENY = Rule(action="deny", command="git push *", source="config.toml:1")

WRAPPERS = (
    "{}",
    "{} || true",
    "true && {}",
    "ls; {}",
    "ls\n{}",
    "ls | {}",
    "{} | cat",
    "({})",
    "{{ {}; }}",
    "! {}",
    "time {}",
    "{} &",
    "X=1 {}",
    "{} > out 2>&1",
    "env {}",
    "env -i A=b {}",
    "sudo -u bob {}",
    "nohup {} &",
    "timeout 5 {}",
    "nice -n 3 {}",
    "command {}",
    "exec {}",
    "xargs {}",
    "find . -exec {} \\;",
    "if true; then {}; fi",
    "for i in a b; do {}; done",
    "while false; do :; done; {}",
    "case a in a) {};; esac",
    "f() {{ {}; }}; f",
    "echo $({})",
    'echo "a $({}) b"',
    "echo `{}`",
    "cat <({})",
    "bash <<END\n{}\nEND",
    "sh -s <<'END'\n{}\nEND",
    "cat <<END\n$({})\nEND",
    "echo a # b\n{}",
    "[[ -n a ]] && {}",
    "trap '{}' EXIT",
)
QUOTING = ("bash -c {}", "sh -ec {}", "bash -lc {}", "env bash -c {}", "sudo sh -c {}", "eval {}", "bash <<< {}")
"""These take the command as one quoted word."""


@st.composite
def hidden_commands(draw: st.DrawFn) -> str:
    command = draw(st.sampled_from(DENIED))
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            command = draw(st.sampled_from(QUOTING)).format(shlex.quote(command))
        else:
            wrapper = draw(st.sampled_from(WRAPPERS))
            if "'" in wrapper and "'" in command:
                continue
            if "`" in wrapper:  # inside backquotes both are escaped, or the inner ones would end the outer
                command = command.replace("\\", "\\\\").replace("`", "\\`")
            command = wrapper.format(command)
    return command


POLICIES: tuple[ApprovalPolicy, ...] = ("never", "onRequest", "unlessTrusted", "always")
SANDBOXES: tuple[SandboxPolicy, ...] = (
    ReadOnly(),
    WorkspaceWrite(),
    WorkspaceWrite(network_access=True),
    DangerFullAccess(),
    ExternalSandbox(),
)
OTHER_RULES = (
    Rule(action="allow", command="*"),
    Rule(action="allow", command="git *", outside=True),
    Rule(action="allow", command="git push *", outside=True),
    Rule(action="allow", command="bash *"),
    Rule(action="allow", command="env *"),
    Rule(action="ask", command="ls *"),
    Rule(action="allow", write="/w/**"),
    Rule(action="allow", host="*"),
    Rule(action="allow", mcp="*"),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    command=hidden_commands(),
    policy=st.sampled_from(POLICIES),
    sandbox=st.sampled_from(SANDBOXES),
    others=st.lists(st.sampled_from(OTHER_RULES), max_size=4),
    place=st.integers(0, 4),
    unsandboxed=st.booleans(),
    trusted=st.booleans(),
    was_always=st.booleans(),
)
def test_a_denied_command_never_runs_unasked_however_it_is_wrapped(
    *,
    command: str,
    policy: ApprovalPolicy,
    sandbox: SandboxPolicy,
    others: list[Rule],
    place: int,
    unsandboxed: bool,
    trusted: bool,
    was_always: bool,
) -> None:
    rules = (*others[:place], DENY, *others[place:])
    intent = RunCommand(command=command, cwd="/w", unsandboxed=unsandboxed)
    grant = grant_for(intent)
    grants: tuple[Grant, ...] = (grant,) if was_always and grant is not None else ()
    judged = judge_intent(intent, rules, cwd="/w", workspace="/w", sandbox=sandbox)
    ruling = decide(
        intent, policy=policy, sandbox=sandbox, grants=grants, verdict=Verdict(trusted=trusted), rules=judged
    )
    assert ruling.action != "allow", command
    assert policy != "never" or ruling.action == "deny"
    assert "git push *" in ruling.reason, ruling


@settings(max_examples=60, deadline=None, derandomize=True)
@given(command=hidden_commands(), extra=st.sampled_from(("", "; echo x", " # y")))
def test_a_denied_command_in_a_script_is_found(
    command: str, extra: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("script")
    (directory / "go.sh").write_text(f"#!/bin/bash\nset -e\n{command}{extra}\n")
    for line in ("bash go.sh", "./go.sh", ". ./go.sh", "env bash ./go.sh", "bash < go.sh"):
        intent = RunCommand(command=line, cwd=str(directory))
        found = judge_intent(intent, (DENY,), cwd=str(directory), workspace=str(directory), sandbox=WorkspaceWrite())
        assert found.action in ("deny", "ask"), (line, command)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(text=st.text(alphabet=st.sampled_from("git push$(){};|&<>'\"`\\ \n*#=-x"), max_size=40))
def test_no_text_makes_the_reader_fail_or_misses_plain_words(text: str) -> None:
    intent = RunCommand(command=f"git push\n{text}", cwd="/w")
    assert judge_intent(intent, (DENY,), cwd="/w", workspace="/w", sandbox=WorkspaceWrite()).action == "deny"


INTENTS: tuple[Intent, ...] = (
    RunCommand(command="make", cwd="/w"),
    RunCommand(command="make", cwd="/w", unsandboxed=True, why="w"),
    RunCommand(command="y", cwd="/w", process="process 1: bash"),
    ChangeFiles(changes=(FileUpdate(path="/w/a", kind="add", diff="+"),)),
    ChangeFiles(changes=(FileUpdate(path="/w/.git/config", kind="modify", diff="+"),), protected=True),
    CallMcp(server="s", tool="t"),
    UseTool(name="u"),
    Harmless(),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    intent=st.sampled_from(INTENTS),
    policy=st.sampled_from(POLICIES),
    rules=st.lists(st.sampled_from((*OTHER_RULES, Rule(action="allow", command="make *", outside=True))), max_size=4),
    trusted=st.booleans(),
    was_always=st.booleans(),
    agent=st.sampled_from(("plan", "review")),
)
def test_plan_and_review_change_nothing_whatever_allows_it(
    *, intent: Intent, policy: ApprovalPolicy, rules: list[Rule], trusted: bool, was_always: bool, agent: str
) -> None:
    """The engine gives them a read-only sandbox; no ruling widens it, and no file is changed."""
    grant = grant_for(intent)
    judged = judge_intent(intent, tuple(rules), cwd="/w", workspace="/w", sandbox=ReadOnly())
    ruling = decide(
        intent,
        policy=policy,
        sandbox=ReadOnly(),
        grants=(grant,) if was_always and grant is not None else (),
        verdict=Verdict(trusted=trusted),
        rules=judged,
        agent=agent,  # type: ignore[arg-type]
    )
    if ruling.action != "deny":
        assert ruling.sandbox == ReadOnly()
        assert not isinstance(intent, ChangeFiles)
