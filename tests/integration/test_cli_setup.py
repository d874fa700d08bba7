"""From an installed package to a first prompt: `hames setup`, `hames login`, `hames help`, `hames "PROMPT"`."""

import json
import os
import pty
import select
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from cli_process import SECONDS, Shell, typed

from model_server import model_server

KEY = "sk-ant-right"


@pytest.fixture
def shell(tmp_path: Path) -> Generator[Shell]:
    """Anthropic's service is one of our own, for whoever has the key."""
    with model_server("claude-sonnet-5-5", key=KEY) as url:
        found = Shell(tmp_path)
        found.environment["ANTHROPIC_BASE_URL"] = url
        found.environment["HAMES_CONFIG"] = str(tmp_path / "config" / "config.toml")
        yield found


def credentials(shell: Shell) -> Path:
    return shell.folder / "config" / "credentials.json"


def test_a_key_from_stdin_is_tested_saved_for_this_user_alone_and_used(shell: Shell) -> None:
    refused = shell.hames("login", "anthropic", stdin="sk-ant-wrong\n")
    assert refused.returncode == 1
    assert "was not saved" in refused.stderr
    assert not credentials(shell).exists()

    saved = shell.hames("login", "anthropic", stdin=f"{KEY}\n")
    assert (saved.returncode, str(credentials(shell)) in saved.stdout) == (0, True), saved.stderr
    assert stat.S_IMODE(credentials(shell).stat().st_mode) == 0o600
    assert stat.S_IMODE(credentials(shell).parent.stat().st_mode) == 0o700
    assert KEY not in saved.stdout + saved.stderr
    assert shell.hames("models", "--refresh").returncode == 0
    assert "anthropic: 1 models" in shell.hames("models", "--refresh").stderr

    listed = shell.hames("login").stdout
    assert f"anthropic    saved in {credentials(shell)}" in listed
    assert "openai       no key" in listed
    shown = json.loads(shell.hames("config", "--json").stdout)
    origin = {row["name"]: row["origin"] for row in shown}["ANTHROPIC_API_KEY"]
    assert origin == str(credentials(shell))

    assert shell.hames("login", "anthropic", "--remove").returncode == 0
    assert "anthropic    no key" in shell.hames("login").stdout


def test_a_key_in_the_environment_comes_before_a_saved_one(shell: Shell) -> None:
    assert shell.hames("login", "anthropic", "--no-test", stdin="sk-ant-old\n").returncode == 0
    assert "anthropic: 1 models" in shell.hames("models", "--refresh", ANTHROPIC_API_KEY=KEY).stderr
    assert "anthropic: 1 models" not in shell.hames("models", "--refresh").stderr


def test_a_keyring_holds_the_key_where_there_is_one(shell: Shell) -> None:
    backend = {"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring"}
    saved = shell.hames("login", "anthropic", stdin=f"{KEY}\n", **backend)
    assert (saved.returncode, "the keyring" in saved.stdout) == (0, True), saved.stderr
    assert KEY not in credentials(shell).read_text()
    assert "anthropic: 1 models" in shell.hames("models", "--refresh", **backend).stderr
    # Without the keyring the key is simply not there, and nothing fails.
    assert shell.hames("login").returncode == 0
    assert "anthropic: 1 models" not in shell.hames("models", "--refresh").stderr


@pytest.mark.parametrize("key", ["", "two words", "naïve", "with\ttab"])
def test_what_cannot_be_a_key_is_refused(shell: Shell, key: str) -> None:
    refused = shell.hames("login", "anthropic", "--no-test", stdin=f"{key}\n")
    assert refused.returncode == 2
    assert not credentials(shell).exists()


def test_setup_asks_for_a_provider_a_key_and_a_model_and_proves_the_sandbox(shell: Shell) -> None:
    config = shell.folder / "config" / "config.toml"
    config.parent.mkdir()
    config.write_text("# mine\nmax_steps = 7\n\n[providers.openai]\nbase_url = 'http://127.0.0.1:9/v1'\n")
    answers = [
        ("Number or name [1]:", "1"),
        ("API key of anthropic", "sk-ant-wrong"),
        ("API key of anthropic", KEY),  # at once: what is pasted into a question would be shown
        ("Model [", "1"),
        ("Install completion for bash", "y"),
    ]
    shell.environment["SHELL"] = "/bin/bash"
    code, seen = typed(shell, ["setup"], answers, columns=60)
    assert "The key is saved" in seen, seen
    assert "refused the key" in seen and "hames login" not in seen, "the key is asked for again, here"
    assert "Install completion for bash into\r\n/" in seen, "broken between words"
    assert "sk-ant" not in seen
    assert "The sandbox works" in seen
    assert (code, "Ready." in seen) == (0, True)
    completion = shell.folder / ".local/share/bash-completion/completions/hames"
    assert completion.read_text() == shell.hames("completion", "bash").stdout
    written = config.read_text()
    assert written.startswith("# mine\nmax_steps = 7\n")
    assert 'model = "anthropic/' in written.partition("[providers")[0]
    chosen = {row["name"]: row["value"] for row in json.loads(shell.hames("config", "--json").stdout)}["model"]
    assert chosen.startswith("anthropic/")


def test_setup_without_a_terminal_takes_everything_from_the_command_line(shell: Shell) -> None:
    assert shell.hames("setup").returncode == 2
    done = shell.hames("setup", "--provider", "anthropic", "--no-sandbox-check", stdin=f"{KEY}\n")
    assert (done.returncode, "Ready." in done.stdout) == (0, True), done.stdout + done.stderr
    refused = shell.hames("setup", "--provider", "anthropic", "--no-sandbox-check", ANTHROPIC_API_KEY="sk-ant-wrong")
    assert (refused.returncode, "comes from ANTHROPIC_API_KEY in the environment" in refused.stdout) == (1, True)
    unknown = shell.hames("setup", "--provider", "nobody")
    assert (unknown.returncode, "unknown provider 'nobody'" in unknown.stderr) == (2, True)


@pytest.mark.parametrize("words", [["help"], ["--help"], ["-h"]])
def test_help_lists_every_command(shell: Shell, words: list[str]) -> None:
    done = shell.hames(*words)
    assert done.returncode == 0
    assert all(f"\n  {name}" in done.stdout for name in ("setup", "run", "serve", "login", "help"))


def test_help_explains_one_command(shell: Shell) -> None:
    assert shell.hames("help", "run").stdout == shell.hames("run", "--help").stdout
    assert "did you mean hames threads?" in shell.hames("help", "thread").stderr


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_is_shown(shell: Shell, flag: str) -> None:
    from hames import __version__

    assert shell.hames(flag).stdout == f"hames {__version__}\n"


def test_several_words_are_a_prompt_where_there_is_no_terminal(shell: Shell) -> None:
    done = shell.hames("Say something nice", HAMES_MODEL=shell.script("Nice."))
    assert (done.returncode, done.stdout) == (0, "Nice.\n")


def test_several_words_are_a_prompt_in_the_terminal(shell: Shell) -> None:
    shell.environment["HAMES_MODEL"] = shell.script("Nicely answered.")
    main, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hames", "Say something nice"],
        cwd=shell.workspace,
        stdin=other,
        stdout=other,
        stderr=other,
        env={**shell.environment, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(other)
    seen = b""
    deadline = time.monotonic() + SECONDS
    try:
        while b"answered." not in seen and time.monotonic() < deadline:
            if select.select([main], [], [], 0.5)[0]:
                seen += os.read(main, 65536)
        assert b"answered." in seen
    finally:
        process.kill()
        process.wait()
        os.close(main)
