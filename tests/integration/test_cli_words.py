"""What commands print for people: whole words on a narrow terminal, titles that were typed, usable addresses."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_process import Shell, typed

from hames.cli import demo
from hames.cli.own_addresses import own_addresses
from hames.tui.text import NOT_SET_UP


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize(
    "words",
    [["help"], ["help", "run"], ["setup", "--help"], ["serve", "--help"], ["run", "go", "--model", "compatible/x"]],
)
def test_lines_end_between_words(shell: Shell, words: list[str]) -> None:
    narrow, wide = (lasting(typed(shell, words, [], columns=columns)[1]) for columns in (60, 400))
    too_long = [line for line in narrow.splitlines() if len(line) > 60 and " " in line.strip()]
    assert not too_long, too_long
    # A word that was cut would be none of the wide text's words. Each thread has an id of its own.
    narrow, wide = (re.sub(r"ses_\w+", "", text) for text in (narrow, wide))
    assert set(re.findall(r"[a-z]{4,}", narrow)) <= set(re.findall(r"[a-z]{4,}", wide))


def lasting(seen: str) -> str:
    """Without the status line, which is there or not, as long as it takes: it ends where its line is erased."""
    return re.sub(r"[^\n]*\x1b\[2K", "", seen)


def test_the_list_of_threads_fits_the_terminal(shell: Shell) -> None:
    shell.hames("run", "a long prompt with many words " * 5, "--model", "scripted/hello")
    for columns in (60, 80, 140):
        _, seen = typed(shell, ["threads"], [], columns=columns)
        assert all(len(line) <= columns for line in seen.splitlines()), seen
        assert "a long" in seen


def test_models_that_can_be_used_come_first(shell: Shell) -> None:
    rows = shell.hames("models").stdout.splitlines()
    heading = rows.index(NOT_SET_UP)
    names = [row[2:].split()[0] if row.strip() else "" for row in rows]
    assert names.index("scripted/hello") < heading < names.index("anthropic/claude-sonnet-5-5")
    rows = shell.hames("models", ANTHROPIC_API_KEY="sk-ant-x", OPENAI_API_KEY="sk-x").stdout.splitlines()
    assert NOT_SET_UP not in rows


def test_login_status_is_what_login_alone_shows(shell: Shell) -> None:
    assert shell.hames("login", "status").stdout == shell.hames("login").stdout != ""


def test_a_server_for_other_devices_prints_addresses_that_they_can_use(shell: Shell) -> None:
    said = served(shell, "--host", "0.0.0.0", "--token")
    links = [line.split()[-1] for line in said if line.startswith("  page ")]
    for address in own_addresses():
        assert any(link.startswith(f"http://{address}:") and "?token=" in link for link in links), said
    assert any("works once" in line for line in said)
    assert any("plain HTTP" in line for line in said)


def test_a_server_for_this_device_says_how_others_come_in(shell: Shell) -> None:
    said = served(shell)
    assert any("hames serve --host 0.0.0.0 --token" in line for line in said)
    assert sum(line.startswith("  page ") for line in said) == 1


def served(shell: Shell, *words: str) -> list[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "hames", "serve", "--port", "0", "--model", "scripted/hello", *words],
        cwd=shell.workspace,
        env=shell.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    said: list[str] = []
    for line in server.stdout:
        said.append(line.rstrip("\n"))
        if line.startswith("Ctrl+C"):
            break
    server.terminate()
    server.wait(timeout=60)
    server.stdout.close()
    return said


def test_own_addresses_are_addresses_of_other_devices_views() -> None:
    assert all(re.fullmatch(r"\d+\.\d+\.\d+\.\d+", one) and not one.startswith("127.") for one in own_addresses())


def test_the_demo_without_a_sandbox_promises_nothing_that_nobody_enforces() -> None:
    assert "only" not in demo.WITHOUT_SANDBOX
    assert "nothing limits what commands can do" in demo.WITHOUT_SANDBOX


def test_the_title_of_a_thread_is_what_was_typed(shell: Shell) -> None:
    (shell.workspace / "a.txt").write_text("words of a file")
    shell.hames("run", "Fix the failing test @a.txt", "--model", "scripted/hello")
    (thread,) = json.loads(shell.hames("threads", "--json").stdout)
    assert thread["preview"] == "Fix the failing test @a.txt"
