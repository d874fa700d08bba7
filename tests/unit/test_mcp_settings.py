"""MCP servers that a client names for its thread, as they are started."""

import msgspec

from hames.config.mcp import McpServer
from hames.domain.options import ThreadServer
from hames.tools.mcp.settings import thread_server


def test_environment_variables_of_the_harness_are_passed_on_by_name() -> None:
    server = ThreadServer(name="s", command="c", env={"A": "given"}, env_vars=("A", "B", "C"))
    assert thread_server(server, {"A": "ours", "B": "b", "D": "d"}).env == {"A": "given", "B": "b"}


def test_headers_come_from_the_client_and_from_the_environment() -> None:
    server = ThreadServer(
        name="s", url="https://x", headers={"X": "1"}, env_headers={"Y": "KEY"}, bearer_token_env_var="TOKEN"
    )
    started = thread_server(server, {"KEY": "k", "TOKEN": "t"})
    assert started.headers == {"X": "1", "Y": "k", "Authorization": "Bearer t"}
    assert not started.problem


def test_a_variable_that_is_not_set_is_named() -> None:
    server = ThreadServer(name="s", url="https://x", env_headers={"Y": "KEY"}, bearer_token_env_var="TOKEN")
    assert thread_server(server, {}).problem == "the environment variable KEY, TOKEN is not set where Hames runs"


def test_a_value_that_was_not_kept_is_named() -> None:
    problem = thread_server(ThreadServer(name="s", command="c", env={"A": None, "B": ""}), {}).problem
    assert "the value of A is not saved with the thread" in problem
    assert thread_server(ThreadServer(name="s", command="c", env={"B": ""}), {}).problem == ""


def test_a_configured_server_is_started_with_every_setting() -> None:
    table = {
        "command": "c",
        "args": ["a"],
        "env": {"A": "1"},
        "env_vars": ["B"],
        "cwd": "/here",
        "startup_timeout_sec": 3,
        "tool_timeout_sec": 4,
        "enabled_tools": ["read"],
        "disabled_tools": ["write"],
    }
    server = thread_server(msgspec.convert(table, McpServer).named("s"), {"B": "2"})
    assert (server.command, server.args, server.env, server.cwd) == ("c", ("a",), {"A": "1", "B": "2"}, "/here")
    assert (server.start_seconds, server.call_seconds) == (3, 4)
    assert (server.enabled_tools, server.disabled_tools) == (("read",), ("write",))
    reached = {"url": "https://x", "headers": {"X": "1"}, "env_http_headers": {"Y": "K"}, "bearer_token_env_var": "T"}
    headers = thread_server(msgspec.convert(reached, McpServer).named("s"), {"K": "k", "T": "t"}).headers
    assert headers == {"X": "1", "Y": "k", "Authorization": "Bearer t"}
