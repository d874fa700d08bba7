"""`hames app-server` started in the ways in which programs start `codex app-server`."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from cli_process import Shell
from websockets.sync.client import connect

HELLO = {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "probe", "version": "1"}}}
START = {"id": 2, "method": "thread/start", "params": {}}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def answers(done: subprocess.CompletedProcess[str]) -> dict[Any, Any]:
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return {message["id"]: message for message in messages if "method" not in message}


def talk(shell: Shell, *words: str, also: tuple[dict[str, Any], ...] = ()) -> tuple[dict[Any, Any], str]:
    lines = "".join(json.dumps(message) + "\n" for message in (HELLO, START, *also))
    done = shell.hames(*words, stdin=lines)
    assert done.returncode == 0, done.stderr
    return answers(done), done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("app-server", "--listen", "stdio://"),
        ("app-server", "--listen=stdio://"),
        ("app-server", "--stdio"),
        ("app-server", "-c", "approval_policy=never"),
        ("app-server", "--config", "approval_policy=never", "--listen", "stdio://"),
        ("app-server", "--config=approval_policy=never"),
        ("-c", "approval_policy=never", "app-server"),
        ("-capproval_policy=never", "app-server", "--listen", "stdio://"),
        ("--config", "approval_policy=never", "app-server", "-c", "sandbox_mode=read-only"),
        ("--enable", "web", "--config=approval_policy=never", "app-server", "--disable", "x"),
        ("app-server", "--analytics-default-enabled", "--session-source", "vscode", "--strict-config"),
    ],
)
def test_the_server_starts_in_codexs_ways(shell: Shell, words: tuple[str, ...]) -> None:
    said, _ = (
        talk(shell, "-m", shell.script("Hello."), *words)
        if words[0] != "app-server"
        else talk(shell, *words, "-m", shell.script("Hello."))
    )
    assert said[1]["result"]["agentInfo"]["name"] == "hames"
    assert said[2]["result"]["thread"]["historyMode"] == "legacy"  # Codex's format, whatever the client is called


def test_settings_of_codex_reach_the_thread(shell: Shell) -> None:
    model, roots = shell.script("Hello."), shell.workspace.parent
    said, problems = talk(
        shell,
        *("-c", 'approval_policy="on-request"', "--config", f"model={model}", "app-server"),
        *("-c", "sandbox_mode=workspace-write", "-c", "sandbox_workspace_write.network_access=true"),
        *("-c", f'sandbox_workspace_write.writable_roots=["{roots}"]', "-c", "model_reasoning_effort=high"),
    )
    opened = said[2]["result"]
    assert (opened["model"], opened["approvalPolicy"]) == (model, "on-request")
    assert (opened["sandbox"]["networkAccess"], opened["sandbox"]["writableRoots"]) == (True, [str(roots)])
    assert "Codex has no counterpart" not in problems


def test_settings_of_the_workspace_policy_choose_no_policy(shell: Shell) -> None:
    words = ("app-server", "-m", shell.script("Hello."), "-c", "sandbox_workspace_write.network_access=true")
    assert talk(shell, *words, "--sandbox", "readOnly")[0][2]["result"]["sandbox"]["type"] == "readOnly"
    shell.environment["HAMES_SANDBOX"] = "readOnly"
    assert talk(shell, *words)[0][2]["result"]["sandbox"]["type"] == "readOnly"
    assert talk(shell, *words, "-c", "sandbox_mode=workspace-write")[0][2]["result"]["sandbox"]["networkAccess"] is True


def test_the_provider_of_a_bare_model_is_a_setting_of_codexs(shell: Shell) -> None:
    said, _ = talk(shell, "app-server", "-c", "model_provider=anthropic", "-c", "model=claude-opus-4-5")
    assert said[2]["result"]["model"].startswith("anthropic/claude-opus-4-5")


def test_an_mcp_server_on_the_command_line_is_a_server_of_the_threads(shell: Shell) -> None:
    server = str(Path(__file__).with_name("mcp_server.py"))
    ask = {"id": 3, "method": "mcpServerStatus/list", "params": {}}
    said, problems = talk(
        shell,
        *("app-server", "-m", shell.script("Hello."), "-c", f"mcp_servers.mine.command={sys.executable}"),
        *("-c", f'mcp_servers.mine.args=["{server}"]', "-c", "mcp_servers.mine.tool_timeout_sec=5"),
        *("-c", "mcp_servers.mine.scopes=[]"),
        also=(ask,),
    )
    assert [one["name"] for one in said[3]["result"]["data"]] == ["mine"]
    assert "'mcp_servers.mine.scopes'" in problems
    assert "tool_timeout_sec" not in problems


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("features.shell_snapshot=true", "features.shell_snapshot"),
        ("model_verbosity=high", "model_verbosity"),
        ('shell_environment_policy.inherit="all"', "shell_environment_policy.inherit"),
        ("model_provider=elsewhere", "model_provider"),
        ("nonsense = [1, 2", "nonsense"),
    ],
)
def test_a_setting_that_only_codex_has_is_reported_and_the_server_starts(shell: Shell, word: str, key: str) -> None:
    said, problems = talk(shell, "app-server", "-m", shell.script("Hello."), "-c", word)
    assert "result" in said[2]
    assert f"the setting {key!r} of Codex has no counterpart here and is ignored" in problems


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-c", "model"), "it must be KEY=VALUE"),
        (("-c", "=3"), "it must be KEY=VALUE"),
        (("-c", "a..b=3"), "is not a key"),
        (("-c", "approval_policy=sometimes"), "approval_policy is 'sometimes'"),
        (("-c", "max_steps=many"), "max_steps is 'many'"),
        (("--listen", "unix:///tmp/x.sock"), "must be stdio:// or ws://IP:PORT"),
        (("--listen", "off"), "must be stdio:// or ws://IP:PORT"),
        (("--listen", "ws://127.0.0.1"), "must name an address and a port"),
        (("--listen", "ws://127.0.0.1:99999"), "must name an address and a port"),
        (("--listen", "ws://0.0.0.0:0"), "needs a token"),
        (("--listen", "ws://127.0.0.1:0", "--attach"), "leave out --listen"),
    ],
)
def test_a_bad_launch_option_ends_the_program_with_a_sentence(
    shell: Shell, words: tuple[str, ...], sentence: str
) -> None:
    done = shell.hames("app-server", *words, stdin="")
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())


def test_the_server_can_listen_on_a_websocket_as_codexs_does(shell: Shell) -> None:
    process = shell.start("app-server", "-m", shell.script("Hello."), "--listen", "ws://127.0.0.1:0")
    try:
        assert process.stderr is not None
        assert "hames app-server" in process.stderr.readline()
        url = process.stderr.readline().split()[-1]
        assert url.startswith("ws://127.0.0.1:")
        for path in ("/readyz", "/healthz"):
            with urlopen(url.replace("ws://", "http://") + path, timeout=30) as reply:
                assert reply.status == 200
        with connect(url) as socket:
            socket.send(json.dumps(HELLO))
            assert json.loads(socket.recv(timeout=30))["result"]["agentInfo"]["name"] == "hames"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""
    finally:
        process.kill()
        process.wait()


def test_the_version_in_the_user_agent_is_one_that_clients_of_codex_accept(shell: Shell) -> None:
    said, _ = talk(shell, "app-server")
    agent = said[1]["result"]["userAgent"]
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", agent)  # the way in which clients look for it
    assert found is not None
    assert tuple(map(int, found.groups())) >= (0, 153, 0)
    assert agent.startswith("hames/")
    assert f"Hames {said[1]['result']['agentInfo']['version']}" in agent


def test_an_ephemeral_thread_of_a_killed_server_is_deleted_by_the_next_one(shell: Shell) -> None:
    threads = shell.workspace / ".harness" / "threads"
    words = [sys.executable, "-m", "hames", "app-server", "--listen", "stdio://", "-m", shell.script("Hello.")]
    start = {**START, "params": {"ephemeral": True}}
    with subprocess.Popen(
        words, cwd=shell.workspace, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=shell.environment
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("".join(json.dumps(message) + "\n" for message in (HELLO, start)))
        process.stdin.flush()
        answer = next(message for line in process.stdout if (message := json.loads(line)).get("id") == 2)
        assert answer["result"]["thread"]["ephemeral"] is True
        assert len(list(threads.iterdir())) == 1  # its log is on the disk while it exists
        process.kill()
    said, _ = talk(shell, "app-server", also=({"id": 3, "method": "thread/list", "params": {}},))
    assert [thread["id"] for thread in said[3]["result"]["data"]] == [said[2]["result"]["thread"]["id"]]
    assert len(list(threads.iterdir())) == 1


def test_an_ephemeral_thread_is_deleted_when_stdin_ends(shell: Shell) -> None:
    lines = "".join(json.dumps(message) + "\n" for message in (HELLO, {**START, "params": {"ephemeral": True}}))
    done = shell.hames("app-server", "-m", shell.script("Hello."), stdin=lines)
    assert answers(done)[2]["result"]["thread"]["ephemeral"] is True
    assert list((shell.workspace / ".harness" / "threads").iterdir()) == []
