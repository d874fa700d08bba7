"""Trust and rules of a project carry over to worktrees that Hames made of it, and to nothing that looks like one."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hames.config.project import ProjectTrust
from hames.config.rules import RuleFiles
from hames.worktrees.records import WorktreeRecord, WorktreeRecords

pytestmark = pytest.mark.needs("git")
CONFIG = '[[rules]]\naction = "deny"\nwrite = "keys/*"\n\n[[rules]]\naction = "allow"\ncommand = "make *"\n'


def git(where: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, *words], cwd=where, check=True, capture_output=True)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    place = tmp_path / "shop"
    place.mkdir()
    (place / "hames.toml").write_text(CONFIG)
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "Begin")
    return place


def added(shop: Path, where: Path, *, known: bool = True) -> Path:
    """A worktree as git makes it, with the record that Hames has of it."""
    git(shop, "worktree", "add", "-q", "-b", f"hames/{where.name}", str(where))
    if known:
        found = where.stat()
        record = WorktreeRecord(
            name=where.name,
            branch=f"hames/{where.name}",
            path=str(where),
            workspace=str(shop),
            repository=str(shop / ".git"),
            device=found.st_dev,
            inode=found.st_ino,
            status="ready",
        )
        WorktreeRecords(where.parent / "state").write(record)
    return where


def test_trust_carries_over_to_a_worktree_with_the_same_files(shop: Path, tmp_path: Path) -> None:
    trust, tree = ProjectTrust(tmp_path / "state"), added(shop, tmp_path / "tree")
    assert not trust.trusts(tree)
    trust.trust(shop)
    assert trust.trusts(tree)
    assert trust.has_trusted(tree)
    (tree / "hames.toml").write_text(CONFIG + "\n")
    assert not trust.trusts(tree)
    (tree / "hames.toml").write_text(CONFIG)
    (tree / ".mcp.json").write_text("{}")
    assert not trust.trusts(tree)
    (tree / ".mcp.json").unlink()
    assert trust.trusts(tree)
    trust.revoke(shop)
    assert not trust.trusts(tree)


def test_nothing_that_only_looks_like_a_worktree_is_trusted(shop: Path, tmp_path: Path) -> None:
    trust, tree = ProjectTrust(tmp_path / "state"), added(shop, tmp_path / "tree")
    trust.trust(shop)
    assert trust.trusts(tree)
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / ".git").write_text((tree / ".git").read_text())
    (planted / "hames.toml").write_text(CONFIG)
    assert not trust.trusts(planted)
    unknown = added(shop, tmp_path / "unknown", known=False)  # git knows it: a command may have told git so
    assert not trust.trusts(unknown)
    copied = tmp_path / "copied"
    shutil.copytree(tree, copied)
    assert not trust.trusts(copied)
    (tmp_path / "link").symlink_to(planted)
    assert not trust.trusts(tmp_path / "link")
    tree.rename(tmp_path / "moved")
    assert not trust.trusts(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", tree)  # another directory in its place
    assert not trust.trusts(tree)
    shutil.rmtree(tree)
    (tmp_path / "moved").rename(tree)
    assert trust.trusts(tree)
    (tree / ".git").write_text(f"gitdir: {planted}\n")
    assert not trust.trusts(tree)


def test_deny_rules_of_the_project_hold_in_its_worktrees(shop: Path, tmp_path: Path) -> None:
    """Also those that the worktree itself has not: its commit may be older than they are."""
    tree = added(shop, tmp_path / "tree")
    config = tmp_path / "config.toml"
    config.write_text(
        f'[[rules]]\naction = "deny"\nwrite = "{shop}/secret/**"\n\n'
        f'[[rules]]\naction = "deny"\nread = "private/*"\nproject = "{shop}"\n\n'
        f'[[rules]]\naction = "allow"\ncommand = "pytest *"\nproject = "{shop}"\n'
    )
    files = RuleFiles({"HOME": str(tmp_path), "HAMES_CONFIG": str(config), "HAMES_STATE": str(tmp_path / "state")})
    (tree / "hames.toml").unlink()
    found = {(rule.action, rule.pattern) for rule in files.in_force(str(tree))}
    assert ("deny", f"{tree}/secret/**") in found
    assert ("deny", f"{tree}/private/*") in found
    assert ("deny", f"{tree}/keys/*") in found
    assert ("allow", "pytest *") in found
    assert ("allow", "make *") not in found  # the project is not trusted
    other = tmp_path / "other"
    other.mkdir()
    assert {rule.pattern for rule in files.in_force(str(other))} == {f"{shop}/secret/**"}
