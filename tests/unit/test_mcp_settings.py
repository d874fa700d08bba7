"""MCP servers that a client names for its thread, as they are started."""

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
