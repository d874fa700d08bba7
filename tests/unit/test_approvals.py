"""May it? The whole table, and what `always` means."""

import pytest

from hames.core.approvals import decide, grant_for
from hames.domain.approvals import CallMcp, ChangeFiles, Harmless, Intent, RunCommand, UseTool
from hames.domain.items import FileUpdate
from hames.domain.policy import (
    ApprovalPolicy,
    CommandGrant,
    DangerFullAccess,
    ExternalSandbox,
    FileChangeGrant,
    Grant,
    McpGrant,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from hames.ports import Verdict

WRITE, READ, FREE, OUTSIDE = WorkspaceWrite(), ReadOnly(), DangerFullAccess(), ExternalSandbox()
RUN = RunCommand(command="npm test", cwd="/w")
LEAVE = RunCommand(command="npm test", cwd="/w", unsandboxed=True, why="needs the network")
EDIT = ChangeFiles(changes=(FileUpdate(path="/w/a", kind="add", diff="+a"),))
GUARD = ChangeFiles(changes=(FileUpdate(path="/w/.git/hooks/x", kind="add", diff="+a"),), protected=True)
MCP = CallMcp(server="s", tool="t")
USE = UseTool(name="u")


def rule(
    intent: Intent,
    policy: ApprovalPolicy,
    sandbox: SandboxPolicy = WRITE,
    *,
    trusted: bool = False,
    grants: tuple[Grant, ...] = (),
) -> tuple[str, SandboxPolicy]:
    ruling = decide(
        intent, policy=policy, sandbox=sandbox, grants=grants, verdict=Verdict(trusted=trusted), workspace="/w"
    )
    if ruling.action != "allow":
        assert ruling.reason  # whoever is asked or refused hears why
    return ruling.action, ruling.sandbox


@pytest.mark.parametrize(
    ("intent", "never", "unless_trusted", "always"),
    [
        (Harmless(), "allow", "allow", "allow"),
        (RUN, "allow", "ask", "ask"),
        (LEAVE, "deny", "ask", "ask"),
        (EDIT, "allow", "ask", "ask"),
        (GUARD, "deny", "ask", "ask"),
        (MCP, "allow", "ask", "ask"),
        (USE, "allow", "ask", "ask"),
    ],
)
@pytest.mark.spec("flint/policy-never", "flint/policy-unless-trusted", "flint/policy-always")
def test_what_each_policy_says_about_each_intent(intent: Intent, never: str, unless_trusted: str, always: str) -> None:
    assert rule(intent, "never")[0] == never
    assert rule(intent, "unlessTrusted")[0] == unless_trusted
    assert rule(intent, "always")[0] == always


@pytest.mark.parametrize(
    ("policy", "sandbox", "expected"),
    [
        ("unlessTrusted", WRITE, ("allow", READ)),  # no question, and no more than it needs
        ("unlessTrusted", WorkspaceWrite(network_access=True), ("allow", READ)),
        ("unlessTrusted", READ, ("allow", READ)),
        ("unlessTrusted", FREE, ("allow", FREE)),
        ("unlessTrusted", OUTSIDE, ("allow", OUTSIDE)),
        ("always", WRITE, ("ask", WRITE)),
        ("never", WRITE, ("allow", WRITE)),
    ],
)
def test_trust_removes_the_question_and_tightens_the_sandbox(
    policy: ApprovalPolicy, sandbox: SandboxPolicy, expected: tuple[str, SandboxPolicy]
) -> None:
    assert rule(RUN, policy, sandbox, trusted=True) == expected


@pytest.mark.parametrize(("sandbox", "action"), [(WRITE, "allow"), (READ, "allow"), (FREE, "ask"), (OUTSIDE, "ask")])
def test_what_is_trusted_only_behind_walls_is_asked_about_without_them(sandbox: SandboxPolicy, action: str) -> None:
    verdict = Verdict(trusted=True, sandbox_only=True)
    ruling = decide(RUN, policy="unlessTrusted", sandbox=sandbox, grants=(), verdict=verdict, workspace="/w")
    assert ruling.action == action
    assert ("sandbox" in ruling.reason) == (action == "ask")


@pytest.mark.parametrize("policy", ["never", "unlessTrusted", "always"])
def test_a_read_only_sandbox_lets_no_file_change_through(policy: ApprovalPolicy) -> None:
    assert rule(EDIT, policy, READ)[0] == "deny"
    assert rule(GUARD, policy, READ)[0] == "deny"
    assert rule(EDIT, policy, READ, grants=(FileChangeGrant(root="/w"),))[0] == "deny"


def test_leaving_the_sandbox_is_asked_about_even_when_the_command_is_trusted_or_granted_inside() -> None:
    inside = CommandGrant(command="npm test", cwd="/w")
    assert rule(LEAVE, "unlessTrusted", trusted=True, grants=(inside,)) == ("ask", FREE)
    assert rule(LEAVE, "unlessTrusted", grants=(CommandGrant(command="npm test", cwd="/w", unsandboxed=True),)) == (
        "allow",
        FREE,
    )


@pytest.mark.parametrize("sandbox", [FREE, OUTSIDE])
def test_where_there_is_no_sandbox_nothing_has_to_leave_it(sandbox: SandboxPolicy) -> None:
    assert rule(LEAVE, "never", sandbox) == ("allow", sandbox)


@pytest.mark.parametrize(
    ("command", "cwd", "action"),
    [
        ("npm test", "/w", "allow"),
        ("npm test && curl x", "/w", "ask"),
        ("npm test -- --x", "/w", "ask"),
        ("npm test ", "/w", "ask"),
        ("npm  test", "/w", "ask"),
        ("npm test", "/w/sub", "ask"),
    ],
)
def test_always_is_for_the_exact_command_in_its_directory(command: str, cwd: str, action: str) -> None:
    grant = grant_for(RUN, workspace="/w")
    assert grant is not None
    assert rule(RunCommand(command=command, cwd=cwd), "unlessTrusted", grants=(grant,))[0] == action


def test_always_for_a_file_change_covers_the_workspace_and_never_its_guard_rails() -> None:
    grant = grant_for(EDIT, workspace="/w")
    assert grant == FileChangeGrant(root="/w")
    assert rule(EDIT, "always", grants=(grant,))[0] == "allow"
    assert rule(GUARD, "always", grants=(grant,))[0] == "ask"
    assert grant_for(GUARD, workspace="/w") is None
    assert rule(EDIT, "always", grants=(FileChangeGrant(root="/elsewhere"),))[0] == "ask"


def test_what_the_user_vouched_for_is_asked_about_only_where_everything_is() -> None:
    vouched = UseTool(name="web_search", vouched=True)
    policies: tuple[ApprovalPolicy, ...] = ("never", "unlessTrusted", "always")
    assert [rule(vouched, policy)[0] for policy in policies] == ["allow", "allow", "ask"]
    assert grant_for(vouched, workspace="/w") is None


def test_always_for_an_mcp_tool_is_that_tool() -> None:
    grant = grant_for(MCP, workspace="/w")
    assert grant == McpGrant(server="s", tool="t")
    assert rule(MCP, "always", grants=(grant,))[0] == "allow"
    assert rule(CallMcp(server="s", tool="other"), "always", grants=(grant,))[0] == "ask"
    assert grant_for(USE, workspace="/w") is None
