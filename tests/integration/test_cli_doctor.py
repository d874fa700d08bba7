"""`hames doctor` and a configuration that is wrong: everything is said, in one go, by every command alike."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from cli_process import Shell

from model_server import model_server

BROKEN = """\
modle = "x"
approval_policy = "on-failure"
log_level = "loud"
[providers.openai]
env_key = "MY_KEY"
[providers.mine]
api_key = "x"
[providers.Mine]
base_url = "http://127.0.0.1:1/v1"
[providers.compatible]
base_url = "localhost"
[mcp_servers.files]
command = "x"
timeout = 3
"""


@pytest.fixture
def address() -> Generator[str]:
    with model_server("coder") as url:
        yield f"{url}/v1"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def findings(shell: Shell, name: str) -> list[tuple[bool, str]]:
    rows: list[dict[str, Any]] = json.loads(shell.hames("doctor", "--json").stdout)
    return [(row["good"], row["says"]) for row in rows if row["name"] == name]


def test_every_problem_of_a_file_is_said_at_once(shell: Shell) -> None:
    (shell.folder / "config.toml").write_text(BROKEN)
    done = shell.hames("config")
    assert done.returncode == 2
    for words in (
        "the configuration has 8 problems",
        "'modle', which is not a known key. Did you mean 'model'?",
        "The nearest is onRequest",
        "log_level is 'loud'",
        "[providers.openai] in",
        "sets 'env_key', which is not a known key: put the key itself into api_key, or save it with `hames login",
        "[providers.mine] in",
        "needs base_url",
        "a provider's name is lower-case letters",
        "'localhost' is not the address of a server. One looks like http://127.0.0.1:8080/v1",
        "'timeout' in mcp_servers.files",
    ):
        assert words in done.stderr, words


def test_doctor_goes_on_with_a_broken_file(shell: Shell) -> None:
    (shell.folder / "config.toml").write_text(BROKEN)
    rows = json.loads(shell.hames("doctor", "--json").stdout)
    assert sum(row["name"] == "config" and not row["good"] for row in rows) == 8
    assert {"sandbox", "git", "model", "threads"} <= {row["name"] for row in rows}
    (shell.folder / "config.toml").write_text("this is not TOML")
    ((good, says),) = findings(shell, "config")
    assert (good, "is not valid TOML" in says) == (False, True)
    assert shell.hames("doctor").returncode == 1


def test_doctor_asks_the_provider_that_is_configured(shell: Shell, address: str) -> None:
    (shell.folder / "config.toml").write_text(f'model = "mine/coder"\n[providers.mine]\nbase_url = "{address}"\n')
    assert findings(shell, "mine") == [(True, "answers, and lists 1 model")]
    (shell.folder / "config.toml").write_text(
        'model = "mine/coder"\n[providers.mine]\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    ((good, says),) = findings(shell, "mine")
    assert (good, "http://127.0.0.1:9/v1 cannot be reached" in says) == (False, True)
    assert shell.hames("doctor").returncode == 1
    (shell.folder / "config.toml").write_text('model = "openai/gpt-5.5"\n')
    ((good, says),) = findings(shell, "openai")
    assert (good, "`hames login openai`" in says) == (False, True)
    (shell.folder / "config.toml").write_text('model = "scripted/hello"\n')
    assert findings(shell, "scripted") == [(True, "needs no key")]


@pytest.mark.needs("bwrap")
def test_doctor_names_only_files_of_the_home_directory_that_are_there(shell: Shell) -> None:
    ((_, before),) = findings(shell, "home")
    assert ".npmrc" not in before
    (shell.folder / ".gitconfig").write_text("[user]\nname = Me\n")
    ((_, says),) = findings(shell, "home")
    for name in says.partition("with: ")[2].partition(" (")[0].split(", "):
        assert name == "nothing" or (shell.folder / name).exists(), name


@pytest.mark.parametrize("words", [("config",), ("run", "hi", "--model", "scripted/hello"), ("models",)])
@pytest.mark.parametrize(
    ("root", "why"), [("/nowhere/at/all", "does not exist"), ("/etc/passwd", "is not a directory"), ("here", "must be")]
)
def test_a_writable_root_that_cannot_be_one_names_the_setting_and_the_file(
    shell: Shell, words: tuple[str, ...], root: str, why: str
) -> None:
    file = shell.folder / "config.toml"
    file.write_text(f'sandbox = {{ type = "workspaceWrite", writable_roots = ["{root}"] }}\n')
    done = shell.hames(*words)
    assert done.returncode == 2
    for part in ("writableRoots", str(file), repr(root), why):
        assert part in done.stderr
    assert not (shell.workspace / ".harness").exists()


def test_a_writable_root_may_be_below_the_home_directory(shell: Shell) -> None:
    (shell.folder / "cache").mkdir()
    (shell.folder / "config.toml").write_text(
        'sandbox = { type = "workspaceWrite", writableRoots = ["~/cache"] }\nmodel = "scripted/hello"\n'
    )
    told = json.loads(shell.hames("run", "hi", "--json").stdout.splitlines()[0])
    assert told["sandbox"]["writableRoots"] == [str(shell.folder / "cache")]


def test_the_address_of_the_configured_provider_is_shown(shell: Shell) -> None:
    rows = {row["name"]: row for row in json.loads(shell.hames("config", "--json").stdout)}
    assert rows["ANTHROPIC_BASE_URL"]["value"] == "https://api.anthropic.com"
    assert rows["ANTHROPIC_API_KEY"]["value"] == "(not set)"
    (shell.folder / "config.toml").write_text('model = "compatible/x"\n')
    rows = {row["name"]: row for row in json.loads(shell.hames("config", "--json").stdout)}
    assert rows["COMPATIBLE_BASE_URL"]["value"] == "(not set)"
