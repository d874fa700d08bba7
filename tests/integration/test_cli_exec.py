"""`hames exec`: the options and the JSON lines of `codex exec`, as OpenAI's SDKs send and read them."""

import base64
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_process import Shell

from hames.cli.codex.settings import read_settings

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
ITEMS: dict[str, dict[str, tuple[type, ...]]] = {
    "agent_message": {"text": (str,)},
    "reasoning": {"text": (str,)},
    "command_execution": {
        "command": (str,),
        "aggregated_output": (str,),
        "exit_code": (int, type(None)),
        "status": (str,),
    },
    "file_change": {"changes": (list,), "status": (str,)},
    "mcp_tool_call": {
        "server": (str,),
        "tool": (str,),
        "arguments": (object,),
        "result": (dict, type(None)),
        "error": (dict, type(None)),
        "status": (str,),
    },
    "web_search": {"query": (str,)},
    "todo_list": {"items": (list,)},
    "error": {"message": (str,)},
}
EVENTS = {
    "thread.started": {"thread_id"},
    "turn.started": set[str](),
    "turn.completed": {"usage"},
    "turn.failed": {"error"},
    "item.started": {"item"},
    "item.updated": {"item"},
    "item.completed": {"item"},
    "error": {"message"},
}
USAGE = {
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def events(text: str) -> list[dict[str, Any]]:
    """Every line, checked against the shapes that a strict client reads."""
    told = [json.loads(line) for line in text.splitlines()]
    for event in told:
        assert event.keys() - {"type"} == EVENTS[event["type"]], event
        if item := event.get("item"):
            shape = ITEMS[item["type"]]
            assert item.keys() - {"id", "type"} == shape.keys(), item
            assert all(isinstance(item[name], kinds) for name, kinds in shape.items()), item
            running = event["type"] != "item.completed"
            statuses = ("in_progress",) if running else ("completed", "failed")
            assert item.get("status", statuses[0]) in statuses, item
        if usage := event.get("usage"):
            assert usage.keys() == USAGE
    return told


def items(told: list[dict[str, Any]], kind: str = "item.completed") -> list[dict[str, Any]]:
    return [event["item"] for event in told if event["type"] == kind]


@pytest.mark.needs("bwrap")
def test_events_have_the_shape_of_codex(shell: Shell) -> None:
    plan = [{"step": "Look", "status": "completed"}, {"step": "Act", "status": "pending"}]
    patch = "*** Begin Patch\n*** Add File: b.txt\n+new\n*** End Patch"
    model = shell.script(
        [{"think": "A command will do."}, {"call": "shell", "with": {"command": "echo hi; exit 3"}}],
        [{"call": "plan", "with": {"entries": plan[:1]}}],
        [{"call": "plan", "with": {"entries": plan}}],
        [{"call": "patch", "with": {"patch": patch}}],
        [{"call": "glob", "with": {"pattern": "*.txt"}}],
        "All done.",
    )
    done = shell.hames("exec", "--json", "go", "--model", model)
    assert done.returncode == 0, done.stderr
    told = events(done.stdout)
    assert [event["type"] for event in told[:2]] == ["thread.started", "turn.started"]
    assert told[-1]["type"] == "turn.completed"
    assert told[-1]["usage"]["output_tokens"] > 0

    (command,) = [item for item in items(told) if item["type"] == "command_execution"]
    assert (command["command"], command["aggregated_output"], command["exit_code"]) == ("echo hi; exit 3", "hi\n", 3)
    assert command["status"] == "failed"
    assert command["id"] in [item["id"] for item in items(told, "item.started")]
    (change,) = [item for item in items(told) if item["type"] == "file_change"]
    assert change["changes"] == [{"path": str(shell.workspace / "b.txt"), "kind": "add"}]
    (search,) = [item for item in items(told) if item["type"] == "mcp_tool_call"]
    assert (search["server"], search["tool"], search["arguments"]) == ("hames", "glob", {"pattern": "*.txt"})
    assert "b.txt" in search["result"]["content"][0]["text"]
    assert "A command will do." in [item.get("text") for item in items(told)]
    assert items(told)[-2]["text"] == "All done."

    (started,) = [item for item in items(told, "item.started") if item["type"] == "todo_list"]
    (updated,) = [item for item in items(told, "item.updated") if item["type"] == "todo_list"]
    assert items(told)[-1] == updated
    assert started["id"] == updated["id"]
    assert started["items"] == [{"text": "Look", "completed": True}]
    assert updated["items"][1] == {"text": "Act", "completed": False}


def test_words_and_options_stand_in_any_order(shell: Shell) -> None:
    model = shell.script("One.", "Two.", "Three.", "Four.")
    first = events(shell.hames("exec", "--experimental-json", "--model", model, stdin="a").stdout)
    thread = first[0]["thread_id"]
    for words, stdin, answer in (
        (("exec", "--json", "--model", model, "resume", thread, "--skip-git-repo-check"), "b", "Two."),
        (("exec", "resume", thread, "--json", "c", "--model", model), "", "Three."),
        (("exec", "--model", model, "resume", "--last", "-", "--json"), "d", "Four."),
    ):
        told = events(shell.hames(*words, stdin=stdin).stdout)
        assert told[0] == {"type": "thread.started", "thread_id": thread}
        assert items(told)[-1]["text"] == answer


def test_the_prompt_is_typed_piped_or_both(shell: Shell) -> None:
    for words, stdin, expected in (
        ((), "from stdin", "from stdin"),
        (("-",), "from a dash", "from a dash"),
        (("typed",), "", "typed"),
        (("typed",), "piped", "typed\n\n<stdin>\npiped\n</stdin>"),
    ):
        told = events(shell.hames("exec", *words, "--json", "--model", "scripted/hello", stdin=stdin).stdout)
        exported = shell.hames("threads", "export", told[0]["thread_id"], "--json").stdout
        assert json.dumps(expected)[1:-1] in exported
    for words in ((), ("resume",), ("--last", "hi"), ("two", "words"), ("review",)):
        refused = shell.hames("exec", *words, "--model", "scripted/hello")
        assert refused.returncode == 2
        assert refused.stderr.startswith("hames: ")


def test_without_json_stdout_has_the_final_message_alone(shell: Shell) -> None:
    model = shell.script([{"say": "I will look."}, {"call": "glob", "with": {"pattern": "*"}}], "All done.")
    last = shell.folder / "last.txt"
    done = shell.hames("exec", "go", "--color", "never", "-o", str(last), "-m", model)
    assert (done.returncode, done.stdout, last.read_text()) == (0, "All done.\n", "All done.\n")
    assert "· glob" in done.stderr


@pytest.mark.parametrize("fixed", ['{"n": 2}', 'Here:\n```json\n{"n": 2}\n```'])
def test_with_a_schema_the_last_message_is_the_json_alone(shell: Shell, fixed: str) -> None:
    schema = shell.folder / "schema.json"
    schema.write_text(json.dumps({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}))
    model = shell.script("It is two.", fixed)
    told = events(shell.hames("exec", "--json", "--output-schema", str(schema), "count", "-m", model).stdout)
    assert json.loads(items(told)[-1]["text"]) == {"n": 2}
    assert [event["type"] for event in told].count("turn.started") == 1
    assert told[-1]["type"] == "turn.completed"

    never = events(
        shell.hames("exec", "--json", "--output-schema", str(schema), "count", "-m", shell.script("a", "b")).stdout
    )
    assert never[-1]["type"] == "turn.failed"
    assert "does not match the schema" in never[-1]["error"]["message"]


def test_pictures_reach_the_model(shell: Shell) -> None:
    for name in ("a.png", "b.png"):
        (shell.folder / name).write_bytes(base64.b64decode(PIXEL))
    both = f"{shell.folder}/a.png,{shell.folder}/b.png"
    done = shell.hames("exec", "--json", "-m", "scripted/hello", "--image", both, stdin="look")
    assert done.returncode == 0, done.stderr
    assert sum(log.read_text().count(PIXEL) for log in shell.workspace.glob(".harness/**/*.jsonl")) == 4, (
        "two pictures, each where the message starts and where it is complete"
    )
    missing = shell.hames("exec", "--json", "look", "-i", "nothing.png", "-m", "scripted/hello")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "nothing.png" in missing.stderr


def test_a_failed_turn_says_why(shell: Shell) -> None:
    done = shell.hames("exec", "--json", "go", "-m", shell.script([{"fail": "the model is on holiday"}]))
    told = events(done.stdout)
    assert done.returncode == 1
    assert told[-2:] == [
        {"type": "error", "message": "the model is on holiday"},
        {"type": "turn.failed", "error": {"message": "the model is on holiday"}},
    ]
    assert "the model is on holiday" in done.stderr


def test_what_cannot_start_is_an_error_event_and_a_sentence(shell: Shell) -> None:
    done = shell.hames("exec", "--json", "go", "-m", "no-such-model")
    (told,) = events(done.stdout)
    assert done.returncode == 2
    assert told["type"] == "error"
    assert "no-such-model" in told["message"]
    assert "no-such-model" in done.stderr


def test_what_would_ask_is_declined_and_the_turn_goes_on(shell: Shell) -> None:
    asks = [{"call": "shell", "with": {"command": "rm -rf build"}}]
    (shell.workspace / "build").mkdir()
    words = ("exec", "--json", "go", "-c", 'approval_policy="untrusted"', "-m", shell.script(asks, "Then not."))
    done = shell.hames(*words)
    told = events(done.stdout)
    assert (done.returncode, items(told)[-1]["text"]) == (0, "Then not.")
    assert [item["status"] for item in items(told) if item["type"] == "command_execution"] == ["failed"]
    assert (shell.workspace / "build").is_dir()


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("flags", "written"),
    [
        (("--full-auto",), (True, False)),
        (("-s", "read-only"), (False, False)),
        (("-s", "read-only", "--full-auto"), (True, False)),
        (("-c", 'sandbox_mode="read-only"'), (False, False)),
        (("--dangerously-bypass-approvals-and-sandbox",), (True, True)),
        (("--add-dir", "../other"), (True, True)),
        (("-s", "workspace-write", "-c", 'sandbox_workspace_write.writable_roots=["$FOLDER/other"]'), (True, True)),
    ],
)
def test_commands_run_in_the_sandbox_asked_for(
    shell: Shell, flags: tuple[str, ...], written: tuple[bool, bool]
) -> None:
    other = shell.folder / "other"
    other.mkdir()
    model = shell.script([{"call": "shell", "with": {"command": "touch in.txt; touch ../other/out.txt"}}], "Done.")
    flags = tuple(flag.replace("$FOLDER", str(shell.folder)) for flag in flags)
    done = shell.hames("exec", "--json", *flags, "go", "-m", model)
    assert done.returncode == 0, done.stderr
    assert ((shell.workspace / "in.txt").exists(), (other / "out.txt").exists()) == written


def test_settings_reach_the_model_or_are_named(shell: Shell) -> None:
    words = ("exec", "--json", "go", "-c", "tui.theme=dark", "--config", "developer_instructions=Speak in rhymes")
    told = events(shell.hames(*words, "-m", "scripted/hello").stdout)
    assert [item["message"] for item in items(told) if item["type"] == "error"] == [
        "the setting 'tui.theme' of Codex has no counterpart here and is ignored"
    ]
    refused = shell.hames("exec", "--json", "go", "-c", "model_reasoning_effort=high", "-m", "scripted/hello")
    assert refused.returncode == 2
    assert "has no option 'reasoning_effort'" in refused.stderr
    fine = shell.hames("exec", "--json", "go", "-c", 'web_search="disabled"', "-m", "scripted/hello")
    assert fine.returncode == 0, fine.stderr
    bad = shell.hames("exec", "--json", "go", "-c", "nonsense", "-m", "scripted/hello")
    assert bad.returncode == 2
    assert "KEY=VALUE" in bad.stderr


def test_what_started_a_thread_is_saved_with_it(shell: Shell) -> None:
    words = ("exec", "--json", "go", "--thread-source", "a-bot", "--cyber-access-program", "standard")
    told = events(shell.hames(*words, "--enable", "shell_tool", "-m", "scripted/hello").stdout)
    assert [item["message"] for item in items(told) if item["type"] == "error"] == [
        "the setting 'features.shell_tool' of Codex has no counterpart here and is ignored"
    ]
    (log,) = shell.folder.glob("**/.harness/threads/*/events.jsonl")
    assert '"threadSource":"a-bot"' in log.read_text()
    refused = shell.hames("exec", "--json", "go", "--cyber-access-program", "other", "-m", "scripted/hello")
    assert refused.returncode == 2


def test_codex_settings_are_translated() -> None:
    found = read_settings(
        [
            'model="gpt-5"',
            'model_provider="openai"',
            "sandbox_workspace_write.network_access=true",
            "features.web_search_request=true",
            "features.other=true",
            'openai_base_url="http://127.0.0.1:9"',
            'mcp_servers.docs.command="docs-server"',
            'mcp_servers.docs.args=["--fast"]',
        ]
    )
    assert found.values == {
        "model": "openai/gpt-5",
        "mcp_servers": {"docs": {"command": "docs-server", "args": ["--fast"]}},
    }
    assert found.workspace == {"network_access": True}
    assert found.options == {"web_search": "on"}
    assert found.environment == {"OPENAI_BASE_URL": "http://127.0.0.1:9"}
    assert found.unknown == ("features.other",)


def test_an_mcp_server_of_a_setting_is_there_for_the_model(shell: Shell) -> None:
    server = Path(__file__).parent / "mcp_server.py"
    model = shell.script([{"call": "mcp__test__add", "with": {"a": 1, "b": 2}}], "Done.")
    settings = (
        "-c",
        f"mcp_servers.test.command={json.dumps(sys.executable)}",
        "-c",
        f"mcp_servers.test.args={json.dumps([str(server)])}",
    )
    done = shell.hames("exec", "--json", *settings, "go", "-m", model)
    assert [item["server"] for item in items(events(done.stdout)) if item["type"] == "mcp_tool_call"] == ["test"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_turn_in_words(shell: Shell, number: signal.Signals) -> None:
    model = shell.script([{"say": "Wait."}, {"call": "shell", "with": {"command": "sleep 600"}}], "Never.")
    process = shell.start("exec", "--json", "go", "-m", model)
    assert process.stdout
    seen = ""
    for line in process.stdout:
        seen += line
        if "sleep 600" in line:
            process.send_signal(number)
            break
    rest, _ = process.communicate(timeout=60)
    told = events(seen + rest)
    assert process.returncode == 130
    assert told[-1] == {"type": "turn.failed", "error": {"message": "interrupted"}}
