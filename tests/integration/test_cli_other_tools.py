"""People who come from other agents: their words are understood, or refused with what to type instead."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cli_process import Shell

from hames.cli import other_tools
from hames.cli.main import COMMANDS


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def config(shell: Shell, text: str) -> None:
    (shell.folder / "config.toml").write_text(text)


def servers(shell: Shell) -> dict[str, Any]:
    return tomllib.loads((shell.folder / "config.toml").read_text()).get("mcp_servers", {})


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-p", "hi"], "hames: unknown option '-p'. Use hames run \"PROMPT\"\n"),
        (["--print", "hi"], "hames: unknown option '--print'. Use hames run \"PROMPT\"\n"),
        (["--resume", "abc"], "'--resume'. Use --continue for the last thread, or --thread ID;"),
        (["--full-auto", "hi"], "'--full-auto'. Use --approval-policy never"),
        (["--yolo"], "'--yolo'. Use --approval-policy never --sandbox dangerFullAccess"),
        (["--dangerously-skip-permissions"], "Use --approval-policy never"),
        (["--dangerously-bypass-approvals-and-sandbox"], "Use --approval-policy never --sandbox dangerFullAccess"),
        (
            ["run", "hi", "--output-format", "json"],
            "hames run: unknown option '--output-format'. Use hames run --json",
        ),
        (["run", "hi", "--allowedTools=Bash"], "unknown option '--allowedTools'. Use --sandbox readOnly"),
        (["run", "--profile", "fast", "hi"], "'--profile'. Use HAMES_CONFIG=FILE"),
        (["run", "--search", "hi"], "Use --option web_search=on"),
        (["run", "-i", "a.png", "hi"], "Use --image FILE"),
        (["--last"], "Use --continue"),
        (["run", "--skip-git-repo-check", "hi"], "Leave it out: hames runs in any directory"),
        (["e", "hi"], "hames: no command 'e'; use hames exec \"PROMPT\"\n"),
        (["resume"], "hames: no command 'resume'; use hames --continue"),
        (["review"], "use /review in the terminal"),
        (["fork", "x"], "use hames threads fork ID"),
        (["archive", "x"], "use hames threads archive ID"),
        (["--bogus", "x"], "hames: unknown option '--bogus'; hames help tui lists the options\n"),
        (["run", "--bogus=3", "x"], "hames run: unknown option '--bogus'; hames run --help lists the options\n"),
        (["doctor", "now"], "hames doctor: 'now' is an unexpected argument"),
        (["run", "fix", "the", "tests"], "hames run: put the prompt in quotes: hames run 'fix the tests'\n"),
        (["run", "-o", "last.txt", "hi"], "--output-last-message last.txt"),
        (["run", "hi", "-a", "on-failure"], "The nearest is onRequest"),
        (["run", "hi", "-a", "sometimes"], "it must be one of never, onRequest, unlessTrusted, always"),
        (["-c", "model=gpt-5"], "-c continues the last thread and takes no settings. Use --model gpt-5\n"),
        (["run", "-c", "sandbox_mode=read-only", "hi"], "takes no settings. Use --sandbox read-only\n"),
        (["run", "-c", "a.b=1"], "takes no settings. Use config.toml for other settings\n"),
        (["run", "approval_policy=never"], "is not a prompt. Use --approval-policy never\n"),
        (["model=gpt-5"], "Use --model gpt-5\n"),
    ],
)
def test_words_of_other_tools_get_one_sentence(shell: Shell, words: list[str], sentence: str) -> None:
    done = shell.hames(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "usage" not in done.stderr
    assert "tui:" not in done.stderr


def test_a_pointer_never_names_a_word_that_is_ours() -> None:
    assert not set(other_tools.COMMANDS) & set(COMMANDS)


def test_short_flags_and_other_spellings_mean_the_same(shell: Shell) -> None:
    (shell.workspace / "below").mkdir()
    words = ("-m", "scripted/hello", "-s", "read-only", "-a", "untrusted", "-C", "below")
    told = json.loads(shell.hames("run", "hi", "--json", *words).stdout.splitlines()[0])
    assert (told["model"], told["approvalPolicy"], told["sandbox"]["type"]) == (
        "scripted/hello",
        "unlessTrusted",
        "readOnly",
    )
    assert told["cwd"] == str(shell.workspace / "below")
    for sandbox in ("workspace-write", "danger-full-access", "workspace_write", "DangerFullAccess"):
        assert shell.hames("config", HAMES_SANDBOX=sandbox).returncode == 0
    config(shell, 'sandbox = { type = "workspace-write", network_access = true }\napproval_policy = "unless-trusted"\n')
    rows = {row["name"]: row["value"] for row in json.loads(shell.hames("config", "--json").stdout)}
    assert rows["approval_policy"] == "unlessTrusted"
    assert shell.hames("config", "--cd", "below").returncode == 0


def test_the_final_message_can_go_to_a_file(shell: Shell) -> None:
    file = shell.folder / "last.txt"
    model = shell.script([{"say": "First."}, {"call": "glob", "with": {"pattern": "*"}}], "All done.")
    done = shell.hames("run", "go", "--model", model, "--output-last-message", str(file))
    assert (done.returncode, file.read_text()) == (0, "All done.\n")


def test_quiet_is_nothing_but_the_final_message(shell: Shell) -> None:
    model = shell.script([{"say": "First."}, {"call": "glob", "with": {"pattern": "*"}}], "All done.")
    done = shell.hames("run", "go", "-q", "--model", model)
    assert (done.returncode, done.stdout, done.stderr) == (0, "All done.\n", "")


@pytest.mark.parametrize(
    ("words", "server"),
    [
        (["files", "npx", "-y", "x", "--env", "A=B"], {"command": "npx", "args": ["-y", "x", "--env", "A=B"]}),
        (["files", "--env", "A=B", "--", "npx", "-y", "x"], {"command": "npx", "args": ["-y", "x"], "env": {"A": "B"}}),
        (["-e", "A=B", "-e", "C=D=E", "files", "npx"], {"command": "npx", "env": {"A": "B", "C": "D=E"}}),
        (["files", "-e", "A=B", "--", "npx", "--", "x"], {"command": "npx", "args": ["--", "x"], "env": {"A": "B"}}),
        (["files", "--url", "https://h/mcp"], {"url": "https://h/mcp"}),
        (["files", "https://h/mcp"], {"url": "https://h/mcp"}),
        (["--transport", "http", "files", "https://h/mcp"], {"url": "https://h/mcp"}),
        (["--transport=http", "files", "https://h/mcp"], {"url": "https://h/mcp"}),
        (
            ["-t", "http", "files", "https://h/mcp", "--header", "K: V"],
            {"url": "https://h/mcp", "headers": {"K": "V"}},
        ),
        (
            ["-t", "http", "files", "--header", "Authorization: Bearer x:y", "https://h/mcp"],
            {"url": "https://h/mcp", "headers": {"Authorization": "Bearer x:y"}},
        ),
        (["-s", "user", "files", "-t", "stdio", "--", "npx"], {"command": "npx"}),
        (["files", "--", "npx", 'a "quoted" 😀'], {"command": "npx", "args": ['a "quoted" 😀']}),
    ],
)
def test_mcp_add_understands_the_forms_of_other_tools(shell: Shell, words: list[str], server: dict[str, Any]) -> None:
    done = shell.hames("mcp", "add", *words)
    assert (done.returncode, servers(shell).get("files")) == (0, server), done.stderr


def test_a_server_that_was_added_is_listed_not_added_again_and_removed(shell: Shell) -> None:
    words = ("mcp", "add", "files", "--env", "A=B", "--", "npx", 'a "quoted" 😀')
    assert shell.hames(*words).returncode == 0
    assert shell.hames("mcp", "list", "--no-check").returncode == 0
    again = shell.hames(*words)
    assert (again.returncode, "already" in again.stderr) == (2, True)
    assert shell.hames("mcp", "rm", "files").returncode == 0
    assert servers(shell) == {}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["files"], "name a program to start, or an address"),
        ([], "name the server and the program"),
        (["files", "--wat", "npx"], "has no option '--wat'. If it belongs to the program, put -- before the program"),
        (["files", "--env"], "--env needs a value"),
        (["files", "--env", "A", "--", "npx"], "write --env as NAME=VALUE, not 'A'"),
        (["--transport", "sse", "files", "https://h/sse"], "the transport sse is not supported"),
        (["--transport", "pigeon", "files", "npx"], "unknown transport 'pigeon'"),
        (["--transport", "http", "files"], "the address is missing"),
        (["--transport", "http", "files", "npx"], "is not an address"),
        (["-s", "project", "files", "npx"], ".mcp.json, which is used after `hames trust`"),
        (["-s", "local", "files", "npx"], "leave out --scope"),
        (["files", "--header", "K: V", "--", "npx"], "--header is only for addresses"),
        (["files", "--env", "A=B", "https://h/mcp"], "for an address use --header"),
        (["files", "--bearer-token-env-var", "T", "https://h/mcp"], "--header"),
        (["files", "--url", "https://h/mcp", "npx"], "'npx' is one argument too many"),
        (["bad name", "npx"], "'bad name' is not a valid server name"),
    ],
)
def test_what_mcp_add_cannot_do_is_refused_and_nothing_is_written(
    shell: Shell, words: list[str], sentence: str
) -> None:
    done = shell.hames("mcp", "add", *words)
    assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr
    assert not (shell.folder / "config.toml").exists()


def test_mcp_get_shows_the_settings_without_secrets_and_the_state(shell: Shell) -> None:
    assert (
        shell.hames(
            "mcp", "add", "files", "-e", "TOKEN=secret-1", "--", "no-such-program", "--api-key", "k2"
        ).returncode
        == 0
    )
    shown = shell.hames("mcp", "get", "files").stdout
    assert "no-such-program" in shown
    assert "failed" in shown
    assert "secret-1" not in shown
    assert "k2" not in shown
    missing = shell.hames("mcp", "get", "nobody")
    assert (missing.returncode, "hames mcp list shows the configured ones" in missing.stderr) == (2, True)
