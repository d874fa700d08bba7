"""`hames setup` for a server that only its owner knows: its address and its key are there in the next shell."""

import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest
from cli_process import Shell, typed

from model_server import model_server

KEY = "right-key-of-the-house"


@pytest.fixture
def address() -> Generator[str]:
    """A server that speaks chat completions; `/locked/v1` wants a key."""
    with model_server("coder", "talker", key=KEY, locked="/locked") as url:
        yield url


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path)
    found.environment["HAMES_CONFIG"] = str(tmp_path / "config" / "config.toml")
    return found


def saved(shell: Shell) -> dict[str, object]:
    return tomllib.loads(Path(shell.environment["HAMES_CONFIG"]).read_text())


def in_a_new_shell(shell: Shell) -> str:
    done = shell.hames("run", "hello")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_setup_asks_for_the_address_and_the_key_and_saves_both(shell: Shell, address: str) -> None:
    answers = [
        ("Number or name [1]:", "compatible"),
        ("Address:", "127.0.0.1:8080"),
        ("is not the address of a server", ""),
        ("Address:", f"{address}/locked/v1"),
        ("Enter for none", "wrong"),
        ("Try another address or key?", "y"),
        ("Address [", ""),
        ("Enter for none", KEY),
        ("Model [compatible/coder]:", "talker"),
    ]
    code, seen = typed(shell, ["setup", "--no-sandbox-check"], answers)
    assert (code, "Ready." in seen) == (0, True), seen
    assert "http://127.0.0.1:8080/v1" in seen  # an example
    assert KEY not in seen
    assert saved(shell) == {
        "model": "compatible/talker",
        "providers": {"compatible": {"base_url": f"{address}/locked/v1"}},
    }
    assert in_a_new_shell(shell) == "Hello from here.\n"
    assert KEY in (shell.folder / "config" / "credentials.json").read_text()


def test_an_address_where_a_provider_is_asked_for_means_a_compatible_server(shell: Shell, address: str) -> None:
    answers = [("Number or name", f"{address}/v1"), ("Enter for none", ""), ("Model [", "")]
    code, seen = typed(shell, ["setup", "--no-sandbox-check"], answers)
    assert (code, "Ready." in seen) == (0, True), seen
    assert in_a_new_shell(shell) == "Hello from here.\n"
    assert not (shell.folder / "config" / "credentials.json").exists()


@pytest.mark.parametrize("provider", ["compatible", "local", "ollama"])
def test_an_address_in_the_environment_is_saved(shell: Shell, address: str, provider: str) -> None:
    done = shell.hames(
        "setup", "--provider", provider, "--no-sandbox-check", **{f"{provider.upper()}_BASE_URL": f"{address}/v1"}
    )
    assert (done.returncode, "Ready." in done.stdout) == (0, True), done.stdout + done.stderr
    assert in_a_new_shell(shell) == "Hello from here.\n"


def test_a_key_in_the_environment_is_said_to_be_needed_in_every_shell(shell: Shell, address: str) -> None:
    words = ("setup", "--base-url", f"{address}/locked/v1", "--no-sandbox-check")
    done = shell.hames(*words, COMPATIBLE_API_KEY=KEY)
    assert (done.returncode, "Ready." in done.stdout) == (0, True), done.stdout + done.stderr
    assert "COMPATIBLE_API_KEY; set it in every shell that runs hames, or run `hames login compatible`" in done.stdout


def test_without_a_terminal_the_address_is_a_flag_and_the_key_comes_from_stdin(shell: Shell, address: str) -> None:
    missing = shell.hames("setup", "--provider", "compatible", "--no-sandbox-check")
    assert missing.returncode == 2
    assert "hames setup --provider compatible --base-url http://127.0.0.1:8080/v1" in missing.stderr
    bad = shell.hames("setup", "--base-url", "localhost:8080", "--no-sandbox-check")
    assert (bad.returncode, "is not the address of a server" in bad.stderr) == (2, True)
    done = shell.hames(
        "setup", "--base-url", f"{address}/locked/v1", "--model", "coder", "--no-sandbox-check", stdin=f"{KEY}\n"
    )
    assert (done.returncode, "Ready." in done.stdout) == (0, True), done.stdout + done.stderr
    assert in_a_new_shell(shell) == "Hello from here.\n"


def test_setup_keeps_the_rest_of_the_file_and_changes_an_address_that_is_there(shell: Shell, address: str) -> None:
    file = Path(shell.environment["HAMES_CONFIG"])
    file.parent.mkdir()
    file.write_text(
        '# mine\n[providers.compatible]  # at home\nbase_url = "http://127.0.0.1:9/v1"\n\n'
        '[mcp_servers.a]\ncommand = "a"\n'
    )
    done = shell.hames("setup", "--base-url", f"{address}/v1", "--no-sandbox-check")
    assert done.returncode == 0, done.stdout + done.stderr
    text = file.read_text()
    assert "# mine" in text
    assert "# at home" in text
    assert "127.0.0.1:9" not in text
    assert saved(shell)["providers"] == {"compatible": {"base_url": f"{address}/v1"}}


def test_the_menu_stays_together_and_explains_each_choice(shell: Shell) -> None:
    code, seen = typed(shell, ["setup", "--no-sandbox-check"], [("Number or name", "7")], columns=60)
    assert code == 0
    lines = seen.splitlines()
    numbered = [at for at, line in enumerate(lines) if line[:3].strip().isdecimal()]
    between = [line for line in lines[numbered[0] : numbered[-1]] if not line.startswith("  ")]
    assert (len(numbered), between) == (7, []), seen
    assert "any other server that speaks the" in seen
    assert all(len(line) <= 60 for line in lines), seen
    assert "Ready." not in seen


def test_a_missing_address_says_what_is_missing_with_an_example_and_the_next_step(shell: Shell) -> None:
    done = shell.hames("run", "go", "--model", "compatible/coder")
    assert done.returncode != 0
    for words in ("hames setup", "[providers.compatible]", 'base_url = "http://127.0.0.1:8080/v1"'):
        assert words in done.stderr
    assert "server at COMPATIBLE_BASE_URL" not in done.stderr


@pytest.mark.parametrize(
    ("model", "provider"),
    [("anthropic/claude-sonnet-5-5", "anthropic"), ("openai/gpt-5.5", "openai"), ("groq/x", "groq")],
)
def test_a_missing_key_names_setup_and_login(shell: Shell, model: str, provider: str) -> None:
    done = shell.hames("run", "go", "--model", model)
    assert done.returncode == 1
    for words in ("`hames setup`", f"`hames login {provider}`", f"set {provider.upper()}_API_KEY"):
        assert words in done.stderr


def test_a_refused_key_shows_the_services_own_words_without_a_key(shell: Shell, address: str) -> None:
    locked = {"COMPATIBLE_BASE_URL": f"{address}/locked/v1"}
    used = shell.hames("models", "--refresh", COMPATIBLE_API_KEY="wrong-key", **locked)
    assert "refused the key; run `hames login compatible`, or set COMPATIBLE_API_KEY" in used.stderr
    done = shell.hames("login", "compatible", stdin="wrong-key\n", **locked)
    assert done.returncode == 1
    assert "refused the key: " in done.stderr
    assert "Incorrect API key provided: [redacted]" in done.stderr
    assert f"the model server at {address}/locked/v1" in done.stderr


def test_a_provider_of_your_own_has_models_and_a_key(shell: Shell, address: str) -> None:
    file = Path(shell.environment["HAMES_CONFIG"])
    file.parent.mkdir()
    file.write_text(f'model = "mine/coder"\n[providers.mine]\nbase_url = "{address}/locked/v1"\n')
    refused = shell.hames("run", "hello")
    assert refused.returncode == 0, refused.stderr  # the server asks for a key only where its models are listed
    assert shell.hames("login", "mine", stdin=f"{KEY}\n").returncode == 0
    assert "mine" in shell.hames("login", "status").stdout
    assert "mine: 2 models" in shell.hames("models", "--refresh").stderr
    assert in_a_new_shell(shell) == "Hello from here.\n"
