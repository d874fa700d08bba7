"""Rules: which commands, files, hosts and tools they are about, and what they leave to the policy."""

import json
from pathlib import Path

import pytest

from hames.config.load import load
from hames.config.rules import RuleFiles, read_rule
from hames.core.rule_checks import with_host_rules
from hames.domain.approvals import CallMcp, ChangeFiles, Harmless, Intent, RunCommand
from hames.domain.errors import Misconfigured
from hames.domain.items import FileUpdate
from hames.domain.network import NetworkRules
from hames.domain.policy import (
    ApprovalPolicy,
    CommandGrant,
    DangerFullAccess,
    McpGrant,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from hames.domain.rules import Rule, RuleVerdict
from hames.domain.rulings import Ruling, Verdict, decide
from hames.sandbox.trust.rules.book import suggested_pattern
from hames.sandbox.trust.rules.judge import judge_intent

ROWS = [json.loads(line) for line in (Path(__file__).parents[1] / "security" / "rules.jsonl").read_text().splitlines()]


def judged(
    command: str, *rules: Rule, cwd: Path | str = "/nowhere", sandbox: SandboxPolicy | None = None
) -> RuleVerdict:
    intent = RunCommand(command=command, cwd=str(cwd))
    return judge_intent(intent, rules, cwd=str(cwd), workspace=str(cwd), sandbox=sandbox or WorkspaceWrite())


def ruled(intent: Intent, *rules: Rule, policy: ApprovalPolicy = "unlessTrusted", **more: object) -> Ruling:
    sandbox = more.pop("sandbox", WorkspaceWrite())
    verdict = judge_intent(intent, rules, cwd="/nowhere", workspace="/nowhere", sandbox=sandbox)  # type: ignore[arg-type]
    return decide(
        intent,
        policy=policy,
        sandbox=sandbox,  # type: ignore[arg-type]
        grants=more.pop("grants", ()),  # type: ignore[arg-type]
        verdict=Verdict(trusted=bool(more.pop("trusted", False))),
        rules=verdict,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['rule']}: {row['command']}")
def test_a_deny_rule_finds_its_command_wherever_it_hides(row: dict[str, str | None], tmp_path: Path) -> None:
    rule = Rule(action="deny", command=str(row["rule"]), source="config.toml:7")
    found = judged(str(row["command"]), rule, cwd=tmp_path)
    assert found.action == row["action"], found.reason
    if found.rule is not None:
        assert str(row["rule"]) in found.reason  # whoever is asked or refused hears of the rule
        assert "config.toml:7" in found.reason


@pytest.mark.parametrize(
    ("name", "text", "command", "action"),
    [
        ("go.sh", "echo a\ngit push\n", "bash go.sh", "deny"),
        ("go.sh", "#!/bin/sh\ngit push\n", "./go.sh", "deny"),
        ("go.sh", "#!/bin/sh\ngit push\n", "sh -x ./go.sh a b", "deny"),
        ("go.sh", "git push\n", "source go.sh", "deny"),
        ("go.sh", "git push\n", "bash < go.sh", "deny"),
        ("go.sh", "git push\n", "BASH_ENV=go.sh bash -c true", "deny"),
        ("go.sh", "git push\n", "env FOO=1 bash go.sh", "deny"),
        ("go.py", "subprocess.run(['git', 'push'])\n", "python go.py", "ask"),
        ("go.py", "#!/usr/bin/env python3\nos.system('git push')\n", "./go.py", "ask"),
        ("Makefile", "release:\n\tgit push\n", "make release", "ask"),
        ("package.json", '{"scripts": {"release": "git push"}}', "npm run release", "ask"),
        ("go.py", "print('hello')\n", "python go.py", None),
        ("go.sh", "echo hello\n", "bash go.sh", None),
        ("Makefile", "test:\n\tpytest\n", "make test", None),
    ],
)
def test_a_deny_rule_looks_into_scripts(name: str, text: str, command: str, action: str | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert judged(command, Rule(action="deny", command="git push *"), cwd=tmp_path).action == action


@pytest.mark.parametrize(
    ("command", "is_allowed"),
    [
        ("pytest", True),
        ("pytest -q tests/a.py", True),
        ("pytest 'a b'", True),
        ("pytest -q && ls", True),
        ("ls | head -3 && pytest", True),
        ("pytest; rm -rf x", False),
        ("pytest && rm x", False),
        ("pytest | sh", False),
        ("pytest > out.txt", False),
        ("pytest $(rm x)", False),
        ("pytest `rm x`", False),
        ("pytest $X", False),
        ("pytest\nrm x", False),
        ("pytest & rm x", False),
        ("FOO=1 pytest", False),
        ("env pytest", False),
        ("sudo pytest", False),
        ("bash -c pytest", False),
        ("./pytest", False),
        ("/tmp/pytest", False),
        ("pytest2", False),
        ("python -m pytest", False),
        ("xargs pytest", False),
    ],
)
def test_an_allow_rule_is_matched_word_for_word(command: str, is_allowed: bool, tmp_path: Path) -> None:
    found = judged(command, Rule(action="allow", command="pytest *"), cwd=tmp_path)
    assert (found.action == "allow") == is_allowed
    intent = RunCommand(command=command, cwd=str(tmp_path))
    ruling = decide(
        intent, policy="unlessTrusted", sandbox=WorkspaceWrite(), grants=(), verdict=Verdict(trusted=False), rules=found
    )
    assert ruling.action == ("allow" if is_allowed else "ask")
    assert ruling.sandbox == WorkspaceWrite()  # a rule removes the question and never the sandbox


ALLOW, ASK, DENY = (Rule(action=action, command="make *") for action in ("allow", "ask", "deny"))
MAKE = RunCommand(command="make x", cwd="/nowhere")


@pytest.mark.parametrize(
    ("rules", "never", "on_request", "unless_trusted", "always"),
    [
        ((), "allow", "allow", "ask", "ask"),
        ((ALLOW,), "allow", "allow", "allow", "ask"),
        ((ASK,), "deny", "ask", "ask", "ask"),
        ((DENY,), "deny", "deny", "deny", "deny"),
        ((ALLOW, ASK), "deny", "ask", "ask", "ask"),
        ((ASK, ALLOW), "deny", "ask", "ask", "ask"),
        ((ALLOW, DENY), "deny", "deny", "deny", "deny"),
        ((DENY, ALLOW, ASK), "deny", "deny", "deny", "deny"),
    ],
)
def test_the_tightest_rule_wins_in_any_order(
    rules: tuple[Rule, ...], never: str, on_request: str, unless_trusted: str, always: str
) -> None:
    assert ruled(MAKE, *rules, policy="never").action == never
    assert ruled(MAKE, *rules, policy="onRequest").action == on_request
    assert ruled(MAKE, *rules, policy="unlessTrusted").action == unless_trusted
    assert ruled(MAKE, *rules, policy="always").action == always


def test_a_rule_beats_what_was_always_allowed_and_what_is_trusted() -> None:
    grants = (CommandGrant(command="make x", cwd="/nowhere"), McpGrant(server="s", tool="t"))
    assert ruled(MAKE, DENY, grants=grants, trusted=True).action == "deny"
    assert ruled(MAKE, ASK, grants=grants, trusted=True).action == "ask"
    assert ruled(CallMcp(server="s", tool="t"), Rule(action="deny", mcp="s"), grants=grants).action == "deny"


def test_leaving_the_sandbox_needs_a_rule_that_says_outside() -> None:
    leave = RunCommand(command="make x", cwd="/nowhere", unsandboxed=True, why="w")
    outside = Rule(action="allow", command="make *", outside=True)
    assert ruled(leave, ALLOW).action == "ask"
    assert ruled(leave, ALLOW, policy="never").action == "deny"
    assert ruled(leave, outside).sandbox == DangerFullAccess()
    assert ruled(leave, outside).action == ruled(leave, outside, policy="never").action == "allow"
    assert ruled(leave, outside, policy="always").action == "ask"
    assert ruled(MAKE, outside).sandbox == WorkspaceWrite()  # it leaves only when it asks to
    for command in ("make x; ls", "make *", "cd a && make", "ls"):
        assert ruled(RunCommand(command=command, cwd="/nowhere", unsandboxed=True), outside).action == "ask"


@pytest.mark.parametrize("policy", ["never", "onRequest", "unlessTrusted", "always"])
def test_no_rule_and_no_grant_leaves_the_sandbox_of_plan_mode(policy: ApprovalPolicy) -> None:
    leave = RunCommand(command="make x", cwd="/nowhere", unsandboxed=True, why="w")
    outside = Rule(action="allow", command="make *", outside=True)
    grants = (CommandGrant(command="make x", cwd="/nowhere", unsandboxed=True),)
    ruling = ruled(leave, outside, policy=policy, agent="plan", sandbox=ReadOnly(), grants=grants)
    assert ruling.action == "deny"
    assert "plan mode changes nothing" in ruling.reason
    change = ChangeFiles(changes=(FileUpdate(path="/nowhere/a", kind="add", diff="+a"),))
    assert ruled(change, Rule(action="allow", write="/nowhere/**"), policy=policy, sandbox=ReadOnly()).action == "deny"


def test_files_hosts_and_tools_have_rules_of_their_own() -> None:
    def change(*paths: str, protected: bool = False) -> ChangeFiles:
        updates = tuple(FileUpdate(path=path, kind="modify", diff="+a") for path in paths)
        return ChangeFiles(changes=updates, protected=protected)

    sources = Rule(action="allow", write="/w/src/**")
    assert ruled(change("/w/src/a.py"), sources).action == "allow"
    assert ruled(change("/w/src/a.py", "/w/b.py"), sources).action == "ask"
    assert ruled(change("/w/src/.git/config", protected=True), sources).action == "ask"
    lock = Rule(action="deny", write="/w/**/*.lock")
    assert ruled(change("/w/src/a.py", "/w/src/x.lock"), sources, lock, policy="never").action == "deny"
    assert ruled(Harmless(reads=("/w/.env",)), Rule(action="ask", read="/w/**/.env")).action == "ask"
    assert ruled(Harmless(reads=("/w/.env",)), Rule(action="deny", read="/w/**/.env")).action == "deny"
    fetch = RunCommand(
        command="web_fetch https://a.example.org/x", cwd="/w", unsandboxed=True, url="https://a.example.org/x"
    )
    assert ruled(fetch, Rule(action="allow", host="*.example.org")).action == "allow"
    assert ruled(fetch, Rule(action="allow", host="example.org")).action == "ask"
    assert ruled(fetch, Rule(action="deny", host="a.example.org"), Rule(action="allow", host="*")).action == "deny"
    assert ruled(CallMcp(server="gh", tool="list"), Rule(action="allow", mcp="gh/list*")).action == "allow"
    assert ruled(CallMcp(server="gh", tool="push"), Rule(action="allow", mcp="gh/list*")).action == "ask"


def test_without_a_sandbox_a_denied_file_asks_about_every_command(tmp_path: Path) -> None:
    rule = Rule(action="deny", read=f"{tmp_path}/secrets/**")
    assert judged("make", rule, cwd=tmp_path).action is None  # the sandbox hides it
    assert judged("make", rule, cwd=tmp_path, sandbox=DangerFullAccess()).action == "ask"
    assert judged("cat secrets/a", rule, cwd=tmp_path).action == "deny"
    assert judged("cat ./secrets/*", rule, cwd=tmp_path).action == "deny"
    assert judged("cd secrets && cat a", rule, cwd=tmp_path).action == "deny"
    (tmp_path / "link").symlink_to("secrets")
    assert judged("cat link/a", rule, cwd=tmp_path).action == "deny"


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"action": "permit", "command": "x"}, "action = one of allow, ask, deny"),
        ({"action": "allow"}, "exactly one of command, read, write, host, mcp"),
        ({"action": "allow", "command": "x", "mcp": "y"}, "exactly one of"),
        ({"action": "allow", "comand": "x"}, "'comand', which is not a known key"),
        ({"action": "allow", "command": "a; b"}, "it cannot contain `;`"),
        ({"action": "allow", "command": "a $(b)"}, "it cannot contain"),
        ({"action": "allow", "command": "a 'b"}, "quotes are not closed"),
        ({"action": "allow", "command": " "}, "names no program"),
        ({"action": "deny", "command": "x", "outside": True}, "only for rules that allow a command"),
        ({"action": "allow", "command": "./x.sh", "outside": True}, "the agent can change"),
        ({"action": "allow", "command": "* x", "outside": True}, "needs the name of a program"),
        ({"action": "allow", "host": "https://x"}, "not a host name"),
        ({"action": "allow", "mcp": "a/b/c"}, "server/tool"),
        ({"action": "allow", "command": 3}, "cannot be used"),
        ({"action": "allow", "command": "x", "project": "here"}, "absolute path"),
        ("x", "not a table"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_in_words(table: object, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=r"the rule in config\.toml:3") as caught:
        read_rule(table, "config.toml:3", base="/w", home="/h")
    assert complaint in str(caught.value)


def test_rules_come_from_the_user_the_project_and_flags(tmp_path: Path) -> None:
    home, project, other = tmp_path / "home", tmp_path / "project", tmp_path / "other"
    for directory in (home, project, other):
        directory.mkdir()
    file = tmp_path / "config.toml"
    environment = {"HOME": str(home), "HAMES_CONFIG": str(file), "HAMES_STATE": str(tmp_path / "state")}
    file.write_text(
        '[[rules]]\naction = "deny"\ncommand = "git push *"\n\n'
        f'[[rules]]\naction = "allow"\ncommand = "tox"\nproject = "{project}"\n'
    )
    (project / "hames.toml").write_text(
        '[[rules]]\naction = "allow"\ncommand = "*"\n\n[[rules]]\naction = "ask"\nwrite = "migrations/**"\n'
    )
    flags = {"cwd": str(project), "rules": [{"action": "ask", "command": "curl *"}]}
    options = load(flags, environment)
    files = RuleFiles(environment, options.rules)
    found = [(rule.action, rule.pattern, rule.source) for rule in files.in_force(str(project))]
    assert found == [
        ("ask", "curl *", "command line"),
        ("deny", "git push *", f"{file}:1"),
        ("allow", "tox", f"{file}:5"),
        ("ask", f"{project}/migrations/**", "hames.toml:5"),  # not trusted: it can only tighten
    ]
    assert any("not trusted" in problem for problem in files.problems)
    assert [rule.pattern for rule in files.in_force(str(other))] == ["curl *", "git push *"]
    kept = files.keep(Rule(action="allow", command="pytest *", project=str(other)))
    assert kept.source == f"{file}:10"
    assert [rule.pattern for rule in files.in_force(str(other))] == ["curl *", "git push *", "pytest *"]
    assert RuleFiles(environment).in_force(str(other))[-1].source == kept.source
    assert [rule.pattern for rule in files.in_force(str(project))][-2:] == ["tox", f"{project}/migrations/**"]


def test_a_broken_rule_stops_the_start_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('model = "x"\n\n[[rules]]\naction = "deny"\ncomand = "rm *"\n')
    with pytest.raises(Misconfigured, match=r"config.toml:3 has 'comand'"):
        load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path), "HAMES_CONFIG": str(file)})


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("pytest -q a.py", "pytest *"),
        ("npm run lint", "npm run lint *"),
        ("npm test", "npm test *"),
        ("make", "make"),
        ("cargo build --release", "cargo build *"),
        ("python -m pytest -q", "python -m pytest *"),
        ("python a.py", "python a.py *"),
        ("python", ""),
        ("python -c 'x'", ""),
        ("node -e 'x'", ""),
        ("bash x.sh", ""),
        ("sudo make", ""),
        ("rm x", ""),
        ("curl x", ""),
        ("ls; pytest", ""),
        ("pytest > x", ""),
        ("npm run", ""),
        ("git -C x push", ""),
    ],
)
def test_the_rule_that_is_offered_is_narrow(command: str, pattern: str) -> None:
    assert suggested_pattern(command) == pattern


def test_rules_about_hosts_hold_for_whatever_a_command_starts() -> None:
    rules = (Rule(action="deny", host="evil.test"), Rule(action="allow", host="good.test"))
    asking = WorkspaceWrite(network=NetworkRules(allow=("pypi.org",)))
    assert with_host_rules(asking, rules) == WorkspaceWrite(
        network=NetworkRules(allow=("pypi.org", "good.test"), deny=("evil.test",))
    )
    everything = WorkspaceWrite(network_access=True)
    assert with_host_rules(everything, rules) == WorkspaceWrite(
        network_access=True, network=NetworkRules(deny=("evil.test",))
    )
    for closed in (WorkspaceWrite(), ReadOnly()):
        assert with_host_rules(closed, rules) == closed, "a rule opens no network"


@pytest.mark.parametrize("line", ["bash go.sh", "./go.sh", ". ./go.sh", "bash < go.sh"])
def test_nested_shell_in_a_script_is_asked_about_when_it_names_the_words(line: str, tmp_path: Path) -> None:
    (tmp_path / "go.sh").write_text("#!/bin/bash\necho $(case a in a) git push origin main;; esac)\n")
    here = str(tmp_path)
    rules = (Rule(action="deny", command="git push *"),)
    found = judge_intent(RunCommand(command=line, cwd=here), rules, cwd=here, workspace=here, sandbox=WorkspaceWrite())
    assert found.action in ("deny", "ask")
