"""THREATS, "Approval and command parsing": what is asked about, what is not, and that what is shown is what runs."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from walls import run

from hames.domain.display import described, visible
from hames.domain.policy import DangerFullAccess
from hames.sandbox.choose import LocalSandbox, Settings
from hames.sandbox.trust import MAX_BYTES, ShellTrust

COMMANDS: list[dict[str, str]] = [
    json.loads(line) for line in Path(__file__).with_name("commands.jsonl").read_text().splitlines()
]
FILES = (
    "a.txt",
    "b.txt",
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
    return here


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


@pytest.mark.parametrize("words", ["status", "diff", "ls-files", "blame a.txt", "describe", "log", "--version"])
def test_CMD_GIT_1_to_5_git_is_asked_about_because_its_helpers_run_programs(workspace: Path, words: str) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git/config").write_text("[core]\n\tfsmonitor = touch PWNED\n")
    assert not trusted(f"git {words}", workspace)
    assert not trusted(f"cd sub && git {words}", workspace)


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
    sandbox = LocalSandbox(Settings(), environ=environ)
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


@pytest.mark.parametrize("hostile", ["a=(" * 4000, "${" * 8000, "<<a " * 4000, "ls;" * 5000, "(" * 16000])
def test_CMD_11_lines_that_would_keep_the_parser_busy_never_reach_it(workspace: Path, hostile: str) -> None:
    unused = ShellTrust()
    assert not unused.judge(hostile, cwd=str(workspace), workspace=str(workspace)).trusted
    assert unused._parser is None


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
    broken = ShellTrust()

    def fail(_: bytes) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(broken, "_parse", fail)
    verdict = broken.judge("ls", cwd=str(workspace), workspace=str(workspace))
    assert not verdict.trusted
    assert "could not be judged" in verdict.reason


def fingerprint(root: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else str(path.lstat().st_mode)
        for path in sorted(root.rglob("*"))
        if not path.is_symlink()
    }


@pytest.mark.needs("bwrap", "bash")
async def test_trusted_commands_change_nothing_even_where_they_could(workspace: Path) -> None:
    before = fingerprint(workspace)
    commands = [row["command"] for row in COMMANDS if trusted(row["command"], workspace)]
    done = await run("\n".join(f"( {command} )" for command in commands) + "\necho all done", workspace)
    assert done.text.endswith("all done\n")
    assert fingerprint(workspace) == before
