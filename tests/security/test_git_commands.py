"""Git reads without a question only where the repository cannot make it start a program."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from walls import WRITE, run

from hames.domain.policy import ReadOnly
from hames.sandbox.trust.commands import git as tables
from hames.sandbox.trust.shell_trust import ShellTrust

pytestmark = pytest.mark.needs("git")

TRUST = ShellTrust()
CALLS = (
    *("status", "diff", "log -p -1", "show", "blame a.txt", "describe --always --dirty", "ls-files -m", "grep one"),
    *("stash list", "submodule status", "branch -a", "rev-parse HEAD", "--no-pager status -s"),
)
ENVIRON = {"PATH": os.defpath, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_ALLOW_PROTOCOL": "file"}


def git(here: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=n@example.com", *words],
        cwd=here,
        env=ENVIRON,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def made(here: Path) -> Path:
    here.mkdir(parents=True, exist_ok=True)
    (here / "a.txt").write_text("one\n")
    git(here, "init", "-q", "-b", "main")
    git(here, "add", "a.txt")
    git(here, "commit", "-q", "-m", "one")
    return here


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return made(tmp_path / "workspace")


def reason(words: str, workspace: Path, cwd: Path | None = None) -> str:
    """Why it is asked about, or nothing."""
    verdict = TRUST.judge(f"git {words}", cwd=str(cwd or workspace), workspace=str(workspace))
    assert verdict.trusted != bool(verdict.reason)
    assert verdict.sandbox_only or not verdict.trusted
    return verdict.reason


def config(*words: str) -> Callable[[Path], None]:
    return lambda here: git(here, "config", *words) and None


def written(text: str, name: str = ".git/config") -> Callable[[Path], None]:
    def write(here: Path) -> None:
        with (here / name).open("a", newline="") as file:
            file.write(text)

    return write


def worktree_config(here: Path) -> None:
    git(here, "config", "extensions.worktreeConfig", "true")
    git(here, "config", "--worktree", "core.fsmonitor", "./evil.sh")


def gitlink(*settings: str, path: str = "lib") -> Callable[[Path], None]:
    """A repository inside that the index links to, without any `.gitmodules`."""

    def link(here: Path) -> None:
        inner = made(here / path)
        git(inner, "config", *settings)
        git(here, "add", path)

    return link


def submodule(here: Path) -> None:
    """One whose repository lies in `.git/modules`, and whose filter is its own."""
    made(here.parent / "other")
    git(here, "submodule", "--quiet", "add", str(here.parent / "other"), "lib")
    git(here / "lib", "config", "filter.x.clean", "./evil.sh")


def gitlink_in_gitlink(here: Path) -> None:
    inner = made(here / "lib")
    gitlink("core.fsmonitor", "./evil.sh", path="deep")(inner)
    git(here, "add", "lib")


def long_index(here: Path) -> None:
    """Version 4 leaves out what a path shares with the one before it."""
    for number in range(50):
        (here / f"directory/{number}").mkdir(parents=True)
        (here / f"directory/{number}/file").touch()
    git(here, "add", "directory")
    gitlink("core.fsmonitor", "./evil.sh", path="directory/49/lib")(here)
    git(here, "update-index", "--index-version", "4")


def split_index(here: Path) -> None:
    gitlink("core.fsmonitor", "./evil.sh")(here)
    git(here, "update-index", "--split-index")


def elsewhere(here: Path) -> None:
    other = made(here.parent / "other")
    (here / ".git").rename(here / "git-away")
    (here / ".git").write_text(f"gitdir: {other}/.git\n")


def link_to_git(here: Path) -> None:
    (here / ".git").rename(here / "git-away")
    (here / ".git").symlink_to("git-away")


def borrowed_settings(here: Path) -> None:
    made(here.parent / "other")
    (here / ".git/commondir").write_text(f"{here.parent}/other/.git\n")


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a monitor": config("core.fsmonitor", "./evil.sh"),
    "a clean filter": config("filter.x.clean", "./evil.sh"),
    "a process filter": config("filter.x.process", "./evil.sh"),
    "git-lfs, but not quite": config("filter.lfs.clean", "git-lfs clean -- %f; ./evil.sh"),
    "an external diff": config("diff.external", "./evil.sh"),
    "a diff driver": config("diff.x.command", "./evil.sh"),
    "textconv": config("diff.x.textconv", "./evil.sh"),
    "a pager": config("core.pager", "./evil.sh"),
    "a pager of one command": config("pager.log", "./evil.sh"),
    "signatures": config("gpg.program", "./evil.sh"),
    "a signature in the format": config("format.pretty", "%G?"),
    "an ssh command": config("core.sshCommand", "./evil.sh"),
    "objects to fetch": config("remote.origin.promisor", "true"),
    "a program at the other end": config("remote.origin.uploadpack", "./evil.sh"),
    "alternate refs": config("core.alternateRefsCommand", "./evil.sh"),
    "another working tree": config("core.worktree", "/"),
    "an include": config("include.path", "../evil.config"),
    "a conditional include": config("includeIf.gitdir:/.path", "../evil.config"),
    "a merge driver": config("merge.x.driver", "./evil.sh"),
    "settings of the working tree": worktree_config,
    "one line": written("[core] fsmonitor = ./evil.sh\n"),
    "upper case": written("[CORE]\n\tFSMonitor = ./evil.sh\n"),
    "no blanks": written("[core]\nfsmonitor=./evil.sh\n"),
    "quotes": written('[core]\n\tfsmonitor = "./evil.sh"\n'),
    "a continued line": written("[core]\n\tfsmon\\\nitor = ./evil.sh\n"),
    "a continued value": written("[user]\n\tname = a \\\n[core]\n\tfsmonitor = ./evil.sh\n"),
    "carriage returns": written("[core]\r\n\tfsmonitor = ./evil.sh\r\n"),
    "a lone carriage return": written("[user]\n\tname = x\r[core]\r\tfsmonitor = ./evil.sh\n"),
    "a comment before": written("# x\n[core] ; y\n\tfsmonitor = ./evil.sh\n"),
    "an old section": written("[filter.x]\n\tclean = ./evil.sh\n"),
    "a quoted section": written('[filter "a\\"]b"]\n\tclean = ./evil.sh\n'),
    "no newline at the end": written("[core]\n\tfsmonitor = ./evil.sh"),
    "bytes that are no text": lambda here: (here / ".git/config").write_bytes(b"\xff\xfe[core]\n") and None,
    "a monitor in a linked repository": gitlink("core.fsmonitor", "./evil.sh"),
    "a filter in a linked repository": gitlink("filter.x.clean", "./evil.sh"),
    "a submodule": submodule,
    "a linked repository in a linked repository": gitlink_in_gitlink,
    "an index of version 4": long_index,
    "a split index": split_index,
    "the repository of another directory": elsewhere,
    "a link": link_to_git,
    "borrowed settings": borrowed_settings,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.spec("flint/policy-unless-trusted")
def test_CMD_GIT_a_repository_that_could_start_a_program_is_asked_about(repository: Path, name: str) -> None:
    HOSTILE[name](repository)
    assert [words for words in CALLS if not reason(words, repository)] == []


def test_the_reason_names_the_setting(repository: Path) -> None:
    git(repository, "config", "filter.x.clean", "./evil.sh")
    assert "`filter.x.clean`" in reason("status", repository)


def test_a_pipe_in_place_of_the_settings_is_not_waited_for(repository: Path) -> None:
    (repository / ".git/config").unlink()
    os.mkfifo(repository / ".git/config")
    assert "not a regular file" in reason("status", repository)


def husky(here: Path) -> None:
    git(here, "config", "core.hooksPath", ".husky/_")
    (here / ".git/hooks/post-index-change").write_text("#!/bin/sh\n")


def worktree(here: Path) -> None:
    """The workspace is a second working tree of a repository elsewhere."""
    other = made(here.parent / "other")
    (here / ".git").rename(here.parent / "git-away")
    (here / "a.txt").unlink()
    here.rmdir()
    git(other, "worktree", "add", "-q", str(here))


def inside_a_submodule(here: Path) -> None:
    """The workspace is a submodule of a repository elsewhere."""
    made(here.parent / "source")
    outer = made(here.parent / "outer")
    git(outer, "submodule", "--quiet", "add", str(here.parent / "source"), "lib")
    (here / "a.txt").unlink()
    (here / ".git").rename(here.parent / "git-away")
    here.rmdir()
    (outer / "lib").rename(here)
    (here / ".git").write_text(f"gitdir: {outer}/.git/modules/lib\n")
    git(here.parent, "config", "--file", str(outer / ".git/modules/lib/config"), "core.worktree", str(here))


def clean_submodule(here: Path) -> None:
    made(here.parent / "other")
    git(here, "submodule", "--quiet", "add", str(here.parent / "other"), "lib")


ORDINARY: dict[str, Callable[[Path], None]] = {
    "nothing special": lambda _: None,
    "hooks": husky,
    "a remote": config("remote.origin.url", "git@example.com:a/b.git"),
    "an alias": config("alias.co", "!touch x"),
    "git-lfs": config("filter.lfs.process", "git-lfs filter-process"),
    "the monitor of git itself": config("core.fsmonitor", "true"),
    "comments": written('# a comment\n; another\n\n[branch "a.b/c"]\n\tmerge = refs/heads/a\n'),
    "carriage returns": written("[user]\r\n\tname = x\r\n"),
    "attributes": written("*.txt filter=x diff=y\n", ".gitattributes"),
    "a submodule": clean_submodule,
    "a linked repository": gitlink("user.name", "n"),
    "an untracked repository inside": lambda here: config("core.fsmonitor", "./evil.sh")(made(here / "vendor")),
    "a second working tree": worktree,
    "a workspace that is a submodule": inside_a_submodule,
}


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_repository_is_read_without_a_question(repository: Path, name: str) -> None:
    ORDINARY[name](repository)
    assert {words: why for words in CALLS if (why := reason(words, repository))} == {}


def test_without_a_repository_git_has_nothing_to_obey(tmp_path: Path) -> None:
    assert reason("status", tmp_path) == ""


def test_a_repository_above_the_workspace_is_asked_about(repository: Path) -> None:
    (repository / "packages").mkdir()
    assert "outside the workspace" in reason("status", repository / "packages")
    assert reason("status", repository, cwd=repository / "packages") == ""


@pytest.mark.parametrize("name", ["sub", "sub.git"])
def test_CMD_GIT_5_an_embedded_bare_repository_is_asked_about(repository: Path, name: str) -> None:
    git(repository, "init", "-q", "--bare", name)
    git(repository / name, "config", "core.fsmonitor", "../evil.sh")
    assert "bare repository" in reason("status", repository, cwd=repository / name)
    assert not TRUST.judge(f"cd {name} && git status", cwd=str(repository), workspace=str(repository)).trusted
    assert not TRUST.judge(f"git -C {name} status", cwd=str(repository), workspace=str(repository)).trusted
    assert reason("status", repository) == ""


def test_a_password_in_the_address_of_a_remote_is_not_shown(repository: Path) -> None:
    git(repository, "config", "remote.origin.url", "https://user:secret@example.com/a.git")
    assert "password" in reason("remote -v", repository)
    assert "password" in reason("config --get remote.origin.url", repository)
    assert reason("status", repository) == ""
    git(repository, "config", "remote.origin.url", "ssh://git@example.com:22/a.git")
    assert reason("remote -v", repository) == ""


def test_git_in_the_directory_where_it_is_anyway_needs_no_question(repository: Path) -> None:
    (repository / "src").mkdir()
    for command in (
        f"cd {repository} && git status",
        f"git -C {repository} log",
        "cd src || git status",
        "git -C . diff",
    ):
        assert TRUST.judge(command, cwd=str(repository), workspace=str(repository)).trusted


@pytest.mark.needs("bwrap", "bash")
async def test_read_only_git_starts_no_hook_and_no_monitor(repository: Path) -> None:
    """The environment of a read-only run switches off what the repository names; other runs obey it."""
    evil = repository / "evil.sh"
    evil.write_text("#!/bin/sh\necho IT RAN >&2\n")
    evil.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(evil))
    (repository / ".git/hooks/post-index-change").symlink_to(evil)
    command = "touch a.txt 2>/dev/null; git -c safe.directory='*' status; git -c safe.directory='*' diff"
    assert "IT RAN" in (await run(command, repository, WRITE)).text
    done = await run(command, repository, ReadOnly())
    assert "On branch main" in done.text
    assert "IT RAN" not in done.text


@pytest.mark.parametrize("name", sorted(tables._SUBCOMMANDS))
def test_git_takes_the_values_that_we_think_it_takes(repository: Path, name: str) -> None:
    """An option that leaves its value to us would make a path of it that nobody has looked at."""
    program = tables._SUBCOMMANDS[name]
    first = {"stash": ["list"], "worktree": ["list"], "submodule": ["status"], "reflog": ["show"]}.get(name, [])
    options = [option for option, takes in program.options.items() if takes == "="]
    for option in options:
        done = subprocess.run(
            ["git", name, *first, option, "no-such-thing"],
            cwd=repository,
            env=ENVIRON,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "ambiguous argument 'no-such-thing'" not in done.stderr, option
        assert "pathspec 'no-such-thing'" not in done.stderr, option
