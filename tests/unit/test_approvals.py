"""May it? The whole table, and what `always` means."""

from typing import Literal

import pytest
from msgspec.structs import replace

from hames.domain.approvals import CallMcp, ChangeFiles, Harmless, Intent, RunCommand, UseTool
from hames.domain.grants import always_covers, grant_for
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
    ScriptFile,
    WorkspaceWrite,
)
from hames.domain.rulings import decide
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
    ruling = decide(intent, policy=policy, sandbox=sandbox, grants=grants, verdict=Verdict(trusted=trusted))
    if ruling.action != "allow":
        assert ruling.reason  # whoever is asked or refused hears why
    return ruling.action, ruling.sandbox


@pytest.mark.parametrize(
    ("intent", "never", "on_request", "unless_trusted", "always"),
    [
        (Harmless(), "allow", "allow", "allow", "allow"),
        (RUN, "allow", "allow", "ask", "ask"),
        (LEAVE, "deny", "ask", "ask", "ask"),
        (EDIT, "allow", "allow", "ask", "ask"),
        (GUARD, "deny", "ask", "ask", "ask"),
        (MCP, "allow", "ask", "ask", "ask"),
        (USE, "allow", "ask", "ask", "ask"),
    ],
)
@pytest.mark.spec("flint/policy-never", "flint/policy-unless-trusted", "flint/policy-always")
def test_what_each_policy_says_about_each_intent(
    intent: Intent, never: str, on_request: str, unless_trusted: str, always: str
) -> None:
    assert rule(intent, "never")[0] == never
    assert rule(intent, "onRequest")[0] == on_request
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
@pytest.mark.spec("flint/policy-unless-trusted", "flint/policy-always")
def test_trust_removes_the_question_and_tightens_the_sandbox(
    policy: ApprovalPolicy, sandbox: SandboxPolicy, expected: tuple[str, SandboxPolicy]
) -> None:
    assert rule(RUN, policy, sandbox, trusted=True) == expected


@pytest.mark.parametrize(("sandbox", "action"), [(WRITE, "allow"), (READ, "allow"), (FREE, "ask"), (OUTSIDE, "ask")])
def test_what_is_trusted_only_behind_walls_is_asked_about_without_them(sandbox: SandboxPolicy, action: str) -> None:
    verdict = Verdict(trusted=True, sandbox_only=True)
    ruling = decide(RUN, policy="unlessTrusted", sandbox=sandbox, grants=(), verdict=verdict)
    assert ruling.action == action
    assert ("sandbox" in ruling.reason) == (action == "ask")


@pytest.mark.parametrize(
    ("sandbox", "command", "files"), [(WRITE, "allow", "allow"), (OUTSIDE, "allow", "allow"), (FREE, "ask", "ask")]
)
def test_on_request_asks_about_everything_where_no_sandbox_holds_it(
    sandbox: SandboxPolicy, command: str, files: str
) -> None:
    assert rule(RUN, "onRequest", sandbox) == (command, sandbox)
    assert rule(EDIT, "onRequest", sandbox) == (files, sandbox)
    assert rule(RUN, "onRequest", sandbox, trusted=True)[0] == "allow"


@pytest.mark.parametrize("policy", ["never", "onRequest", "unlessTrusted", "always"])
def test_a_read_only_sandbox_lets_no_file_change_through(policy: ApprovalPolicy) -> None:
    assert rule(EDIT, policy, READ)[0] == "deny"
    assert rule(GUARD, policy, READ)[0] == "deny"
    assert rule(EDIT, policy, READ, grants=(FileChangeGrant(paths=("/w/a",)),))[0] == "deny"


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
    grant = grant_for(RUN)
    assert grant is not None
    assert rule(RunCommand(command=command, cwd=cwd), "unlessTrusted", grants=(grant,))[0] == action


def changing(*paths: str, kind: Literal["add", "modify", "delete"] = "modify") -> ChangeFiles:
    return ChangeFiles(changes=tuple(FileUpdate(path=path, kind=kind, diff="") for path in paths))


def test_always_for_a_file_change_covers_the_files_of_that_change() -> None:
    grant = grant_for(changing("/w/a", "/w/b"))
    assert grant == FileChangeGrant(paths=("/w/a", "/w/b"))
    for covered in (changing("/w/a"), changing("/w/b", "/w/a"), changing("/w/b", kind="add")):
        assert rule(covered, "always", grants=(grant,))[0] == "allow"
    for other in ("/w/package.json", "/w/Makefile", "/w/.venv/bin/python", "/w/a/b", "/w/aa", "/w/A", "/w", "a"):
        assert rule(changing(other), "unlessTrusted", grants=(grant,))[0] == "ask"
        assert rule(changing("/w/a", other), "unlessTrusted", grants=(grant,))[0] == "ask"
    assert rule(changing("/w/a", kind="delete"), "always", grants=(grant,))[0] == "ask"


def test_always_never_covers_guard_rails_or_a_deletion() -> None:
    assert grant_for(GUARD) is None
    assert rule(GUARD, "always", grants=(FileChangeGrant(paths=("/w/.git/hooks/x",)),))[0] == "ask"
    assert grant_for(changing("/w/a", kind="delete")) is None


def test_two_grants_cover_a_change_of_both_their_files() -> None:
    grants = (FileChangeGrant(paths=("/w/a",)), FileChangeGrant(paths=("/w/b",)))
    assert rule(changing("/w/a", "/w/b"), "always", grants=grants)[0] == "allow"


def test_a_grant_of_an_earlier_version_for_the_whole_workspace_allows_nothing() -> None:
    assert rule(EDIT, "always", grants=(FileChangeGrant(root="/w"),))[0] == "ask"


def script(path: str = "/w/build.sh", content: str = "1", target: str = "") -> ScriptFile:
    return ScriptFile(path=path, sha256=content, target=target)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ((script(),), ""),
        ((script(content="2"),), "build.sh changed since you allowed this command"),
        ((), "build.sh is gone since you allowed this command"),
        ((script(target="/w/other"),), "build.sh is now a different symbolic link since you allowed this command"),
        ((script(), script("/w/lib/x")), "lib/x is new since you allowed this command"),
    ],
)
@pytest.mark.parametrize("unsandboxed", [False, True])
def test_always_holds_while_the_scripts_stay_the_same(now: tuple[ScriptFile, ...], why: str, unsandboxed: bool) -> None:
    before = RunCommand(command="bash build.sh", cwd="/w", unsandboxed=unsandboxed, scripts=(script(),))
    grant = grant_for(before)
    assert grant is not None
    ruling = decide(
        replace(before, scripts=now),
        policy="unlessTrusted",
        sandbox=WRITE,
        grants=(CommandGrant(command="ls", cwd="/w"), grant),
        verdict=Verdict(trusted=False, reason="unknown"),
    )
    assert ruling.action == ("ask" if why else "allow")
    assert why in ruling.reason


def test_what_names_too_many_scripts_is_asked_about_every_time() -> None:
    assert grant_for(replace(RUN, repeatable=False)) is None
    assert rule(
        replace(RUN, repeatable=False), "unlessTrusted", grants=(CommandGrant(command="npm test", cwd="/w"),)
    ) == (
        "ask",
        WRITE,
    )


@pytest.mark.parametrize(
    ("intent", "text", "files"),
    [
        (RUN, "this exact command in this directory, for the rest of this thread", ()),
        (LEAVE, "this exact command in this directory, for the rest of this thread, outside the sandbox", ()),
        (
            replace(RUN, scripts=(script(), script("/w/lib/x"))),
            "this exact command in this directory, for the rest of this thread, "
            "as long as build.sh and lib/x do not change",
            ("/w/build.sh", "/w/lib/x"),
        ),
        (changing("/w/a"), "further changes to a, for the rest of this thread", ("/w/a",)),
        (
            changing(*(f"/w/{name}" for name in "abcde")),
            "further changes to a, b, c and 2 more files, for the rest of this thread",
            tuple(f"/w/{name}" for name in "abcde"),
        ),
        (changing("/elsewhere/a"), "further changes to /elsewhere/a, for the rest of this thread", ("/elsewhere/a",)),
        (MCP, "calls of t on the server s, for the rest of this thread", ()),
    ],
)
def test_always_says_what_it_covers(intent: Intent, text: str, files: tuple[str, ...]) -> None:
    covers = always_covers(intent, cwd="/w")
    assert covers is not None
    assert (covers.text, covers.files) == (text, files)


@pytest.mark.parametrize("intent", [GUARD, USE, changing("/w/a", kind="delete"), replace(RUN, repeatable=False)])
def test_where_always_would_allow_nothing_it_covers_nothing(intent: Intent) -> None:
    assert always_covers(intent, cwd="/w") is None


def test_what_the_user_vouched_for_is_asked_about_only_where_everything_is() -> None:
    vouched = UseTool(name="web_search", vouched=True)
    policies: tuple[ApprovalPolicy, ...] = ("never", "unlessTrusted", "always")
    assert [rule(vouched, policy)[0] for policy in policies] == ["allow", "allow", "ask"]
    assert grant_for(vouched) is None


def test_always_for_an_mcp_tool_is_that_tool() -> None:
    grant = grant_for(MCP)
    assert grant == McpGrant(server="s", tool="t")
    assert rule(MCP, "always", grants=(grant,))[0] == "allow"
    assert rule(CallMcp(server="s", tool="other"), "always", grants=(grant,))[0] == "ask"
    assert grant_for(USE) is None
