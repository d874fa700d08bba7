"""An MCP server that does not work is mentioned with its reason, and the turn goes on without it."""

import json
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli_process import Shell

SERVER = Path(__file__).with_name("mcp_server.py")
REFUSES = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        error = {"code": -32000, "message": "the licence has expired"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def configure(shell: Shell, name: str, command: str, *args: str, more: str = "startup_timeout_sec = 120") -> None:
    """Adds a server to the user's file."""
    file = shell.folder / "config.toml"
    words = ", ".join(json.dumps(word) for word in args)
    table = f"[mcp_servers.{name}]\ncommand = {json.dumps(command)}\nargs = [{words}]\n{more}\n"
    file.write_text((file.read_text() if file.exists() else "") + table)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


LONG = "cannot reach the database: " + " ".join(["configuration"] * 60)
BROKEN = [
    pytest.param(("/nonexistent/server",), "program not found: '/nonexistent/server'", id="not found"),
    pytest.param(("no-such-mcp-server",), "program not found: 'no-such-mcp-server'", id="not on the path"),
    pytest.param(("/bin/sh", "-c", "echo starting >&2; echo no port left >&2; exit 3"),
                 "exited with code 3: no port left", id="exit code and last words"),
    pytest.param(("/bin/sh", "-c", "exit 0"), "exited with code 0", id="gone without a word", marks=pytest.mark.slow),
    pytest.param(("/bin/sh", "-c", "kill -9 $$"), "killed by SIGKILL", id="killed", marks=pytest.mark.slow),
    pytest.param((sys.executable, str(SERVER), "--broken"), "exited with code 1", id="not MCP"),
    pytest.param((sys.executable, "-c", REFUSES), "the licence has expired", id="protocol error"),
    pytest.param(("/etc",), "cannot be run", id="a directory", marks=pytest.mark.slow),
    pytest.param(("/bin/sh", "-c", "sleep 60 & echo no licence >&2; exit 4"),
                 "exited with code 4: no licence", id="gone, and a child holds its pipes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "why"),
    [
        pytest.param(*one.values, id=one.id, marks=[*one.marks] if number in (0, 2, 6) else [pytest.mark.slow])
        for number, one in enumerate(BROKEN)  # `mcp test` below tries them all
    ],
)
def test_a_server_that_does_not_start_is_told_in_run_and_json_and_the_turn_goes_on(
    shell: Shell, program: tuple[str, ...], why: str
) -> None:
    configure(shell, "broken", *program)
    model = shell.script("Done.")
    shown = shell.hames("run", "go", "--model", model)
    assert (shown.returncode, shown.stdout) == (0, "Done.\n"), shown.stderr
    (line,) = [line for line in shown.stderr.splitlines() if "'broken' is not available" in line]
    assert why in line
    assert "hames mcp test broken" in line
    told = events(shell.hames("run", "go", "--json", "--model", model).stdout)
    (warning,) = [event for event in told if event["type"] == "warning"]
    assert why in warning["message"]
    assert warning["params"]["data"]["server"] == "broken"
    assert told[-1]["outcome"] == "completed"


def test_an_address_nobody_answers_at_is_told(shell: Shell) -> None:
    (shell.folder / "config.toml").write_text('[mcp_servers.web]\nurl = "http://127.0.0.1:1/mcp?key=abc"\n')
    shown = shell.hames("run", "go", "--model", shell.script("Done."))
    (line,) = [line for line in shown.stderr.splitlines() if "'web'" in line]
    assert "127.0.0.1:1" in line
    assert "abc" not in line


class Answers(BaseHTTPRequestHandler):
    """A web server that is no MCP server."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status = int(self.path.strip("/"))
        body = b"<html>hello</html>"
        self.send_response(status)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:  # type: ignore[override]
        pass


@pytest.mark.parametrize(
    ("status", "why"),
    [(401, "HTTP 401; check the key in `headers`"), (404, "HTTP 404"), (500, "HTTP 500"), (200, "does not speak MCP")],
)
def test_an_address_that_is_no_mcp_server_says_what_it_answered(shell: Shell, status: int, why: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{status}"
        (shell.folder / "config.toml").write_text(f'[mcp_servers.web]\nurl = "{url}"\n')
        done = shell.hames("mcp", "test", "web")
        server.shutdown()
    assert done.returncode == 1
    assert f"127.0.0.1:{server.server_port}" in done.stderr
    assert why in done.stderr


def test_a_slow_server_shows_that_it_is_waited_for_and_then_that_it_timed_out(shell: Shell) -> None:
    program = "echo loading the index >&2; echo hello; sleep 60"
    configure(shell, "slow", "/bin/sh", "-c", program, more="startup_timeout_sec = 3.5")
    shown = shell.hames("run", "go", "--model", shell.script("Done."))
    assert (shown.returncode, shown.stdout) == (0, "Done.\n"), shown.stderr
    lines = [line for line in shown.stderr.splitlines() if "'slow'" in line]
    assert len(lines) == 2
    assert "starting MCP server 'slow'" in lines[0]
    assert "did not answer within 3.5 s" in lines[1]
    assert "loading the index" in lines[1]
    assert "'hello'" in lines[1]


def test_the_server_that_works_is_there_beside_the_one_that_does_not(shell: Shell) -> None:
    configure(shell, "broken", "/nonexistent/server")
    configure(shell, "good", sys.executable, str(SERVER))
    model = shell.script([{"call": "mcp__good__add", "with": {"a": 1, "b": 2}}], "Three.")
    done = shell.hames("run", "go", "--json", "--approval-policy", "never", "--model", model)
    told = events(done.stdout)
    (call,) = [event["item"] for event in told if event["type"] == "item.completed" and "server" in event["item"]]
    assert (call["server"], call["status"]) == ("good", "completed")
    assert [event["params"]["data"]["server"] for event in told if event["type"] == "warning"] == ["broken"]


def test_a_call_to_a_server_that_dies_says_with_which_code(shell: Shell) -> None:
    configure(shell, "good", sys.executable, str(SERVER))
    model = shell.script([{"call": "mcp__good__die", "with": {}}], "It died.")
    shown = shell.hames("run", "go", "--approval-policy", "never", "--model", model)
    (line,) = [line for line in shown.stderr.splitlines() if "✗" in line]
    assert "exited with code 3" in line


def test_doctor_and_mcp_list_say_how_each_server_is(shell: Shell) -> None:
    configure(shell, "broken", "/nonexistent/server")
    configure(shell, "good", sys.executable, str(SERVER))
    configure(shell, "off", "/nonexistent/server", more="enabled = false")
    found = json.loads(shell.hames("doctor", "--json").stdout)
    servers = {row["name"]: row for row in found if row["name"].startswith("mcp")}
    assert servers["mcp broken"]["good"] is False
    assert "program not found" in servers["mcp broken"]["says"]
    assert servers["mcp good"]["good"] is True
    assert "mcp off" not in servers
    listed = shell.hames("mcp", "list").stdout.splitlines()
    row = {line.split()[0]: line for line in listed}
    assert "failed: program not found" in row["broken"]
    assert "ready" in row["good"]
    assert "tools" in row["good"]
    assert "disabled" in row["off"]
    plain = shell.hames("mcp", "list", "--no-check").stdout
    assert "not found" not in plain
    assert "/nonexistent/server" in plain


@pytest.mark.parametrize(("program", "why"), BROKEN)
def test_mcp_test_says_why(shell: Shell, program: tuple[str, ...], why: str) -> None:
    configure(shell, "broken", *program)
    done = shell.hames("mcp", "test", "broken")
    assert done.returncode == 1
    assert why in done.stderr


def test_mcp_test_of_a_server_without_tools_says_that_it_works_and_has_none(shell: Shell) -> None:
    program = "from mcp.server.mcpserver import MCPServer; MCPServer('none').run()"
    configure(shell, "empty", sys.executable, "-c", program)
    done = shell.hames("mcp", "test", "empty")
    assert (done.returncode, "0 tools" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(("/bin/sh", "-c", f"echo '{LONG}' >&2; exit 3"), id="last words"),
        pytest.param((sys.executable, "-c", REFUSES.replace("the licence has expired", LONG)), id="protocol error"),
    ],
)
def test_a_long_reason_is_cut_between_words_and_shows_that_it_goes_on(shell: Shell, program: tuple[str, ...]) -> None:
    configure(shell, "broken", *program)
    done = shell.hames("run", "go", "--json", "--model", shell.script("Done."))
    (warning,) = [event["message"] for event in events(done.stdout) if event["type"] == "warning"]
    reason = warning.partition("cannot reach the database: ")[2].partition(". This thread")[0]
    words = reason.split()
    assert words.pop() == "…", reason
    assert len(words) > 5
    assert set(words) == {"configuration"}


STUBBORN = """
import os, signal, sys, time
from mcp.server.mcpserver import MCPServer
server = MCPServer("stubborn")

@server.tool()
def name() -> str:
    return "stubborn"

open(sys.argv[1], "w").write(str(os.getpid()))
try:
    server.run()
finally:
    while True:  # it does not care that its input has ended
        time.sleep(1)
"""


def test_a_server_that_ignores_the_end_of_its_input_does_not_outlive_a_killed_harness(shell: Shell) -> None:
    program, pid = shell.folder / "stubborn.py", shell.folder / "pid"
    program.write_text(STUBBORN)
    (shell.folder / "config.toml").write_text(
        f'[mcp_servers.stubborn]\ncommand = "{sys.executable}"\nargs = ["{program}", "{pid}"]\n'
    )
    harness = shell.start("run", "go", "--model", shell.script({"hang": True}))
    try:
        wait_for(lambda: pid.exists() and pid.read_text() and psutil.pid_exists(int(pid.read_text())))
        server = psutil.Process(int(pid.read_text()))
        harness.kill()
        wait_for(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
    finally:
        harness.kill()
        harness.wait()


def wait_for(true: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)
