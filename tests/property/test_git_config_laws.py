"""Our reading of a git configuration is git's own, and what is called harmless really is all that git still sees."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hames.sandbox.walls.after_command.git.config import ConfigJudge, UnreadableConfig, read_config, without_settings

pytestmark = pytest.mark.needs("git")

PIECES = [
    *(
        "[core]",
        "[CoRe]",
        "[core.sub]",
        '[remote "a b"]',
        '[alias "x\\"y"]',
        "[include]",
        '[includeIf "gitdir:**"]',
        "[",
        "]",
    ),
    *("fsmonitor", "bare", "url", "path", "st", "hooksPath", "a-b", "1x", "_x"),
    *("=", " = ", "\t", " ", "  ", "\n", "\n\n", "\r\n", "\r", "\\\n", "\\", '"', "#", ";", "# comment", "!touch x"),
    *("true", "false", ".git/x", "ext::sh", "\\n", "\\t", "\\q", "é", "\ufeff", "\x0b", "\x0c", "\x00", "\x7f"),
]
texts = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)
lines = st.lists(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["[core]\n", '[filter "x"]\n', "[alias]", "\n", "[core] ", '[remote "o"]\n\t', "\t"]),
        st.sampled_from(["fsmonitor", "clean", "St", "url", "HOOKSPATH", "bare", "", "fsmonitor\t", "#x"]),
        st.sampled_from(["=x\n", " = x\n", "\n", ' = "a # b" ; c\n', " = a\\\n b\n", " = ext::x\r\n", ' = "x\n', "="]),
    ),
    max_size=8,
).map("".join)


def as_git_reads_it(content: bytes, place: Path) -> list[tuple[str, str | None]] | None:
    """None: git refuses it."""
    file = place / "config"
    file.write_bytes(content)
    done = subprocess.run(
        ["git", "config", "--file", str(file), "--no-includes", "--list", "-z"],
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"},
        cwd="/",
        check=False,
    )
    if done.returncode != 0:
        return None
    entries = [entry.decode("utf-8", "surrogateescape").partition("\n") for entry in done.stdout.split(b"\0") if entry]
    return [(key, value if found else None) for key, found, value in entries]


def spaced(value: str | None) -> str | None:
    """Versions of git differ in which kind of white space they keep inside a value."""
    return value if value is None else " ".join(value.split())


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(texts, lines))
def test_what_git_accepts_is_read_the_same_or_not_at_all(text: str, tmp_path: Path) -> None:
    content = text.encode("utf-8", "surrogateescape")
    git = as_git_reads_it(content, tmp_path)
    try:
        ours = [(setting.key, setting.value) for setting in read_config(content)]
    except UnreadableConfig:
        return
    assert git is not None, "git refuses what we accept"
    assert [(key, spaced(value)) for key, value in ours] == [(key, spaced(value)) for key, value in git]


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(texts, lines))
def test_git_sees_no_harmful_setting_once_they_are_disabled(text: str, tmp_path: Path) -> None:
    content = text.encode("utf-8", "surrogateescape")
    judge = ConfigJudge((), inside=lambda path: True)
    try:
        before = read_config(content)
        harmless, removed = without_settings(content, judge.harmful)
    except UnreadableConfig:
        return
    git = as_git_reads_it(harmless, tmp_path)
    kept = [setting for setting in before if not judge.harmful(setting)]
    assert git is not None
    assert [(key, spaced(value)) for key, value in git] == [(item.key, spaced(item.value)) for item in kept]
    assert len(removed) == len(before) - len(kept)
    if not removed:
        assert harmless == content
