"""The classifier and the shell read the same words: whatever is trusted, bash starts exactly that."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hames.sandbox.calls import Doubt
from hames.sandbox.trust import ShellTrust, _commands, _lexed, _plain

TRUST = ShellTrust()
STUBS = ("ls", "cat", "grep", "head", "wc", "sort")

PLAIN = ("a", "b.txt", "-n", "-la", "src/x.py", "one,two", "a=b", "+3", "@x", "%s", ":", "über", "--", "-")
QUOTED = ("''", '""', "'a b'", '"a b"', "'$x'", "'*'", "';'", '"|"', "'#'", "'\\'", '"a\\.b"', "'\"'")
TRICKY = ("$x", "*", "`ls`", "$(ls)", "\\", "#", "~", "{a,b}", "!", "<", ">", "&", "(", ")", "=", "^", "[a]")
JOINTS = (" && ", " ; ", ";", "&&")

plain, quoted, tricky, joint = (st.sampled_from(kind) for kind in (PLAIN, QUOTED, TRICKY, JOINTS))
words = st.lists(st.one_of(plain, quoted), min_size=0, max_size=3).map("".join)
command = st.tuples(st.sampled_from(STUBS), st.lists(words, max_size=4)).map(lambda pair: " ".join((pair[0], *pair[1])))
lines = st.lists(st.tuples(command, joint), max_size=2).flatmap(
    lambda pairs: command.map(lambda last: "".join((*(one + joint for one, joint in pairs), last)))
)
soup = st.lists(st.one_of(plain, quoted, tricky, st.sampled_from([" ", "|", ";", "&&", "ls", "cat"]))).map("".join)


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that only say what they were called with."""
    directory = tmp_path_factory.mktemp("stubs")
    for name in STUBS:
        path = directory / name
        path.write_text("#!/bin/sh\nprintf '%s\\0' \"${0##*/}\" \"$@\"\nprintf '\\001'\n")
        path.chmod(0o755)
    return directory


def read_by_us(line: str) -> list[list[str]] | None:
    """The words of every command, or nothing where the classifier does not get so far."""
    try:
        source = _plain(line)
        _lexed(line)
        return [simple.words for simple in _commands(TRUST._parse(source), source)]
    except Doubt:
        return None


def read_by_bash(line: str, stubs: Path) -> list[list[str]]:
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", line],
        env={"PATH": str(stubs), "LANG": "C.UTF-8"},
        cwd=stubs,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=10,
        check=False,
    )
    return [call.decode().split("\0")[:-1] for call in done.stdout.split(b"\1") if call]


@pytest.mark.needs("bash")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(line=lines)
def test_what_we_read_is_what_bash_starts(stubs: Path, line: str) -> None:
    ours = read_by_us(line)
    if ours is not None:
        assert ours == read_by_bash(line, stubs)


@given(line=soup)
def test_any_text_gets_a_verdict_and_doubt_gets_a_reason(line: str) -> None:
    verdict = TRUST.judge(line, cwd="/usr", workspace="/usr")
    assert verdict.trusted or verdict.reason


@given(line=st.text())
def test_no_text_makes_the_classifier_fail(line: str) -> None:
    verdict = TRUST.judge(line, cwd="/", workspace="/")
    assert "could not be judged" not in verdict.reason


def test_the_law_meets_commands_that_are_read(stubs: Path) -> None:
    line = "ls -la 'a b'\"c d\"e && cat '$x' \"a\\.b\" ; wc '' \"\""
    assert read_by_us(line) == [["ls", "-la", "a bc de"], ["cat", "$x", "a\\.b"], ["wc", "", ""]]
    assert read_by_bash(line, stubs) == read_by_us(line)
