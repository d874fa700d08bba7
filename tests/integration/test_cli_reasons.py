"""Whatever was refused, failed, skipped or ignored says why: on the screen, in `hames run` and in `--json`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_process import Shell

from hames.sandbox.walls.probe import candidates

LEAVES = {
    "call": "shell",
    "with": {"command": "touch /tmp/out", "unsandboxed": True, "justification": "it must be outside"},
}
MISSING = {"call": "read", "with": {"path": "missing.txt"}}
SKIPPED = "skipped: an earlier call of the same reply failed"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def items(text: str, kind: str = "item.completed") -> list[dict[str, Any]]:
    return [event["item"] for event in events(text) if event["type"] == kind]


def test_a_refused_command_says_why_in_run_and_json(shell: Shell) -> None:
    words = ("run", "go", "--approval-policy", "never", "--model", shell.script([LEAVES], "I see."))
    shown = shell.hames(*words)
    assert shown.returncode == 0, shown.stderr
    (line,) = [line for line in shown.stderr.splitlines() if "✗" in line]
    assert "failed: " in line
    assert "approvals are off (`never`)" in line
    told = items(shell.hames(*words, "--json").stdout)
    (command,) = [item for item in told if item["type"] == "commandExecution"]
    assert command["status"] == "failed"
    assert "approvals are off (`never`)" in command["reason"]
    assert command["aggregatedOutput"] == ""


@pytest.mark.needs("bwrap")
def test_on_a_machine_without_a_sandbox_a_command_says_why_in_run_and_json(shell: Shell) -> None:
    # As in a container that may not make namespaces: inside, no sandbox can be set up.
    closed = [candidates()[0], "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]
    model = shell.script([{"call": "shell", "with": {"command": "ls"}}], "I see.")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*closed, sys.executable, "-m", "hames", "run", "go", "--model", model, *words]
        return subprocess.run(
            command,
            cwd=shell.workspace,
            env=shell.environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    (line,) = [line for line in run().stderr.splitlines() if "✗" in line]
    assert line.strip().startswith("✗ failed: not started: no sandbox: ")
    (command,) = [item for item in items(run("--json").stdout) if item["type"] == "commandExecution"]
    assert command["status"] == "failed"
    assert command["reason"].startswith("not started: no sandbox: ")
    assert "start it with" in command["reason"], "what to do about it"


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (MISSING, "missing.txt"),
        ({"call": "edit", "with": {"path": "missing.txt", "old_string": "a", "new_string": "b"}}, "missing.txt"),
        ({"call": "grep", "with": {"pattern": "("}}, "regex"),
        ({"call": "no_such_tool", "with": {}}, "there is no tool 'no_such_tool'"),
        ({"call": "read", "with": {"path": {"a": 3}}}, "the arguments are not valid"),
    ],
)
def test_a_failed_tool_says_why_in_one_line_of_run(shell: Shell, call: dict[str, Any], why: str) -> None:
    words = ("run", "go", "--approval-policy", "never", "--model", shell.script([call], "I see."))
    shown = shell.hames(*words)
    (line,) = [line for line in shown.stderr.splitlines() if "✗" in line]
    assert line.strip().startswith("✗ failed: ")
    assert why in line
    (item,) = [item for item in items(shell.hames(*words, "--json").stdout) if item["type"] == "toolCall"]
    assert why in item["reason"]


def test_a_reason_of_many_lines_is_one_line_and_cannot_paint_the_terminal(shell: Shell) -> None:
    name = "a\nb\x1b[31mred"
    done = shell.hames("run", "go", "--model", shell.script([{"call": "read", "with": {"path": name}}], "I see."))
    (line,) = [line for line in done.stderr.splitlines() if "✗" in line]
    assert "red" in line
    assert "\x1b" not in done.stderr


def test_calls_after_a_failed_one_are_shown_as_skipped(shell: Shell) -> None:
    calls = [MISSING, {"call": "shell", "with": {"command": "echo never"}}, {"call": "glob", "with": {"pattern": "*"}}]
    words = ("run", "go", "--approval-policy", "never", "--model", shell.script(calls, "I see."))
    shown = shell.hames(*words)
    assert [line.strip() for line in shown.stderr.splitlines() if "skipped" in line] == [f"– {SKIPPED}"] * 2
    assert "· shell command=echo never" in shown.stderr
    out = shell.hames(*words, "--json").stdout
    skipped = [item for item in items(out) if item.get("outcome") == "skipped"]
    assert [(item["type"], item["name"], item["status"], item["reason"]) for item in skipped] == [
        ("toolCall", "shell", "failed", SKIPPED),
        ("toolCall", "glob", "failed", SKIPPED),
    ]
    started = [item["id"] for item in items(out, "item.started")]
    assert [started.count(item["id"]) for item in skipped] == [1, 1]
    assert [[item["id"] for item in items(out)].count(item["id"]) for item in skipped] == [1, 1]


def test_the_skipped_calls_are_in_the_thread_when_it_is_read_again(shell: Shell) -> None:
    calls = [MISSING, {"call": "shell", "with": {"command": "echo never"}}]
    shell.hames("run", "go", "--approval-policy", "never", "--model", shell.script(calls, "I see."))
    thread = json.loads(shell.hames("threads", "show", "last", "--json").stdout)
    kinds = [(item["type"], item.get("outcome"), item.get("reason")) for item in thread["turns"][0]["items"]]
    assert ("toolCall", "skipped", SKIPPED) in kinds
    page = shell.hames("threads", "export", "last").stdout
    assert SKIPPED in page
    assert "missing.txt" in page


IGNORED = "hames.toml is ignored because this project is not trusted. Run `hames trust`"


def test_an_ignored_configuration_file_is_mentioned_in_run_and_json(shell: Shell) -> None:
    (shell.workspace / "hames.toml").write_text('model = "scripted/evil"\n')
    model = shell.script("Done.")
    shown = shell.hames("run", "go", "--model", model)
    assert (shown.returncode, shown.stdout) == (0, "Done.\n")
    assert f"! {IGNORED}" in shown.stderr.splitlines()
    told = events(shell.hames("run", "go", "--json", "--model", model).stdout)
    assert [event["message"] for event in told if event["type"] == "warning"] == [IGNORED]
    quiet = shell.hames("run", "go", "--quiet", "--model", model)
    assert quiet.stderr == ""
    shell.hames("trust")
    again = shell.hames("run", "go", "--model", model)
    assert "is ignored" not in again.stderr


def test_two_ignored_files_are_one_sentence_and_a_changed_one_says_so(shell: Shell) -> None:
    (shell.workspace / "hames.toml").write_text("max_steps = 3\n")
    (shell.workspace / ".mcp.json").write_text('{"mcpServers": {}}')
    model = shell.script("Done.")
    words = "are ignored because this project is not trusted. Run `hames trust`"
    assert f"! .mcp.json and hames.toml {words}" in shell.hames("run", "go", "--model", model).stderr
    shell.hames("trust")
    (shell.workspace / "hames.toml").write_text("max_steps = 4\n")
    changed = shell.hames("run", "go", "--model", model).stderr
    assert "are ignored because this project has changed since it was trusted. Run `hames trust`" in changed


@pytest.mark.parametrize("kind", ["link", "directory", "too large"])
def test_a_configuration_file_that_cannot_be_used_says_why(shell: Shell, kind: str) -> None:
    file = shell.workspace / "hames.toml"
    match kind:
        case "link":
            (shell.workspace / "real.toml").write_text("max_steps = 3\n")
            file.symlink_to("real.toml")
        case "directory":
            file.mkdir()
        case _:
            file.write_text("#" * (1 << 20) + "\nmax_steps = 3\n")
    why = {"link": "it is a link", "directory": "it is not a regular file", "too large": "it is larger than"}[kind]
    shown = shell.hames("run", "go", "--model", shell.script("Done.")).stderr
    assert f"! hames.toml is ignored because {why}" in shown
    assert f"hames.toml is ignored because {why}" in shell.hames("config").stdout
    rows = json.loads(shell.hames("doctor", "--json").stdout)
    assert any(f"hames.toml is ignored because {why}" in row["says"] for row in rows)


def test_doctor_and_serve_say_that_a_project_is_not_trusted(shell: Shell) -> None:
    (shell.workspace / "hames.toml").write_text('model = "scripted/evil"\n')
    rows = json.loads(shell.hames("doctor", "--json").stdout)
    assert [row["says"] for row in rows if row["name"] == "project"] == [IGNORED]
    server = shell.start("serve", "--port", "0", "--model", "scripted/hello")
    assert server.stdout is not None
    lines = []
    for line in server.stdout:
        lines.append(line.strip())
        if line.startswith("Ctrl+C"):
            break
    server.terminate()
    server.communicate(timeout=30)
    assert f"warning    {IGNORED}" in lines


def test_an_unknown_key_lists_every_known_one(shell: Shell) -> None:
    (shell.folder / "config.toml").write_text('provider = "x"\n')
    done = shell.hames("config")
    assert done.returncode == 2
    assert "Did you mean 'providers'?" in done.stderr
    for name in ("model", "approval_policy", "mcp_servers", "providers", "search_command"):
        assert name in done.stderr.partition("The keys are: ")[2]


def test_an_unknown_key_of_an_mcp_server_lists_every_known_one(shell: Shell) -> None:
    (shell.folder / "config.toml").write_text('[mcp_servers.files]\ncommand = "x"\nstartup_timeout = 3\n')
    done = shell.hames("config")
    assert done.returncode == 2
    assert "sets 'startup_timeout' in mcp_servers.files, which is not a known key" in done.stderr
    named = " ".join(done.stderr.split())
    for key in ("args", "command", "enabled", "enabled_tools", "env", "headers", "startup_timeout_sec", "url"):
        assert f"{key}," in named or f"{key}\n" in done.stderr, key


def test_a_flag_that_does_not_go_with_attach_is_refused_in_words(shell: Shell) -> None:
    done = shell.hames("app-server", "--attach", "--model", "scripted/hello")
    assert done.returncode == 2
    assert "--model can't be used with --attach; the running server sets it" in done.stderr


def test_trust_is_explained_in_the_help(shell: Shell) -> None:
    assert "allow this project's own configuration" in shell.hames("--help").stdout
    assert "obeyed" not in shell.hames("trust", "--help").stdout


def test_unarchive_last_takes_the_newest_archived_thread(shell: Shell) -> None:
    model = shell.script("One.", "Two.", "Three.")
    first, second, third = (
        events(shell.hames("run", word, "--json", "--model", model).stdout)[0]["threadId"] for word in "abc"
    )
    assert shell.hames("threads", "unarchive", "last").returncode == 1
    shell.hames("threads", "archive", first)
    shell.hames("threads", "archive", second)
    done = shell.hames("threads", "unarchive", "last")
    assert (done.returncode, done.stdout) == (0, f"unarchived {second}\n")
    assert [row["id"] for row in json.loads(shell.hames("threads", "--json", "--archived").stdout)] == [first]
    assert {row["id"] for row in json.loads(shell.hames("threads", "--json").stdout)} == {second, third}
    assert shell.hames("threads", "unarchive", third).stderr.strip().endswith(f"thread {third!r} is not archived")


def test_threads_are_listed_in_columns(shell: Shell) -> None:
    model = shell.script("One.", "Two.")
    for prompt in ("a", "a much longer prompt than the other"):
        shell.hames("run", prompt, "--model", model)
    rows = shell.hames("threads").stdout.splitlines()
    assert len({row.index(model) for row in rows}) == 1, rows


@pytest.mark.parametrize(
    ("info", "step"),
    [
        ("Unauthorized", "hames config"),
        ("ModelNotFound", "hames models"),
        ("UsageLimitExceeded", "--model"),
        ("ContextWindowExceeded", "/compact"),
        ("SandboxError", "hames doctor"),
        ("Other", "hames run --thread {thread} PROMPT"),
    ],
)
def test_a_failed_turn_names_the_next_step(shell: Shell, info: str, step: str) -> None:
    model = shell.script(
        [{"fail": "the service said no", "info": info}], [{"fail": "the service said no", "info": info}]
    )
    shown = shell.hames("run", "go", "--model", model)
    assert shown.returncode == 1
    failed, hint = shown.stderr.splitlines()[-2:]
    assert failed == "failed: the service said no"
    thread = json.loads(shell.hames("threads", "--json").stdout)[0]["id"]
    assert step.format(thread=thread) in hint
    result = events(shell.hames("run", "go", "--json", "--model", model).stdout)[-1]
    assert result["error"] == "the service said no"
    assert step.partition(" {")[0].split(" --thread")[0] in result["hint"]


def test_a_missing_key_names_the_variable_and_how_to_go_on(shell: Shell) -> None:
    shown = shell.hames("run", "go", "--model", "anthropic/claude-sonnet-5-5")
    assert shown.returncode == 1
    failed, hint = shown.stderr.splitlines()[-2:]
    assert "set ANTHROPIC_API_KEY" in failed
    assert "hames run --thread ses_" in hint
