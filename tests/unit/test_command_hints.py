"""What a model is told about limits and about what the sandbox does not show."""

import signal
from pathlib import Path

import pytest

from hames.domain.policy import DangerFullAccess, WorkspaceWrite
from hames.ports import Limits
from hames.tools.command_hints import limit_hints, looks_hidden

LIMITS = Limits(memory_bytes=2 << 30, file_bytes=1 << 30, processes=100)


@pytest.mark.parametrize(
    ("output", "code", "hint"),
    [
        ("", -signal.SIGXFSZ, "file size limit: one file may have 1 GiB"),
        ("", 128 + signal.SIGXFSZ, "file size limit"),
        ("OSError: [Errno 27] File too large", 1, "file size limit"),
        ("Error: EFBIG: file too large, write", 1, "file size limit"),
        ("MemoryError", 1, "memory limit: a command may use 2 GiB memory"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", 134, "memory limit"),
        ("java.lang.OutOfMemoryError: Java heap space", 1, "memory limit"),
        ("fatal error: runtime: cannot allocate memory", 2, "memory limit"),
        ("memory allocation of 4294967296 bytes failed", 134, "memory limit"),
        ("ReserveShadowMemoryRange failed while trying to map 0xdfff", 1, "ulimit -d unlimited"),
        ("bash: fork: retry: Resource temporarily unavailable", 254, "process limit: a command may have 100 processes"),
        ("RuntimeError: can't start new thread", 1, "process limit"),
        ("tar: write error: No space left on device", 1, "large files belong in the workspace"),
    ],
)
def test_a_limit_that_was_met_is_named(output: str, code: int, hint: str) -> None:
    hints = limit_hints(output, code, LIMITS, WorkspaceWrite())
    assert len(hints) == 1
    assert hint in hints[0]


def test_a_limit_that_does_not_exist_is_not_named() -> None:
    none = Limits(memory_bytes=0, file_bytes=0, processes=0)
    output = "MemoryError File too large Resource temporarily unavailable No space left on device"
    assert limit_hints(output, 1, none, DangerFullAccess()) == []
    assert "three quarters" in limit_hints("MemoryError", 1, Limits(), WorkspaceWrite())[0]
    assert limit_hints("exit code 1: assertion failed", 1, LIMITS, WorkspaceWrite()) == []


def test_a_missing_file_outside_may_be_hidden_and_one_inside_is_missing(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/data/sets")

    def hidden(text: str) -> bool:
        return looks_hidden(text, cwd=str(tmp_path), roots=[str(tmp_path)])

    for text in (
        "cat: /data/set: No such file or directory",
        "cat: '/home/me/x y': No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/x'",
        "Error: ENOENT: no such file or directory, open '/srv/app.json'",
        "cat: ../../../../../../../neighbour/file: No such file or directory",
        "cat: out/train.csv: No such file or directory",
    ):
        assert hidden(text), text
    for text in (
        "cat: missing.txt: No such file or directory",
        "cat: src/missing.txt: No such file or directory",
        f"cat: {tmp_path}/missing: No such file or directory",
        "/usr/bin/env: 'python9': No such file or directory",
        "cat: /etc/missing: No such file or directory",
        "reading /data/set took 5 s",
    ):
        assert not hidden(text), text
