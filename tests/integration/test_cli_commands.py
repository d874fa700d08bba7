"""The smaller commands: threads, models, config, completion, help."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_process import Shell

from hames.cli.completion import every_command
from hames.cli.flags import SHARED

ROOT = Path(__file__).resolve().parents[2]


def flags_of_commands() -> dict[str, list[str]]:
    (commands,) = [action.choices for action in every_command()._actions if isinstance(action.choices, dict)]
    return {
        name: [flag for action in parser._actions for flag in action.option_strings]
        for name, parser in commands.items()
    }


OFFERED = list(flags_of_commands())


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_threads_are_listed_shown_exported_put_away_copied_and_removed(shell: Shell) -> None:
    nothing = shell.hames("threads")
    assert (nothing.returncode, nothing.stdout) == (0, "no threads yet\n")
    model = shell.script("See ```x``` and **this**.", name="one")
    shell.hames("run", "tell me of carts", "--model", model)
    shell.hames("run", "tell me of boats", "--model", shell.script("Boats.", name="two"))

    listed = json.loads(shell.hames("threads", "--json").stdout)
    assert [thread["preview"] for thread in listed] == ["tell me of boats", "tell me of carts"]
    carts = listed[1]["id"]
    found = json.loads(shell.hames("threads", "list", "--search", "carts", "--json").stdout)
    assert [thread["id"] for thread in found] == [carts]

    shown = shell.hames("threads", "show", carts).stdout
    assert "> tell me of carts" in shown
    assert "See ```x``` and **this**." in shown
    told = json.loads(shell.hames("threads", "export", carts, "--format", "json").stdout)
    assert [item["type"] for item in told["turns"][0]["items"]] == ["userMessage", "agentMessage"]

    assert shell.hames("threads", "archive", carts).returncode == 0
    assert [thread["id"] for thread in json.loads(shell.hames("threads", "--archived", "--json").stdout)] == [carts]
    assert shell.hames("threads", "unarchive", carts).returncode == 0
    copy = shell.hames("threads", "fork", carts).stdout.strip()
    assert copy not in ("", carts)
    assert shell.hames("threads", "rename", copy, "A copy").returncode == 0
    assert "A copy" in shell.hames("threads").stdout

    refused = shell.hames("threads", "rm", copy)
    assert (refused.returncode, "--yes" in refused.stderr) == (1, True)
    assert shell.hames("threads", "rm", copy, "--yes").returncode == 0
    assert copy not in shell.hames("threads").stdout
    missing = shell.hames("threads", "show", "ses_nothing")
    assert (missing.returncode, missing.stderr) == (1, "hames: no thread 'ses_nothing'\n")


def test_models_and_their_selectors_are_listed(shell: Shell) -> None:
    told = json.loads(shell.hames("models", "--options", "--json").stdout)
    assert "scripted/hello" in [model["id"] for model in told["models"]]
    assert "agent" in [option["id"] for option in told["options"]]
    plain = shell.hames("models", "--options").stdout
    assert "  scripted/hello" in plain
    assert "* code" in plain


def test_each_setting_has_an_origin_and_no_key_is_shown(shell: Shell) -> None:
    (shell.folder / "config.toml").write_text(
        'max_steps = 7\n[providers.openai]\napi_key = "sk-of-the-file"\nbase_url = "https://me:pass@host/v1"\n'
        '[mcp_servers.git]\ncommand = "git-mcp"\nenv = { WHO = "sk-of-mcp" }\n'
        'args = ["--api-key", "sk-one", "--token=sk-two"]\n[mcp_servers.far]\nurl = "https://host/?key=sk-three"\n'
    )
    done = shell.hames("config", "--json", HAMES_MODEL="scripted/hello", ANTHROPIC_API_KEY="sk-of-env")
    told = {row["name"]: (row["value"], row["origin"]) for row in json.loads(done.stdout)}
    assert told["max_steps"] == (7, str(shell.folder / "config.toml"))
    assert told["model"] == ("scripted/hello", "environment")
    assert told["approval_policy"] == ("unlessTrusted", "default")
    assert told["ANTHROPIC_API_KEY"] == ("(set, not shown)", "environment")
    assert told["OPENAI_API_KEY"] == ("(set, not shown)", str(shell.folder / "config.toml"))
    plain = shell.hames("config", ANTHROPIC_API_KEY="sk-of-env").stdout
    assert "sk-" not in plain + done.stdout
    assert "pass" not in plain + done.stdout


def test_an_untrusted_project_is_named_and_not_obeyed(shell: Shell) -> None:
    (shell.workspace / "hames.toml").write_text('model = "scripted/evil"\n')
    done = shell.hames("config")
    assert "hames.toml is ignored because this project is not trusted. Run `hames trust`" in done.stdout
    assert "evil" not in done.stdout


def test_the_list_of_threads_has_whole_ids_in_straight_columns(shell: Shell) -> None:
    prompts = ["short", "a long one " * 20, "漢字 in it", "two\nlines"]
    for prompt in prompts:
        assert shell.hames("run", prompt, "--model", "scripted/hello").returncode == 0
    ids = {thread["id"] for thread in json.loads(shell.hames("threads", "--json").stdout)}
    rows = shell.hames("threads").stdout.splitlines()
    assert {row.split()[0] for row in rows} == ids
    wide = "漢字"
    columns = {row.index("scripted/hello") + sum(letter in wide for letter in row) for row in rows}
    assert len(columns) == 1, rows
    assert any("…" in row for row in rows)


@pytest.mark.parametrize("name", OFFERED)
def test_every_command_has_help_with_an_example(shell: Shell, name: str) -> None:
    done = shell.hames(name, "--help")
    assert done.returncode == 0
    assert f"hames {name}" in done.stdout.split("options:")[0].split("\n\n", 1)[1]


def test_hames_alone_without_a_terminal_lists_the_commands(shell: Shell) -> None:
    done = shell.hames()
    assert done.returncode == 2
    assert all(name in done.stderr for name in OFFERED)
    assert shell.hames("--version").stdout.startswith("hames ")


@pytest.mark.parametrize("words", [("tui",), ("--model", "nope"), ("--continue",)])
def test_the_terminal_without_one_says_what_needs_none(shell: Shell, words: tuple[str, ...]) -> None:
    done = shell.hames(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'hames: there is no terminal here; hames run "PROMPT" needs none\n'


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("thread",), "hames: no command 'thread'; did you mean hames threads?\n"),
        (("explain",), "hames --help lists the commands; hames run 'explain' sends it to the agent\n"),
        (("threads", "--limit", "-3"), "argument --limit: '-3' is not a number above 0\n"),
        (("threads", "--limit", "0"), "argument --limit: '0' is not a number above 0\n"),
        (
            ("doctor", "--model", "x"),
            "hames doctor: unknown option '--model'; hames doctor --help lists the options\n",
        ),
        (
            ("app-server", "--attach", "--model", "x"),
            "can't be used with --attach; the running server sets it\n",
        ),
    ],
)
def test_what_was_meant_is_said_in_the_last_line(shell: Shell, words: tuple[str, ...], sentence: str) -> None:
    done = shell.hames(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(sentence)


def test_a_command_offers_the_shared_flags_it_has_a_use_for() -> None:
    shared = {
        name: [flag for flag in found if flag in SHARED and flag.removeprefix("--") != name]
        for name, found in flags_of_commands().items()
    }
    everything = set(SHARED)
    for name in ("tui", "run", "exec", "harness", "app-server", "acp", "stdio", "serve", "worker", "runner"):
        assert set(shared.pop(name)) == everything, name
    assert {name: found for name, found in shared.items() if found} == {
        "threads": ["--cwd", "--data-dir"],
        "undo": ["--cwd", "--data-dir"],
        "worktrees": ["--cwd", "--data-dir"],
        "config": ["--cwd", "--data-dir"],
        "doctor": ["--cwd", "--data-dir"],
        "models": ["--cwd"],
        "agents": ["--cwd"],
        "setup": ["--model"],
        "mcp": ["--cwd"],
        "policy": ["--cwd"],
        "sandbox": ["--cwd"],
        "eval": ["--model", "--agent", "--sandbox", "--log-file", "--log-level"],
    }


def test_the_configuration_stands_in_columns_and_names_the_model_it_will_be(shell: Shell) -> None:
    rows = shell.hames("config").stdout.splitlines()
    assert rows[0].split() == ["model", "anthropic/claude-sonnet-5-5", "default"]
    columns = {row.rindex("  ") for row in rows}
    assert len(columns) == 1, rows


def test_an_unknown_key_of_a_project_is_called_unknown(shell: Shell) -> None:
    (shell.workspace / "hames.toml").write_text("modle = 1\n")
    shell.hames("trust")
    done = shell.hames("config")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "hames: hames.toml sets 'modle', which is not a known key. Did you mean 'model'? "
        "The keys are: approval_policy, "
    )
    assert "log_file" not in done.stderr
    (shell.workspace / "hames.toml").write_text('log_file = "x"\n')
    shell.hames("trust")
    assert "hames.toml may not set log_file: that belongs in the user's own file" in shell.hames("config").stderr


def test_the_star_is_at_the_model_that_new_threads_use(shell: Shell) -> None:
    listed = shell.hames("models", HAMES_MODEL="scripted/hello").stdout.splitlines()
    assert [row.split()[1] for row in listed if row.startswith("*")] == ["scripted/hello"]
    assert "  anthropic/claude-sonnet-5-5  1M context · $2 in, $10 out · Fast and capable" in listed


def test_an_mcp_server_whose_program_is_missing_is_one_sentence(shell: Shell) -> None:
    assert shell.hames("mcp", "add", "files", "no-such-program").returncode == 0
    done = shell.hames("mcp", "test", "files")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "files does not work: program not found: 'no-such-program'\n"


def test_a_server_that_finds_no_browser_says_where_the_page_is(shell: Shell) -> None:
    shell.environment["PATH"] = str(shell.folder)
    serving = shell.start("serve", "--port", "0", "--open", "--model", "scripted/hello")
    try:
        assert serving.stderr is not None
        assert serving.stderr.readline().startswith("no browser was found here; open http://127.0.0.1:")
    finally:
        serving.terminate()
        serving.communicate(timeout=30)


def test_the_example_for_github_is_valid_and_uses_flags_that_exist() -> None:
    yaml = pytest.importorskip("yaml")
    text = (ROOT / "docs" / "examples" / "github-actions.yml").read_text()
    told = yaml.safe_load(text)
    assert set(told) == {"name", True, "permissions", "jobs"}  # YAML reads `on` as true
    (job,) = told["jobs"].values()
    assert job["runs-on"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert all("uses" in step or "run" in step for step in job["steps"])
    known = set(flags_of_commands()["run"])
    used = {part for command in commands for part in command.split() if part.startswith("--")}
    assert "--json" in used
    assert {flag.split("=")[0] for flag in used} <= known | {"--quiet"}


def test_scripts_need_no_terminal_library_and_the_terminal_says_what_it_needs(shell: Shell) -> None:
    without = "import sys; sys.modules['textual'] = sys.modules['rich'] = None; from hames.cli.main import main; "

    def hames(*words: str) -> subprocess.CompletedProcess[str]:
        program = f"{without} sys.stdin.isatty = sys.stdout.isatty = lambda: True; sys.exit(main({list(words)!r}))"
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=shell.workspace,
            env=shell.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert hames("run", "hi", "--model", "scripted/hello").returncode == 0
    assert hames("threads").returncode == 0
    terminal = hames("tui")
    assert terminal.returncode == 2
    assert "pip install 'hames[tui]'" in terminal.stderr
