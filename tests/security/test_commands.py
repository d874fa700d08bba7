"""THREATS, "Approval and command parsing": what is asked about, what is not, and that what is shown is what runs."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from walls import run

from hames.domain.display import described, visible
from hames.domain.policy import DangerFullAccess
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.trust.commands import shell_words as words
from hames.sandbox.trust.commands.shell_words import MAX_BYTES
from hames.sandbox.trust.shell_trust import ShellTrust


def rows(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(__file__).with_name(name).read_text().splitlines()]


COMMANDS = rows("commands.jsonl")
AGENT_COMMANDS = rows("agent_commands.jsonl")
"""What coding agents run, and what somebody would try who wants one of them to run more."""
FILES = (
    "a.txt",
    "b.txt",
    "a b.txt",
    "x/x/x/x/k",
    "certs/tls.key",
    "prod.env",
    "big",
    "list.txt",
    "README.md",
    "package.json",
    "src/x.py",
    "sub/k",
    "d/x",
    "evil.sh",
    "evil.sed",
    "evil.awk",
    "rgcfg",
    "1p",
    ".gitignore",
    ".env",
    ".env.local",
    ".env.example",
    "sub/.env",
    "id_rsa",
    ".ssh/config",
    "server.pem",
    ".npmrc",
)
TRUST = ShellTrust()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    here = tmp_path / "workspace"
    for name in FILES:
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text('{"name": "one"}\n')
    (tmp_path / "secrets.txt").write_text("outside")
    (here / "link_to_outside").symlink_to(tmp_path / "secrets.txt")
    (here / "dirlink").symlink_to("/etc")
    (here / "inlink").symlink_to("d")
    (here / "x/up").symlink_to("..")
    return here


def git(here: Path, *words: str) -> None:
    """With no configuration but the repository's own."""
    environ = {"PATH": os.defpath, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=here, env=environ, check=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def repository(workspace: Path) -> Path:
    """An ordinary one, with hooks and settings as projects have them."""
    git(workspace, "init", "-q", "-b", "main")
    for key, value in {
        "user.name": "n",
        "user.email": "n@example.com",
        "remote.origin.url": "https://example.com/a/b.git",
        "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*",
        "branch.main.remote": "origin",
        "core.hooksPath": ".husky/_",
        "alias.st": "status",
        "pull.rebase": "true",
    }.items():
        git(workspace, "config", key, value)
    git(workspace, "add", "a.txt", "src", ".gitignore")
    git(workspace, "-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "one")
    return workspace


def trusted(command: str, workspace: Path, cwd: Path | None = None) -> bool:
    verdict = TRUST.judge(command, cwd=str(cwd or workspace), workspace=str(workspace))
    assert verdict.trusted or verdict.reason
    return verdict.trusted


def missed(workspace: Path, *classes: str) -> list[str]:
    rows = [row["command"] for row in COMMANDS if row["label"] == "must_ask" and row["class"] in classes]
    assert rows
    return [command for command in rows if trusted(command, workspace)]


@pytest.mark.spec("flint/policy-unless-trusted")
def test_no_dangerous_command_is_trusted(workspace: Path) -> None:
    assert missed(workspace, *{row["class"] for row in COMMANDS if row["label"] == "must_ask"}) == []


@pytest.mark.spec("flint/policy-unless-trusted")
def test_plain_reading_is_trusted(workspace: Path) -> None:
    core = [row["command"] for row in COMMANDS if row["label"] == "trusted" and row["tier"] == "core"]
    assert len(core) > 140
    assert [command for command in core if not trusted(command, workspace)] == []


@pytest.mark.needs("git")
def test_no_dangerous_command_of_an_agent_is_trusted(repository: Path) -> None:
    dangerous = [row["command"] for row in AGENT_COMMANDS if row["label"] == "must_ask"]
    assert len(dangerous) > 1000
    assert [command for command in dangerous if trusted(command, repository)] == []


@pytest.mark.needs("git")
def test_what_agents_run_to_look_around_is_not_asked_about(repository: Path) -> None:
    plain = [row["command"] for row in AGENT_COMMANDS if row["label"] == "trusted"]
    assert len(plain) > 300
    assert [command for command in plain if not trusted(command, repository)] == []


def test_CMD_1_what_the_shell_would_make_something_else_of_is_asked_about(workspace: Path) -> None:
    assert missed(workspace, "structure", "substitution", "dynamic-word", "redirect", "unparsable") == []


def test_CMD_2_a_dangerous_flag_of_a_harmless_program_is_asked_about(workspace: Path) -> None:
    assert missed(workspace, "flag") == []


def test_CMD_3_builtins_that_evaluate_are_asked_about(workspace: Path) -> None:
    assert missed(workspace, "builtin-exec", "env-prefix") == []


def test_CMD_4_a_file_name_cannot_become_an_option(workspace: Path) -> None:
    (workspace / "--pre=sh").write_text("")
    assert not trusted("rg one *", workspace)
    assert not trusted("rg one --pre=sh", workspace)
    assert not trusted("rg one '--pre=sh'", workspace)
    assert trusted("rg one -- --pre=sh", workspace)


@pytest.mark.parametrize(
    "command", ["uniq a.txt b.txt", "xxd a.txt b.txt", "sort -o b.txt a.txt", "sort a.txt -ob.txt"]
)
def test_CMD_5_an_output_operand_is_asked_about(workspace: Path, command: str) -> None:
    assert not trusted(command, workspace)


@pytest.mark.parametrize("end", ["-fevil.sed", "a.txt -fevil.sed", "'-e1e touch PWNED'"])
def test_CMD_6_a_script_stays_a_script(workspace: Path, end: str) -> None:
    assert trusted("sed -n 1p 1p", workspace)
    assert not trusted(f"sed -n 1p {end}", workspace)


@pytest.mark.needs("bwrap", "bash")
async def test_CMD_7_what_is_shown_is_what_runs(workspace: Path, tmp_path: Path) -> None:
    """No start file, no exported function, no PATH of the parent's gets between the words and the program."""
    home, marker = tmp_path / "home", tmp_path / "PWNED"
    evil = home / "bin"
    evil.mkdir(parents=True)
    (evil / "cat").write_text(f"#!/bin/sh\ntouch {marker}\n")
    (evil / "cat").chmod(0o755)
    for name in (".bashrc", ".bash_profile", ".profile", "env.sh"):
        (home / name).write_text(f"touch {marker}; cat() {{ touch {marker}; }}; alias cat='touch {marker}'\n")
    environ = {
        "HOME": str(home),
        "PATH": f"{evil}:/usr/bin",
        "BASH_ENV": str(home / "env.sh"),
        "ENV": str(home / "env.sh"),
        "BASH_FUNC_cat%%": f"() {{ touch {marker}; }}",
        "PROMPT_COMMAND": f"touch {marker}",
        "SHELLOPTS": "xtrace",
        "PS4": f"$(touch {marker})",
    }
    sandbox = LocalSandbox(SandboxSettings(), environ=environ)
    done = await run("cat a.txt", workspace, DangerFullAccess(), sandbox=sandbox)
    assert done.text == '{"name": "one"}\n'
    assert not marker.exists()


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("ls\x1b[2K\rcat a", "ls\\x1b[2K\\rcat a"),
        ("echo \u202etxt.exe", "echo \\u202etxt.exe"),
        ("ls\u200b -la", "ls\\u200b -la"),
        ("echo \u3164", "echo \\u3164"),
        ("echo a\u00a0b", "echo a\\xa0b"),
        ("echo \U000e0041", "echo \\U000e0041"),
        ("echo x\ufe0f", "echo x\\ufe0f"),
        ("ls\nrm x", "ls\\nrm x"),
        ("ls" + " " * 10_000 + "; rm -rf x", "ls⟨10000 spaces⟩; rm -rf x"),
        ("echo über 日本語", "echo über 日本語"),
        ("echo \ud800", "echo \\ud800"),
        ("echo \x9b2J", "echo \\x9b2J"),
    ],
)
def test_CMD_8_nothing_in_a_command_is_hidden_from_the_eye(command: str, shown: str) -> None:
    assert visible(command) == shown
    assert "\x1b" not in described(command)


def test_CMD_8_the_length_of_a_long_command_is_shown_and_its_text_is_whole() -> None:
    command = "echo " + "x" * 100_000 + "; rm"
    assert described(command).startswith("[100009 characters] echo x")
    assert described(command).endswith("x; rm")


@pytest.mark.parametrize(
    "command",
    ["./cat a.txt", "PATH=. cat a.txt", "cat() { :; }; cat", "alias cat=x; cat", "hash -p ./evil.sh cat", "Cat"],
)
def test_CMD_10_a_trusted_name_is_the_systems_program(workspace: Path, command: str) -> None:
    assert not trusted(command, workspace)


def test_CMD_11_beyond_its_limits_the_classifier_asks(workspace: Path) -> None:
    assert trusted(";".join(["true"] * 20), workspace)
    for command in (
        ";".join(["true"] * 21),
        ";".join(["true"] * 5000),
        "echo " + "x" * 200_000,
        "echo " + "x" * MAX_BYTES,
        "echo " + "$(" * 9 + "true" + ")" * 9,
        "(" * 40 + "true" + ")" * 40,
    ):
        assert not trusted(command, workspace)


@pytest.mark.parametrize(
    "hostile",
    [
        *("a=(" * 4000, "${" * 8000, "<<a " * 4000, "ls;" * 5000, "(" * 16000, "cd a;" * 500, "cd a&&" * 500),
        *("cat " + "*a" * 8000, "rg " + "[" * 16000, "git log @{" + "}" * 16000, "cat " + "x_secret_" * 1800),
        *("sed 's" + "/" * 16000, "awk '" + "{print $1 " * 1600 + "'", "ls " + "*/" * 8000),
    ],
)
def test_CMD_11_hostile_lines_are_asked_about(workspace: Path, hostile: str) -> None:
    assert not trusted(hostile, workspace)


def test_CMD_11_patterns_that_match_too_much_are_asked_about(workspace: Path) -> None:
    for number in range(1001):
        (workspace / "d" / f"{number}.log").touch()
    assert not trusted("cat d/*.log", workspace)
    assert not trusted("ls */*", workspace)


def test_a_directory_outside_the_workspace_is_asked_about(workspace: Path, tmp_path: Path) -> None:
    assert not trusted("ls", workspace, cwd=tmp_path)
    assert not trusted("ls", workspace, cwd=Path("/"))
    assert trusted("ls ..", workspace, cwd=workspace / "src")
    assert not trusted("ls ../..", workspace, cwd=workspace / "src")


def test_paths_are_followed_as_the_kernel_follows_them(workspace: Path) -> None:
    (workspace / "sub/up").symlink_to("..")
    (workspace / "sub/chain").symlink_to("up/link_to_outside")
    (workspace / "dangling").symlink_to("/nowhere")
    assert trusted("cat sub/up/a.txt", workspace)
    for command in ("cat sub/chain", "cat sub/up/../secrets.txt", "cat dangling", "ls sub/up/dirlink"):
        assert not trusted(command, workspace)


def test_a_classifier_that_fails_asks(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> list[words.SimpleCommand]:
        raise RuntimeError("broken")

    monkeypatch.setattr(words, "read_commands", fail)
    verdict = TRUST.judge("ls", cwd=str(workspace), workspace=str(workspace))
    assert not verdict.trusted
    assert "could not be checked" in verdict.reason


def fingerprint(root: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else str(path.lstat().st_mode)
        for path in sorted(root.rglob("*"))
        if not path.is_symlink()
    }


@pytest.mark.needs("bwrap", "bash", "git")
async def test_trusted_commands_change_nothing_even_where_they_could(repository: Path) -> None:
    """Git refreshes its index where it may; the read-only sandbox keeps it from that."""
    git(repository, "status")
    before = fingerprint(repository)
    every = [row["command"] for row in (*COMMANDS, *AGENT_COMMANDS)]
    commands = [command for command in every if trusted(command, repository)]
    assert len(commands) > 400
    done = await run("\n".join(f"( {command} )" for command in commands) + "\necho all done", repository)
    assert done.text.endswith("all done\n")
    assert fingerprint(repository) == before
