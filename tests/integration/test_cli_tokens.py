"""`hames tokens`, in the test's own process."""

from pathlib import Path

import pytest

from hames.cli.main import main
from hames.server.guard.named_tokens import TokenFile


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HAMES_STATE", str(tmp_path))
    return Path(tmp_path)


def test_a_token_is_made_listed_and_revoked(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tokens", "add", "alice", "--role", "driver"]) == 0
    token = capsys.readouterr().out.strip()
    assert token.startswith("hames_")
    assert main(["tokens", "add", "ci", "--role", "observer", "--expires", "30d"]) == 0
    capsys.readouterr()
    assert main(["tokens", "list"]) == 0
    listed = capsys.readouterr().out
    assert token not in listed
    assert [line.split()[:3] for line in listed.splitlines()] == [
        ["alice", "driver", "until"],
        ["ci", "observer", "until"],
    ]
    assert main(["tokens", "revoke", "alice"]) == 0
    assert [one.name for one in TokenFile(_tokens(state)).read()] == ["ci"]


def _tokens(state: Path) -> Path:
    return next(state.rglob("tokens.json")).parent


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("revoke", "nobody"), "no token 'nobody'"),
        (("add", "a b", "--role", "driver"), "can't be the name"),
        (("add", "x", "--role", "driver", "--expires", "soon"), "not a time"),
        (("add", "x", "--role", "driver", "--expires", "0d"), "not a time"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    state: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert main(["tokens", *words]) == 2
    assert says in capsys.readouterr().err
    assert not list(state.rglob("tokens.json"))
