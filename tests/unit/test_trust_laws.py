"""The classifier and the shell agree: on the words of every command, and on where each command runs."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hames.sandbox.trust.commands.command_line import MAX_PLACES, ShellState, follow
from hames.sandbox.trust.commands.doubt import Doubt
from hames.sandbox.trust.commands.paths import expand
from hames.sandbox.trust.commands.shell_words import SimpleCommand, read_commands
from hames.sandbox.trust.shell_trust import ShellTrust

TRUST = ShellTrust()
STUBS = ("ls", "cat", "grep", "head", "wc", "sort")

PLAIN = ("a", "b.txt", "-n", "-la", "src/x.py", "one,two", "a=b", "+3", "@x", "%s", ":", "über", "--", "-", "HEAD~1")
QUOTED = ("''", '""', "'a b'", '"a b"', "'$x'", "'*'", "';'", '"|"', "'#'", "'\\'", '"a\\.b"', "'\"'", '"\\"x\\""')
ESCAPED = ("\\(", "\\!", "\\ ", "\\*", "\\\\", '"^a$"', '"a\\|b"', '"!"', "@{1}", "a^", "x#y", "=", "!a")
GLOBS = ("*", "*.txt", "c*", "*a*", "./*", "--x=*", "*/", "**")
QUIET = (" 2>/dev/null", " >/dev/null 2>&1", " 2>&1", " </dev/null", " >&2")
TRICKY = ("$x", "`ls`", "$(ls)", "\\", "#", "~", "{a,b}", "!", "<", ">", "&", "(", ")", "^", "[a]", "?", "{", "}", "$?")
JOINTS = (" && ", " ; ", ";", "&&", " || ")

words = st.lists(st.sampled_from((*PLAIN, *QUOTED, *ESCAPED, *GLOBS)), min_size=0, max_size=3).map("".join)
command = st.tuples(st.sampled_from(STUBS), st.lists(words, max_size=4), st.sampled_from(("", "", *QUIET[2:3]))).map(
    lambda parts: " ".join((parts[0], *parts[1])) + parts[2]
)
lines = st.lists(st.tuples(command, st.sampled_from(JOINTS[:4])), max_size=2).flatmap(
    lambda pairs: command.map(lambda last: "".join((*(one + joint for one, joint in pairs), last)))
)
soup = st.lists(
    st.one_of(
        *(st.sampled_from(kind) for kind in (PLAIN, QUOTED, ESCAPED, GLOBS, QUIET, TRICKY, STUBS, (" ", "|", ";")))
    )
).map("".join)


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that only say what they were called with, among a few files to match."""
    directory = tmp_path_factory.mktemp("stubs")
    for name in STUBS:
        path = directory / name
        path.write_text("#!/bin/sh\nprintf '%s\\0' \"${0##*/}\" \"$@\"\nprintf '\\001'\n")
        path.chmod(0o755)
    for name in ("a", "b.txt", "c.txt", ".hidden", "-n", "--x=1", "d/e"):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).touch()
    return directory


def read_by_us(line: str, place: Path) -> list[list[str]] | None:
    """The words of every command, or nothing where the classifier does not get so far."""
    try:
        commands = read_commands(line)
        return [[text for word in simple.words for text in expand(word, str(place))] for simple in commands]
    except Doubt:
        return None


def bash(line: str, path: Path, cwd: Path) -> bytes:
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", line],
        env={"PATH": str(path), "LANG": "C.UTF-8", "LC_ALL": "C"},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    return done.stdout


def read_by_bash(line: str, stubs: Path) -> list[list[str]]:
    calls = bash(line, stubs, stubs).split(b"\1")
    return [call.decode().split("\0")[:-1] for call in calls if call]


@pytest.mark.needs("bash")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(line=lines)
def test_what_we_read_is_what_bash_starts(stubs: Path, line: str) -> None:
    ours = read_by_us(line, stubs)
    if ours is not None:
        assert ours == read_by_bash(line, stubs)


@given(line=soup)
def test_any_text_gets_a_verdict_and_doubt_gets_a_reason(line: str) -> None:
    verdict = TRUST.judge(line, cwd="/usr", workspace="/usr")
    assert verdict.trusted or verdict.reason
    assert "could not be checked" not in verdict.reason


@given(line=st.text())
def test_no_text_makes_the_classifier_fail(line: str) -> None:
    verdict = TRUST.judge(line, cwd="/", workspace="/")
    assert "could not be checked" not in verdict.reason


@pytest.mark.needs("bash")
def test_the_law_meets_commands_that_are_read(stubs: Path) -> None:
    line = 'ls -la \'a b\'"c d"e c* 2>/dev/null && cat \'$x\' "a\\.b" \\( ; wc \'\' "" "x$"'
    ours = [["ls", "-la", "a bc de", "c.txt", "cat"], ["cat", "$x", "a\\.b", "("], ["wc", "", "", "x$"]]
    read = read_by_us(line, stubs)
    assert read is not None
    assert [sorted(call) for call in read] == [sorted(call) for call in ours]
    assert read_by_bash(line.replace(" 2>/dev/null", ""), stubs) == read


class Recorder:
    """A judge who allows everything and remembers where."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.places: dict[str, set[str]] = {}

    def check(self, command: SimpleCommand, places: set[str]) -> None:
        self.places.setdefault(command.words[-1].text, set()).update(places)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Directories to enter, and a program that says where it runs."""
    root = tmp_path_factory.mktemp("tree").resolve()
    (root / "top/x/x/x").mkdir(parents=True)
    (root / "top/y").mkdir()
    (root / "bin").mkdir()
    probe = root / "bin/cat"
    probe.write_text('#!/bin/sh\nprintf \'%s %s\\n\' "$1" "$PWD"\nexit $((${1#p} % 2))\n')
    probe.chmod(0o755)
    yield root / "top"


moves = st.sampled_from(
    ("cd x", "cd y", "cd x/x", "cd ..", "cd .", "cd missing", "cd x/missing", "true", "false", "cat")
)
joints = st.sampled_from(("; ", " && ", " || "))
walks = st.lists(st.tuples(joints, moves), min_size=1, max_size=12)


@pytest.mark.needs("bash")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(walk=walks)
def test_every_command_of_a_list_runs_where_we_expect_it(tree: Path, walk: list[tuple[str, str]]) -> None:
    """Each `cat` says where it runs, and succeeds or fails by its number."""
    steps = [(joint, f"cat p{at}" if move == "cat" else move) for at, (joint, move) in enumerate(walk)]
    line = "".join(joint + step for joint, step in steps).removeprefix("; ").removeprefix(" && ").removeprefix(" || ")
    judge = Recorder(str(tree))
    try:
        ends = follow(read_commands(line), judge)
    except Doubt as doubt:
        assert "directories" in str(doubt)
        return
    told = bash(f"{line}\nprintf '%s %s\\n' $? \"$PWD\"", tree.parent / "bin", tree).decode().splitlines()
    *probes, end = (row.split(" ", 1) for row in told)
    for name, place in probes:
        assert place in judge.places[name]
    assert ShellState(place=end[1], worked=end[0] == "0") in ends


def test_a_shell_that_could_be_anywhere_is_not_followed(tree: Path) -> None:
    with pytest.raises(Doubt, match=f"more than {MAX_PLACES} directories"):
        follow(read_commands("; ".join(f"cd d{at}" for at in range(14))), Recorder(str(tree)))
    assert len(follow(read_commands(" && ".join(["cd x"] * 14)), Recorder(str(tree)))) == 15


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("true || cd x && cat", {"."}),
        ("false || cd x && cat", {"x"}),
        ("false && cd x || cat", {"."}),
        ("cd x || cat", {"."}),
        ("cd x; cat", {".", "x"}),
        ("cd x && ls || cat", {".", "x"}),
        ("ls && cd x; cat", {".", "x"}),
        ("cd x | ls; cat", {"."}),
    ],
)
def test_where_the_last_command_may_run(tree: Path, line: str, places: set[str]) -> None:
    judge = Recorder(str(tree))
    follow(read_commands(line), judge)
    assert judge.places["cat"] == {str((tree / place).resolve()) for place in places}
