"""Why a command is asked about, in the words that a person reads beside it."""

from pathlib import Path

import pytest

from hames.sandbox.trust.shell_trust import ShellTrust


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("stats.py", "test.py", "a b.py", ".env"):
        (tmp_path / name).write_text("x\n")
    return tmp_path


def reason(command: str, workspace: Path) -> str:
    verdict = ShellTrust().judge(command, cwd=str(workspace), workspace=str(workspace))
    assert not verdict.trusted
    return verdict.reason


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("sed -i s/a/b/ stats.py", "stats.py"),
        ("sed -i.bak 's/a/b/' stats.py", "stats.py"),
        ("sed --in-place s/a/b/ stats.py", "stats.py"),
        ("sed --in-place=.bak s/a/b/ stats.py", "stats.py"),
        ("sed -Ei s/a/b/ stats.py test.py", "stats.py and test.py"),
        ("sed -n -i -e 1p -e 2p stats.py", "stats.py"),
        ("sed -e 1d -i stats.py", "stats.py"),
        ("sed --expression=1d -i stats.py", "stats.py"),
        ("sed s/a/b/ -i 'a b.py'", "a b.py"),
        ("sed -i s/a/b/ 1 2 3 4 5", "5 files"),
        ("sed -i s/a/b/", "files"),
    ],
)
def test_sed_in_place_names_what_it_changes(command: str, files: str, workspace: Path) -> None:
    assert reason(command, workspace) == f"changes {files} in place"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python3 x.py", "`python3` runs code, which may change files"),
        ("/usr/bin/python3.12 -m unittest", "`/usr/bin/python3.12` runs code, which may change files"),
        ("pytest -q", "`pytest` runs code, which may change files"),
        ("make test", "`make` runs code, which may change files"),
        ("./run.sh", "`./run.sh` may change files"),
        ("rm -rf build", "`rm` deletes files"),
        ("mv a b", "`mv` moves or renames files"),
        ("cp a b", "`cp` writes files"),
        ("mkdir x", "`mkdir` creates a directory"),
        ("curl https://example.org", "`curl` uses the network"),
        ("frobnicate", "`frobnicate` may change files"),
        ("git commit -m x", "`git commit` may change the repository"),
        ("git stash pop", "`git stash pop` may change the repository"),
        ("git branch new", "`git branch new` would create a branch"),
        ("sort -o out stats.py", "`sort -o` may do more than read files"),
        ("git log --output=x", "`git log --output` may do more than read files"),
        ("find . -delete", "`find -delete` may do more than search"),
        ("cat .env", "the file `.env` may hold a secret"),
        ("cat /etc/passwd", "`/etc/passwd` is outside the workspace"),
        ("grep -rv zzz .", "it would show every line of every file, secrets included"),
    ],
)
def test_a_reason_says_what_may_happen(command: str, words: str, workspace: Path) -> None:
    assert reason(command, workspace) == words


def test_no_reason_speaks_of_our_own_lists(workspace: Path) -> None:
    commands = [
        "python3 x",
        "git push",
        "ls --frobnicate",
        "find . -exec x",
        "git stash",
        "awk 1 -v",
        "jq input_line_number",
    ]
    assert not [reason(command, workspace) for command in commands if "list" in reason(command, workspace)]
