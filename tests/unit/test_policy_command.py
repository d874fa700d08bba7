"""`hames policy`: why something would happen, which rules there are, and what is taken over from other tools."""

import json
import tomllib
from pathlib import Path

import pytest

from hames.agents.codex.requests import opening
from hames.cli.main import main
from hames.config.load import load
from hames.config.other_rules import from_claude, from_codex_config, from_codex_rules
from hames.config.sandbox_proof import is_sandbox_proved, note_proof
from hames.domain.errors import Misconfigured
from hames.domain.ids import ItemId
from hames.domain.items import TextInput, UserMessage
from hames.domain.modes import MODE_NAMES, default_policy, mode_of, next_mode
from hames.domain.options import Settings
from hames.domain.policy import DangerFullAccess, WorkspaceWrite
from hames.domain.rules import shown_rule
from hames.ports import Prompt

CLAUDE = {
    "permissions": {
        "allow": [
            "Bash(npm run test:*)",
            "Bash(git diff *)",
            "Edit(/src/**)",
            "WebFetch(domain:example.com)",
            "mcp__gh__list_issues",
            "mcp__files",
            "Read(~/.zshrc)",
            "WebSearch",
        ],
        "ask": ["Bash(git push:*)"],
        "deny": ["Read(./secrets/**)", "Read(//etc/passwd)", "Bash(curl:*)", "Bash(git * main)", "Bash(a; b)"],
        "defaultMode": "acceptEdits",
        "additionalDirectories": ["../x"],
    }
}
CODEX = """
prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="ask me")
prefix_rule(pattern=["rm", "-rf"], decision="forbidden")
prefix_rule(pattern=["gh", "pr", "view"])
network_rule(host="api.github.com", protocol="https", decision="allow")
host_executable(name="git", paths=["/usr/bin/git"])
prefix_rule(pattern=open("x"))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "project"
    (here / ".claude").mkdir(parents=True)
    (here / ".claude" / "settings.json").write_text(json.dumps(CLAUDE))
    home = tmp_path / "home"
    (home / ".codex" / "rules").mkdir(parents=True)
    (home / ".codex" / "rules" / "default.rules").write_text(CODEX)
    (home / ".codex" / "config.toml").write_text('approval_policy = "on-request"\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HAMES_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("HAMES_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.chdir(here)
    return here


def test_lists_of_claude_become_rules_and_what_does_not_says_why() -> None:
    made = from_claude(json.dumps(CLAUDE), origin="settings.json", project="/w")
    assert [shown_rule(rule) for rule in made.rules] == [
        "deny read `./secrets/**`",
        "deny read `/etc/passwd`",
        "deny `curl *`",
        "ask `git push *`",
        "allow `npm run test *`",
        "allow `git diff *`",
        "allow write `/w/src/**`",
        "allow host `example.com`",
        "allow mcp `gh/list_issues`",
        "allow mcp `files`",
    ]
    assert {rule.project for rule in made.rules} == {"/w"}
    assert not any(rule.outside for rule in made.rules)
    left = dict(made.left)
    assert "stands for one word here" in left["deny Bash(git * main)"]
    assert "cannot contain `;`" in left["deny Bash(a; b)"]
    assert "never asked about" in left["allow Read(~/.zshrc)"]
    assert {"allow WebSearch", "additionalDirectories"} <= left.keys()
    assert made.mode == "auto"


def test_rules_of_codex_become_rules_and_nothing_in_them_is_run() -> None:
    made = from_codex_rules(CODEX, origin="default.rules")
    assert [shown_rule(rule) for rule in made.rules] == [
        "ask `git push *`",
        "ask `git fetch *`",
        "deny `rm -rf *`",
        "allow `gh pr view *`",
        "allow host `api.github.com`",
    ]
    assert made.rules[0].why == "ask me"
    assert [why for _, why in made.left] == [
        "host_executable cannot be written as a rule",
        "it has something else than plain values",
    ]
    assert from_codex_config('approval_policy = "untrusted"', origin="config.toml").mode == "ask"


def test_tools_that_codex_disables_are_denied_and_what_no_rule_says_is_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project.parent / "home" / ".codex" / "config.toml"
    file.write_text(
        '[mcp_servers.docs]\ncommand = "docs"\nenabled_tools = ["search", "wipe"]\ndisabled_tools = ["wipe", "a*"]\n'
        '[mcp_servers."a/b"]\nurl = "https://example.org"\ndisabled_tools = ["x"]\n[mcp_servers.plain]\ncommand = "p"\n'
    )
    assert main(["policy", "import", "codex", str(file), "--yes"]) == 0
    said = capsys.readouterr().out
    assert "take       deny mcp `docs/wipe`" in said
    assert "not taken  mcp_servers.docs.enabled_tools = ['search', 'wipe']: no rule says 'only these'" in said
    assert "not taken  mcp_servers.docs.disabled_tools 'a*'" in said
    assert "not taken  mcp_servers.a/b.disabled_tools 'x'" in said
    assert "plain" not in said
    assert main(["policy", "why", "--mcp", "docs/wipe"]) == 1
    assert main(["policy", "why", "--mcp", "docs/search"]) == 3


def test_an_import_shows_what_it_takes_and_writes_only_when_told(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project.parent / "config.toml"
    assert main(["policy", "import", "claude"]) == 0
    said = capsys.readouterr().out
    assert "take       deny read `./secrets/**` (only in" in said
    assert "not taken  allow WebSearch" in said
    assert "nothing was written; add --yes" in said
    assert not file.exists()
    file.write_text('# mine\nmodel = "scripted/hello"\n')
    assert main(["policy", "import", "claude", "--yes"]) == 0
    assert main(["policy", "import", "codex", "--yes"]) == 0
    capsys.readouterr()
    assert main(["policy", "import", "codex", "--yes"]) == 0  # twice adds nothing
    assert "nothing to add" in capsys.readouterr().out
    written = tomllib.loads(file.read_text())
    assert file.read_text().startswith('# mine\nmodel = "scripted/hello"\n')
    assert len(written["rules"]) == 15
    assert load({"cwd": str(project)}, {"HOME": str(project), "HAMES_CONFIG": str(file)}).model == "scripted/hello"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["ls"], 0, "no rule decides, and the mode ask"),
        (["git push -f"], 1, "denied by the rule deny `git push *`"),
        (["sudo git push"], 1, "denied by the rule deny `git push *`"),
        (["$x push"], 3, "may be what this rule is about: deny `git push *`"),
        (["pytest -q"], 0, "of the rule allow `pytest *`"),
        (["make"], 3, "`make` runs code"),
        (["make", "--mode", "auto"], 0, "the mode auto (flag) lets it run"),
        (["make", "--mode", "auto", "--outside"], 3, "runs outside the sandbox"),
        (["make", "--mode", "plan", "--outside"], 1, "plan mode changes nothing"),
        (["--write", "src/a.py"], 3, "file changes need your approval"),
        (["--read", "secrets/a"], 1, "deny read"),
        (["--host", "example.org"], 3, "runs outside the sandbox"),
        (["--mcp", "gh/list"], 3, "calls 'list'"),
    ],
)
def test_why_names_what_decides(
    words: list[str], code: int, said: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [("deny", "command", "git push *"), ("allow", "command", "pytest *"), ("deny", "read", "secrets/**")]
    text = "\n".join(f'[[rules]]\naction = "{action}"\n{subject} = "{pattern}"' for action, subject, pattern in rules)
    (project.parent / "config.toml").write_text(text)
    assert main(["policy", "why", *words]) == code
    assert said in capsys.readouterr().out
    assert main(["policy", "why", "--json", *words]) == code
    assert json.loads(capsys.readouterr().out)["action"] == {0: "allow", 1: "deny", 3: "ask"}[code]


def test_list_shows_each_rule_with_its_place_and_what_is_ignored(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "list"]) == 0
    assert "no rules are in force here" in capsys.readouterr().out
    (project / "hames.toml").write_text(
        '[[rules]]\naction = "deny"\ncommand = "rm *"\n[[rules]]\naction = "allow"\ncommand = "x"\n'
    )
    assert main(["policy", "list"]) == 0
    said = capsys.readouterr().out
    assert "deny `rm *` (hames.toml:1)" in said
    assert "allow `x` (hames.toml:4) is ignored because this project is not trusted" in said


# -- modes


def options(tmp_path: Path, flags: dict[str, str], environment: dict[str, str], config: str = "") -> tuple[str, str]:
    (tmp_path / "config.toml").write_text(config)
    base = {"HOME": str(tmp_path), "HAMES_CONFIG": str(tmp_path / "config.toml"), "HAMES_STATE": str(tmp_path / "s")}
    found = load({"cwd": str(tmp_path), **flags}, {**base, **environment})
    return found.agent, found.approval_policy


def test_a_mode_is_an_agent_and_a_policy_and_the_strongest_source_wins(tmp_path: Path) -> None:
    assert options(tmp_path, {}, {}) == ("code", "unlessTrusted")
    assert options(tmp_path, {"mode": "auto"}, {}) == ("code", "onRequest")
    assert options(tmp_path, {"mode": "plan"}, {}) == ("plan", "unlessTrusted")
    assert options(tmp_path, {}, {"HAMES_MODE": "auto"}) == ("code", "onRequest")
    assert options(tmp_path, {}, {}, 'mode = "auto"') == ("code", "onRequest")
    assert options(tmp_path, {"approval_policy": "always"}, {}, 'mode = "auto"') == ("code", "always")
    assert options(tmp_path, {"mode": "ask"}, {}, 'approval_policy = "never"') == ("code", "unlessTrusted")
    assert options(tmp_path, {"mode": "plan"}, {}, 'approval_policy = "never"') == ("plan", "never")
    with pytest.raises(Misconfigured, match="say different things"):
        options(tmp_path, {}, {}, 'mode = "auto"\napproval_policy = "never"')
    with pytest.raises(Misconfigured, match="must be one of plan, ask, auto"):
        options(tmp_path, {"mode": "full"}, {})


def test_no_key_leads_to_a_policy_that_asks_nothing() -> None:
    assert MODE_NAMES == ("plan", "ask", "auto")
    assert [next_mode(name) for name in MODE_NAMES] == ["ask", "auto", "plan"]
    assert next_mode(mode_of("code", "never")) == next_mode(mode_of("code", "always")) == "ask"


def test_auto_is_the_default_only_where_the_sandbox_was_proved(tmp_path: Path) -> None:
    assert not is_sandbox_proved(tmp_path)
    note_proof(tmp_path, holds=True)
    assert is_sandbox_proved(tmp_path)
    assert default_policy(WorkspaceWrite(), proved=True) == "onRequest"
    assert default_policy(WorkspaceWrite(), proved=False) == "unlessTrusted"
    assert default_policy(DangerFullAccess(), proved=True) == "unlessTrusted"
    (tmp_path / "sandbox-proof.json").write_text('{"kernel":"other","program":"","changed_ns":0}')
    assert not is_sandbox_proved(tmp_path)  # of another kernel
    note_proof(tmp_path, holds=True)
    note_proof(tmp_path, holds=False)
    assert not is_sandbox_proved(tmp_path)


def test_plan_mode_is_read_only_for_codex_too() -> None:
    message = UserMessage(id=ItemId("i"), step=1, content=(TextInput(text="x"),))
    settings = Settings(model="codex/m", cwd="/w", agent="plan", sandbox=DangerFullAccess())
    [(_, params)] = list(opening(Prompt(message=message), settings, "t", "m"))
    assert params["sandboxPolicy"] == {"type": "readOnly"}
    assert params["approvalPolicy"] == "never"  # nothing can ask its way out
    assert params["collaborationMode"]["mode"] == "plan"
