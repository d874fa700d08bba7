"""The first answer comes before anything heavy is imported, and only when it is certain."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from bootstrap_process import BIN, INITIALIZE, run

from hames.cli import first_answer

HEAVY = {"anthropic", "openai", "pydantic", "starlette", "uvicorn", "textual", "rich", "mcp"}
EARLY = {"asyncio", "json", "typing", "re", "logging", "argparse", "msgspec", "anyio", "httpx2", "hames.app"}

MODULES_AT_THE_ANSWER = """
import sys
from hames.cli import first_answer
start = first_answer.start(["harness", "--cwd", "."])
sys.stderr.write("\\n".join(sorted(sys.modules)))
assert start.answered
"""
MODULES_AT_THE_END = """
import sys
from hames.cli.main import main
code = main(["harness"])
sys.stderr.write("\\n".join(sorted(sys.modules)))
sys.exit(code)
"""


def test_nothing_heavy_is_imported_before_the_first_answer(tmp_path: Path) -> None:
    done = run(tmp_path, [sys.executable, "-c", MODULES_AT_THE_ANSWER], input=INITIALIZE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["version"] == "1.0.0"
    assert set(done.stderr.decode().split()) & (EARLY | HEAVY) == set()


def test_nothing_that_is_not_needed_is_imported_to_serve_threads(tmp_path: Path) -> None:
    asked = INITIALIZE + b'{"jsonrpc":"2.0","id":2,"method":"thread.create"}\n'
    asked += b'{"jsonrpc":"2.0","id":3,"method":"thread.list"}\n'
    done = run(tmp_path, [sys.executable, "-c", MODULES_AT_THE_END], input=asked)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    assert set(done.stderr.decode().split()) & HEAVY == set()


def test_what_follows_the_first_line_is_not_lost(tmp_path: Path) -> None:
    asked = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"initialize"}\n' % number for number in range(500))
    done = run(tmp_path, [BIN / "bootstrap", "harness"], input=asked)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == list(range(500))


def early(line: bytes) -> Any:
    answer = first_answer._answer("harness", [], line)
    return None if answer is None else json.loads(answer)


@pytest.mark.parametrize("number", ["1", "-7", '"a"', '"\\u00e9\\n\\ud83d\\ude00"', "0"])
def test_a_plain_first_line_is_answered_early(number: str) -> None:
    answer = early(f'{{"jsonrpc":"2.0","id":{number},"method":"initialize","params":{{}}}}'.encode())
    assert answer["id"] == json.loads(number)
    assert answer["result"]["capabilities"]["persistence"] is True


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b'{"x":NaN}',
        b'{"id":1,"method":"initialize"}',
        b'{"jsonrpc":"2.0","id":null,"method":"initialize"}',
        b'{"jsonrpc":"2.0","id":true,"method":"initialize"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"initialize"}',
        b'{"jsonrpc":"2.0","method":"initialize"}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"initialize"}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":7}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"version":"1"}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":5}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize"} x',
        b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]',
        b'{"jsonrpc":"2.0","id":1,"method":"thread.list"}',
        b'{"jsonrpc":"2.0","id":"\xff","method":"initialize"}',
        b"[" * 100_000,
    ],
)
def test_any_other_first_line_is_left_to_the_real_peer(line: bytes) -> None:
    assert early(line) is None


@pytest.mark.parametrize(
    "flags", [["--help"], ["--bogus"], ["--cwd"], ["--cwd", "/no/such"], ["--cwd", "-x"], ["extra"], ["--cwd=/no"]]
)
def test_flags_that_may_be_wrong_are_parsed_before_anything_is_answered(tmp_path: Path, flags: list[str]) -> None:
    done = run(tmp_path, [BIN / "bootstrap", "harness", *flags], input=INITIALIZE)
    assert b"result" not in done.stdout
    assert done.returncode == (0 if flags == ["--help"] else 2)


@pytest.mark.parametrize("flags", [[], ["--cwd", "."], ["--cwd=.", "--log-level", "error"], ["--data-dir", "x"]])
def test_flags_that_are_certain_do_not_delay_the_answer(flags: list[str]) -> None:
    assert first_answer._plain(flags)


def test_a_first_line_that_comes_in_pieces_is_still_one_line(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, INITIALIZE[:20])
    os.write(writing, INITIALIZE[20:] + b"the rest")
    assert first_answer._first_line(reading) == INITIALIZE + b"the rest"
    os.close(writing)
    os.close(reading)
