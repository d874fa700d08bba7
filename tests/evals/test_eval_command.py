"""`hames eval` as a command: its table, its JSON, its files, its exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from eval_support import TASKS

from hames.cli.main import main

pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HAMES_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HAMES_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)


def hames(*words: str) -> int:
    try:
        return main(["eval", *words])
    except SystemExit as end:
        return int(str(end.code))


def test_a_table_and_the_exit_code_say_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert hames(str(TASKS), "--only", "fix-r*", "--agent", "oracle") == 0
    head, row, _, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["task", "passed", "steps", "calls", "tokens", "in", "out", "cost", "time"]
    assert row.split()[:4] == ["fix-rounding", "1/1", "4", "3"]
    assert last.split()[:3] == ["1", "tasks", "1/1"]

    assert hames(str(TASKS / "fix-rounding"), "--agent", "nothing") == 1
    told = capsys.readouterr().out
    assert "0/1" in told
    assert "fix-rounding (1): the check failed: the shares are wrong" in told


def test_results_and_trajectories_are_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert hames(str(TASKS / "fix-rounding"), "--agent", "oracle", "--json", "--out", str(out)) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "results.json").read_text())
    assert (printed["agent"], printed["passed"], printed["trials"]) == ("oracle", 1, 1)
    assert printed["results"][0]["steps"] == 4
    assert json.loads((out / "fix-rounding-1" / "trajectory.json").read_text())["agent"]["name"] == "hames"
    assert (out / "fix-rounding-1" / "check.txt").exists()


def test_a_saved_thread_is_exported_as_a_trajectory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data-dir", str(tmp_path / "data")]
    assert main(["run", "Greet me", "--model", "scripted/hello", "--quiet", *data]) == 0
    capsys.readouterr()
    assert main(["threads", "export", "last", "--format", "trajectory", *data]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema_version"] == "ATIF-v1.7"
    assert [(step["source"], step["message"][:8]) for step in told["steps"]] == [
        ("user", "Greet me"),
        ("agent", "Hello. I"),
    ]


def test_nothing_is_left_behind_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert hames(str(TASKS / "fix-rounding"), "--agent", "oracle") == 0
    assert list(temporary.glob("hames-eval-*")) == []
    assert hames(str(TASKS / "fix-rounding"), "--agent", "oracle", "--keep") == 0
    kept = capsys.readouterr().err.removeprefix("kept: ").strip()
    assert "divmod" in (Path(kept) / "fix-rounding-1" / "workspace" / "money.py").read_text()


def test_what_had_ended_before_an_interrupt_is_shown(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    for name, replies in (
        ("a", ["Done."]),
        ("b", [[{"call": "shell", "with": {"command": "true"}}], [{"hang": True}]]),
    ):
        (tasks / name / "workspace").mkdir(parents=True)
        (tasks / name / "task.toml").write_text('prompt = "Do it."\n')
        (tasks / name / "check.sh").write_text("true\n")
        (tasks / name / "oracle.json").write_text(json.dumps(replies))
    words = [sys.executable, "-m", "hames", "eval", str(tasks), "--agent", "oracle", "--out", str(tmp_path / "out")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        until = time.monotonic() + 60
        while not any(
            "tool_called" in log.read_text() for log in tmp_path.glob("hames-eval-*/b-1/data/threads/*/*.jsonl")
        ):
            assert time.monotonic() < until, "the second task never began"
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out.splitlines()[1].split()[:2] == ["a", "1/1"]
    assert "interrupted: 1 of 2 trials ended" in err
    assert json.loads((tmp_path / "out" / "results.json").read_text())["trials"] == 1
    assert list(tmp_path.glob("hames-eval-*")) == []


def test_tasks_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert hames(str(TASKS), "--list", "--only", "merge-*") == 0
    assert capsys.readouterr().out.splitlines() == [
        "merge-conflict-both-sides  merge conflict",
        "merge-conflict-rebase      merge conflict",
        "merge-conflict-semantic    merge conflict",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "which tasks?"),
        (["nowhere"], "no folder 'nowhere'"),
        ([str(TASKS), "--only", "zzz"], "no task is named like zzz"),
        ([str(TASKS), "--agent", "oracle", "--model", "scripted/hello"], "plays a script and has no model"),
        ([str(TASKS), "--command", "x", "--model", "y"], "--command can't be used with --model or --agent"),
        ([str(TASKS), "--command", "'"], "--command cannot be read"),
        ([str(TASKS), "--command", " "], "--command is empty"),
        ([str(TASKS), "--command", "true", "--budget", "1"], "--budget cannot be kept with --command"),
        ([str(TASKS), "--model", "no/such-model"], "no/such-model"),
        ([str(TASKS), "--model", "anthropic/claude-sonnet-4-5"], "its provider has no key"),
        ([str(TASKS), "--agent", "nobody"], "nobody"),
        ([str(TASKS), "--budget", "nan", "--agent", "oracle"], "not an amount of US dollars above 0"),
        ([str(TASKS), "--budget", "-1", "--agent", "oracle"], "not an amount of US dollars above 0"),
        ([str(TASKS), "--jobs", "0", "--agent", "oracle"], "is not a number above 0"),
    ],
)
def test_a_bad_option_starts_nothing(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hames(*words) == 2
    told = capsys.readouterr()
    assert sentence in " ".join(told.err.split())
    assert told.out == ""


def test_tasks_are_written_in_the_layout_of_harbor(tmp_path: Path) -> None:
    out = tmp_path / "harbor"
    assert hames(str(TASKS), "--export-harbor", str(out)) == 0
    written = sorted(path.name for path in out.iterdir())
    assert written == sorted(path.parent.name for path in TASKS.glob("*/task.toml"))
    task = out / "merge-conflict-rebase"
    assert (task / "instruction.md").read_text().startswith("A rebase of the branch")
    assert "RUN bash /tmp/setup.sh" in (task / "environment" / "Dockerfile").read_text()
    assert "/bin/bash /tests/check.sh" in (task / "tests" / "test.sh").read_text()
    assert (task / "solution" / "solve.sh").exists()
    assert not list(out.rglob("oracle.json"))
