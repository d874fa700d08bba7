"""`hames threads check`: damage is found and named, and mended with `--repair`."""

import json
from pathlib import Path

import pytest
from cli_process import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def logs(shell: Shell) -> list[Path]:
    return sorted((shell.workspace / ".harness" / "threads").glob("*/events.jsonl"))


def test_damage_is_named_and_mended(shell: Shell) -> None:
    assert shell.hames("threads", "check").stdout == "0 logs checked, all whole\n"
    for _ in range(4):
        assert shell.hames("run", "hi", "--model", "scripted/hello").returncode == 0
    assert shell.hames("threads", "check").stdout == "4 logs checked, all whole\n"
    middle, first, tail, _ = logs(shell)
    lines = middle.read_bytes().splitlines(keepends=True)
    middle.write_bytes(b"".join([*lines[:2], b"{" + lines[2], *lines[3:]]))
    first.write_bytes(b"x" + first.read_bytes())
    tail.write_bytes(tail.read_bytes() + b'{"seq":')
    done = shell.hames("threads", "check")
    assert done.returncode == 1
    assert "4 logs checked, 3 damaged" in done.stdout
    said = {line.split("  ", 1)[0]: line.split("  ", 1)[1] for line in done.stdout.splitlines() if "  " in line}
    assert said[middle.parent.name] == "1 damaged line was skipped"
    assert "the first line is missing; meta.json has a copy" in said[first.parent.name]
    assert said[tail.parent.name] == "the last 7 bytes are not a whole line"
    assert len(json.loads(shell.hames("threads", "check", "--json").stdout)["damaged"]) == 3
    mended = shell.hames("threads", "check", "--repair")
    assert (mended.returncode, mended.stdout.count("repaired: whatever was open is closed")) == (0, 3)
    assert shell.hames("threads", "check").stdout == "4 logs checked, all whole\n"
    for path in (middle, first, tail):
        shown = shell.hames("threads", "show", path.parent.name)
        assert "hi" in shown.stdout, shown.stderr


def test_what_cannot_be_mended_is_said(shell: Shell) -> None:
    assert shell.hames("run", "hi", "--model", "scripted/hello").returncode == 0
    (log,) = logs(shell)
    log.write_bytes(b"nothing\n")
    log.with_name("meta.json").unlink()
    done = shell.hames("threads", "check", "--repair")
    assert done.returncode == 1
    assert "the first line is missing, and there is no copy" in done.stdout
    assert "not repaired" in done.stdout
    assert shell.hames("threads", "check", "nobody").returncode == 1
    assert "belongs to check" in shell.hames("threads", "list", "--repair").stderr
