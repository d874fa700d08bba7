"""Completions, pressed out of the shells they are for: flags, their values, and what is looked up while one types."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_process import Shell

from hames.cli.completion import SHELLS, completion_script, every_command
from hames.cli.main import COMMANDS

SECONDS = 30
CASES = [
    (["th"], "threads"),
    (["threads", "unar"], "unarchive"),
    (["run", "--output-s"], "--output-schema"),
    (["tui", "--theme", "l"], "light"),
    (["--them"], "--theme"),
    (["--theme", "l"], "light"),
    (["run", "--model", "scripted/h"], "scripted/hello"),
    (["run", "--sandbox", "r"], "readOnly"),
    (["run", "--approval-policy", "u"], "unlessTrusted"),
    (["serve", "--agent", "c"], "codex"),
    (["run", "--option", "agent=pl"], "agent=plan"),
    (["threads", "show", "ses_"], "THREAD"),
    (["run", "--thread", "ses_"], "THREAD"),
    (["mcp", "test", "fi"], "files"),
]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A workspace with one thread, and one MCP server."""
    made = Shell(tmp_path)
    made.environment["PATH"] = f"{Path(sys.executable).parent}:{made.environment['PATH']}"
    made.environment["TERM"] = "dumb"
    made.hames("run", "hi", "--model", "scripted/hello")
    made.hames("mcp", "add", "files", "true")
    for name in SHELLS:
        (tmp_path / f"completions.{name}").write_text(completion_script(name) + "\n")
    return made


def bash(shell: Shell, typed: list[str]) -> str:
    line = " ".join(["hames", *typed])
    program = (
        f"source {shell.folder / 'completions.bash'}; COMP_WORDS=({line}); COMP_CWORD={len(typed)}; _shtab_hames; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return _output(shell, "bash", "-c", program)


def fish(shell: Shell, typed: list[str]) -> str:
    line = " ".join(["hames", *typed])
    found = _output(shell, "fish", "-c", f"source {shell.folder / 'completions.fish'}; complete -C '{line}'")
    return "\n".join(row.split("\t")[0] for row in found.splitlines())


def zsh(shell: Shell, typed: list[str]) -> str:
    """What stands on the line after Tab, in a shell somebody sits at."""
    line = " ".join(["hames", *typed])
    master, slave = pty.openpty()
    child = subprocess.Popen(
        ["zsh", "-f", "-i"], cwd=shell.workspace, env=shell.environment, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    try:
        os.write(master, b"PS1=; unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -d $HOME/dump\n")
        os.write(master, f"source {shell.folder / 'completions.zsh'}; echo rea''dy\n".encode())
        _until(master, "ready\r\n")
        os.write(master, f"{line}\t".encode() + b"\x01 echo 'got:\x05'\n")
        return _until(master, r"\r\ngot:hames[^\n]*\n").split()[-1]
    finally:
        child.kill()
        child.wait()
        os.close(master)


def _until(terminal: int, pattern: str) -> str:
    seen, until = "", time.monotonic() + SECONDS
    while (found := re.search(pattern, seen)) is None:
        assert select.select([terminal], [], [], max(0, until - time.monotonic()))[0], seen
        seen += os.read(terminal, 4096).decode(errors="replace")
    return found[0]


def _output(shell: Shell, *words: str) -> str:
    done = subprocess.run(
        words, cwd=shell.workspace, env=shell.environment, capture_output=True, text=True, check=True, timeout=SECONDS
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "press",
    [
        pytest.param(bash, marks=pytest.mark.needs("bash")),
        pytest.param(zsh, marks=pytest.mark.needs("zsh")),
        pytest.param(fish, marks=pytest.mark.needs("fish")),
    ],
)
def test_a_shell_completes_commands_flags_and_their_values(
    shell: Shell, press: Callable[[Shell, list[str]], str]
) -> None:
    (thread,) = [path.name for path in (shell.workspace / ".harness" / "threads").iterdir()]
    found = {" ".join(typed): press(shell, typed) for typed, _ in CASES}
    assert found == {" ".join(typed): thread if word == "THREAD" else word for typed, word in CASES}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.needs(name)) for name in SHELLS])
def test_a_shell_accepts_its_completions(tmp_path: Path, name: str) -> None:
    path = tmp_path / "completions"
    path.write_text(completion_script(name))
    checked = subprocess.run([name, "-n", str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_completions_know_every_command_and_flag() -> None:
    scripts = [completion_script(name) for name in SHELLS]
    for script in scripts:
        assert all(name in script for name in COMMANDS)
    for action in every_command()._actions:
        for flag in action.option_strings:
            assert all(flag.lstrip("-") in script for script in scripts)


def test_what_writes_completions_is_not_imported_by_other_commands() -> None:
    code = "import sys; from hames.cli.main import main; main(['--version']); sys.exit('shtab' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, timeout=SECONDS, capture_output=True).returncode == 0
    )


def test_with_a_broken_configuration_there_is_nothing_to_offer_and_no_noise(shell: Shell) -> None:
    (shell.folder / "config.toml").write_text("model = ")
    done = shell.hames("completion", "--values", "models")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
