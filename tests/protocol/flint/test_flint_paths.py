"""A path with a NUL in it is refused where it is read, in words that name the member, and reaches no file system."""

import pytest

from hames.domain.errors import InvalidCommand
from hames.domain.json import Json
from hames.protocols.flint import inbound

TURN = {"threadId": "ses_1"}


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("thread/start", {"cwd": "/tmp/a\0b"}, "cwd: must be an absolute path"),
        ("thread/start", {"cwd": "\0"}, "cwd: must be an absolute path"),
        ("thread/resume", {"threadId": "ses_1", "cwd": "/\0"}, "cwd: must be an absolute path"),
        (
            "turn/start",
            {**TURN, "input": [{"type": "localImage", "path": "\0.png"}]},
            r"input\[0\].path: is not a path",
        ),
        ("turn/start", {**TURN, "input": [{"type": "file", "path": "\0"}]}, r"input\[0\].path: is not a path"),
        ("turn/start", {**TURN, "input": [{"type": "file", "path": ""}]}, r"input\[0\].path: is not a path"),
    ],
)
def test_a_path_with_a_nul_is_refused_by_the_name_of_its_member(method: str, params: Json, words: str) -> None:
    with pytest.raises(InvalidCommand, match=words):
        inbound.decode(method, params)


def test_the_same_paths_without_it_are_taken() -> None:
    inbound.decode("thread/start", {"cwd": "/tmp/ab"})
    inbound.decode("turn/start", {**TURN, "input": [{"type": "file", "path": "a"}]})
