"""The worktrees of this machine: made, listed, merged, kept, dropped."""

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec.structs import replace

from hames.domain.errors import InvalidCommand
from hames.domain.ids import ThreadId
from hames.domain.policy import SandboxPolicy, WorkspaceWrite
from hames.domain.worktrees import (
    BRANCH_PREFIX,
    NewWorktree,
    Worktree,
    WorktreeAction,
    WorktreeReport,
    lost_with,
    shown,
)
from hames.ports import Sandbox
from hames.ports.worktrees import MadeWorktree
from hames.private_files import private_directory
from hames.worktrees.copying import copy_paths
from hames.worktrees.git import SandboxedGit
from hames.worktrees.merging import Merge, merge_branch
from hames.worktrees.records import WorktreeRecord, WorktreeRecords, admin_directory, is_same_worktree
from hames.worktrees.repository import Checkout, CheckoutStatus, checked_out_at, find_checkout, find_top, read_status

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MOST_SHOWN = 200


class LocalWorktrees:
    """Implements `ports.Worktrees`. `directory` is where the checkouts are, `state` where it is written down."""

    def __init__(self, directory: Path, state: Path, sandbox: Sandbox, *, now: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._records = WorktreeRecords(state)
        self._sandbox = sandbox
        self._now = now

    # -- made

    async def add(self, workspace: str, wanted: NewWorktree, policy: SandboxPolicy) -> MadeWorktree:
        check_name(wanted.name)
        git = SandboxedGit(self._sandbox, policy)
        checkout, status = await find_checkout(git, workspace)
        record = await self._reserved(git, checkout, workspace, wanted.name)
        made: WorktreeRecord | None = None
        try:
            made = await self._made(git, checkout, record)
            skipped: tuple[str, ...] | None = None
            if wanted.changes:
                paths = status.uncommitted
                skipped = tuple(await to_thread.run_sync(copy_paths, checkout.top, record.path, paths))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._remove(git, made or record, checkout.top, checkout.commit)
            raise
        cwd = os.path.join(record.path, checkout.below)
        return MadeWorktree(
            worktree=self._worktree(made),
            cwd=cwd if Path(cwd).is_dir() else record.path,
            message=_made_message(made, checkout, status, skipped),
        )

    async def _reserved(self, git: SandboxedGit, checkout: Checkout, workspace: str, name: str) -> WorktreeRecord:
        """A name that is free, written down. Raises `InvalidCommand`."""
        listed = await git.ask(checkout.top, "for-each-ref", "--format=%(refname)", "refs/heads")
        branches = set(listed.text.split("\n"))
        if f"refs/heads/{BRANCH_PREFIX.rstrip('/')}" in branches:
            raise InvalidCommand("there is a branch called 'hames', so that none can be called 'hames/NAME': rename it")
        place = self._directory / f"{Path(checkout.top).name}-{_number(checkout.repository)}"
        for candidate in [name] if name else (f"thread-{number}" for number in range(1, 10_000)):
            branch, path = f"{BRANCH_PREFIX}{candidate}", place / candidate
            taken = f"refs/heads/{branch}" in branches or os.path.lexists(path)
            record = WorktreeRecord(
                name=candidate,
                branch=branch,
                path=os.path.realpath(path),
                workspace=os.path.realpath(workspace),
                repository=checkout.repository,
                base=checkout.branch,
                below=checkout.below,
                made_at_ms=int(self._now() * 1000),
            )
            if not taken and await to_thread.run_sync(self._reserve, record):
                return record
            if name:
                raise InvalidCommand(self._why_taken(record, branches))
        raise InvalidCommand("there are too many worktrees here: hames worktrees lists them")

    def _reserve(self, record: WorktreeRecord) -> bool:
        try:
            private_directory(Path(record.path).parent)
            return self._records.reserve(record)
        except OSError as problem:
            raise InvalidCommand(f"the worktree cannot be made in {record.path!r}: {problem.strerror}") from None

    def _why_taken(self, record: WorktreeRecord, branches: set[str]) -> str:
        known = next((one for one in self._records.all() if one.path == record.path), None)
        if known is not None:
            go_on = f"go on with it: hames --thread {known.thread_id}, " if known.thread_id else ""
            return f"there is a worktree {record.name!r} already; {go_on}or choose another name"
        if f"refs/heads/{record.branch}" in branches:
            return f"there is a branch {record.branch!r} already; choose another name, or delete it with git branch -d"
        return f"{record.path!r} exists already; choose another name"

    async def _made(self, git: SandboxedGit, checkout: Checkout, record: WorktreeRecord) -> WorktreeRecord:
        words = ("worktree", "add", "--quiet", "--no-track", "-b", record.branch, record.path, checkout.commit)
        done = await git.change(checkout.top, *words, roots=[str(Path(record.path).parent)])
        if done.code:
            raise InvalidCommand(f"git cannot make the worktree: {done.why}")
        found = os.lstat(record.path)
        made = replace(record, device=found.st_dev, inode=found.st_ino, status="ready")
        if admin_directory(made) is None:
            raise InvalidCommand(f"git made {record.path!r}, and {record.repository!r} does not know it")
        await to_thread.run_sync(self._records.write, made)
        return made

    async def claim(self, worktree: Worktree, thread_id: ThreadId) -> None:
        record = self._record(worktree)
        await to_thread.run_sync(self._records.write, replace(record, thread_id=thread_id))

    async def remove_unused(self, worktree: Worktree) -> None:
        record = self._record(worktree)
        git = SandboxedGit(self._sandbox, WorkspaceWrite())
        await self._remove(git, record, _top_of(record), "")

    # -- listed

    async def list(self, workspace: str | None) -> tuple[Worktree, ...]:
        records = await to_thread.run_sync(self._records.all)
        if workspace is not None:
            repository = await self._repository(workspace)
            records = [record for record in records if record.repository == repository]
        return tuple([await self._described(record) for record in records])

    async def find(self, name: str, *, workspace: str | None, path: str = "") -> Worktree:
        records = await to_thread.run_sync(self._records.all)
        if path:
            real = os.path.realpath(path)
            records = [one for one in records if real == one.path or real.startswith(f"{one.path}/")]
        elif workspace is not None:
            repository = await self._repository(workspace)
            records = [one for one in records if one.repository == repository]
        found = [one for one in records if path or one.name == name]
        if not found:
            known = ", ".join(one.name for one in records)
            about = f"there is: {known}" if known else "there is none of this repository"
            raise InvalidCommand("this thread is in no worktree" if path else f"no worktree {name!r}; {about}")
        return self._worktree(found[0])

    async def _repository(self, workspace: str) -> str:
        """Without git: a `.git` directory is its own, a `.git` file of one of ours is known."""
        try:
            top, bare = find_top(workspace)
        except InvalidCommand:
            return ""
        if bare:
            return os.path.realpath(top)
        dot_git = Path(top, ".git")
        if dot_git.is_dir():
            return os.path.realpath(dot_git)
        known = await to_thread.run_sync(self._records.containing, top)
        if known is not None:
            return known.repository
        checkout, _ = await find_checkout(SandboxedGit(self._sandbox, WorkspaceWrite()), workspace)
        return checkout.repository

    async def _described(self, record: WorktreeRecord) -> Worktree:
        plain, git = self._worktree(record), SandboxedGit(self._sandbox, WorkspaceWrite())
        if not os.path.lexists(record.path):  # its branch may still hold commits
            try:
                return replace(plain, commits=await _commits(git, record, _top_of(record)))
            except InvalidCommand:
                return plain
        if plain.status == "missing":
            return replace(plain, more=f"{record.path!r} is not the directory that was made")
        try:
            status = await read_status(git, record.path)
            commits = await _commits(git, record, record.path, "HEAD")
        except InvalidCommand as problem:
            return replace(plain, more=str(problem))
        return replace(plain, commits=commits, uncommitted=status.uncommitted, ignored=status.ignored)

    def _worktree(self, record: WorktreeRecord) -> Worktree:
        return Worktree(
            name=record.name,
            branch=record.branch,
            path=record.path,
            workspace=record.workspace,
            base=record.base,
            thread_id=record.thread_id,
            status="unfinished"
            if record.status == "making"
            else record.status
            if is_same_worktree(record)
            else "missing",
        )

    def _record(self, worktree: Worktree) -> WorktreeRecord:
        for record in self._records.all():
            if record.path == worktree.path:
                return record
        raise InvalidCommand(f"no worktree {worktree.name!r}")

    # -- finished

    async def finish(
        self,
        worktree: Worktree,
        action: WorktreeAction,
        policy: SandboxPolicy,
        *,
        into: str = "",
        message: str = "",
        discard: str = "",
        preview: bool = False,
    ) -> WorktreeReport:
        git = SandboxedGit(self._sandbox, policy)
        record = self._record(worktree)
        worktree = await self._described(record)
        match action:
            case "keep":
                if not preview and record.status == "ready":
                    await to_thread.run_sync(self._records.write, replace(record, status="kept"))
                said = f"The worktree {record.name!r} stays in {record.path}, on the branch {record.branch}"
                return WorktreeReport(worktree=worktree, action="keep", message=said, preview=preview, done=not preview)
            case "drop":
                return await self._drop(git, record, worktree, discard=discard, preview=preview)
            case "merge":
                return await self._merge(git, record, worktree, into or record.base, message, preview=preview)

    async def _drop(
        self, git: SandboxedGit, record: WorktreeRecord, worktree: Worktree, *, discard: str, preview: bool
    ) -> WorktreeReport:
        loses = lost_with(worktree)
        report = WorktreeReport(worktree=worktree, action="drop", message="", preview=preview, loses=loses)
        if preview:
            what = f"deletes {'; '.join(loses)}" if loses else "loses nothing"
            return replace(report, message=f"Dropping the worktree {record.name!r} {what}")
        if loses and discard != record.name:
            raise InvalidCommand(
                f"dropping the worktree {record.name!r} would delete {'; '.join(loses)}."
                f" To delete that, name it: discard {record.name!r}"
            )
        await self._remove(git, record, _top_of(record), "")
        said = f"The worktree {record.name!r} and its branch {record.branch} were deleted"
        return replace(report, message=said, done=True, removed=True)

    async def _merge(
        self, git: SandboxedGit, record: WorktreeRecord, worktree: Worktree, into: str, message: str, *, preview: bool
    ) -> WorktreeReport:
        report = WorktreeReport(worktree=worktree, action="merge", message="", preview=preview)
        if worktree.status in ("unfinished", "missing"):
            raise InvalidCommand(f"the worktree {record.name!r} is {worktree.status}: it can only be dropped")
        if not into:
            raise InvalidCommand(
                f"the worktree {record.name!r} was made where no branch was checked out: name the branch to merge into"
            )
        if into == record.branch:
            raise InvalidCommand(f"{into!r} is the worktree's own branch: name another one to merge into")
        await _refuse_other_branch(git, record)
        if not preview and worktree.uncommitted:
            await _commit_all(git, record.path, message or f"Work in the worktree {record.name}")
        top = await checked_out_at(git, record.path, record.repository, into)
        done = await merge_branch(git, Merge(record.path, record.branch, into, top), preview=preview)
        if done.conflicts:
            said = f"Nothing was merged: {into} and {record.branch} both changed {shown(done.conflicts)}"
            return replace(report, message=said, conflicts=done.conflicts)
        if preview:
            extra = f", after a commit of {shown(worktree.uncommitted)}" if worktree.uncommitted else ""
            return replace(report, message=f"{record.branch} can be merged into {into} without conflicts{extra}")
        left = await self._described(record)
        if lost := lost_with(left):
            said = f"{done.message}. The worktree is still there, because dropping it would delete {'; '.join(lost)}"
            return replace(report, worktree=left, message=said, done=True)
        await self._remove(git, record, top or _top_of(record), "")
        return replace(
            report, worktree=left, message=f"{done.message}. The worktree was deleted", done=True, removed=True
        )

    async def _remove(self, git: SandboxedGit, record: WorktreeRecord, top: str, commit: str) -> None:
        """The checkout, what git knows of it, the branch, and last the record: a kill leaves something to drop again.

        `commit`: the branch is only deleted if it is there. Raises `InvalidCommand`.
        """
        admin = await to_thread.run_sync(_admin_to_remove, record)
        try:
            await to_thread.run_sync(_remove_directories, record, admin)
        except OSError as problem:
            raise InvalidCommand(f"{record.path!r} cannot be deleted: {problem.strerror}") from None
        if top and Path(top).is_dir():
            ref = f"refs/heads/{record.branch}"
            if (await git.ask(top, "rev-parse", "--verify", "--quiet", ref)).code == 0:
                gone = await git.change(top, "update-ref", "-d", ref, *([commit] if commit else []))
                if gone.code and not commit:
                    raise InvalidCommand(f"the branch {record.branch!r} cannot be deleted: {gone.why}")
        await to_thread.run_sync(self._records.delete, record)


def check_name(name: str) -> None:
    """Raises `InvalidCommand`."""
    bad = not _NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock"))
    if name and bad:
        raise InvalidCommand(
            f"{name!r} cannot be the name of a worktree: use letters, digits, '.', '_' and '-', at most 63 of them"
        )


async def _commits(git: SandboxedGit, record: WorktreeRecord, top: str, *more: str) -> tuple[str, ...]:
    """On its branch and on no other branch and no remote. `more`: and on these. Raises `InvalidCommand`."""
    own = f"--glob=refs/heads/{record.branch[:-1]}[{record.branch[-1]}]"  # one that is gone is no error
    others = ("--not", f"--exclude={record.branch}", "--branches", "--remotes")
    found = await git.ask(top, "log", "-z", f"--max-count={_MOST_SHOWN}", "--format=%h %s", *more, own, *others)
    if found.code:
        raise InvalidCommand(f"git cannot list the commits of {record.branch!r}")
    return found.names


async def _refuse_other_branch(git: SandboxedGit, record: WorktreeRecord) -> None:
    """The agent may have switched branches, or stopped in the middle of a rebase."""
    found = await git.ask(record.path, "symbolic-ref", "--quiet", "--short", "HEAD")
    if (branch := found.text if found.code == 0 else "no branch") != record.branch:
        raise InvalidCommand(
            f"{branch} is checked out in the worktree {record.name!r}, and not {record.branch}:"
            f" switch to {record.branch} there, or merge with git yourself"
        )


async def _commit_all(git: SandboxedGit, top: str, message: str) -> None:
    added = await git.change(top, "add", "--all", hooks=True)
    done = added if added.code else await git.change(top, "commit", "--quiet", "-m", message, hooks=True)
    if done.code:
        raise InvalidCommand(f"the uncommitted changes in {top!r} cannot be committed: {done.why}")


def _made_message(
    record: WorktreeRecord, checkout: Checkout, status: CheckoutStatus, skipped: tuple[str, ...] | None
) -> str:
    """`skipped` None: nothing was to be taken along."""
    where = f"{checkout.branch} at {checkout.commit[:8]}" if checkout.branch else f"commit {checkout.commit[:8]}"
    said = [f"This thread works in a worktree of its own: {record.path}, branch {record.branch}, from {where}"]
    changes, ignored = status.uncommitted, status.ignored
    if changes and skipped is None:
        said.append(f"Uncommitted changes stay where they are: {shown(changes)}")
    elif skipped is not None:
        taken = tuple(path for path in changes if path not in skipped)
        said.append(f"Uncommitted changes were taken along: {shown(taken)}" if taken else "")
        said.append(f"Not taken along: {shown(skipped)}" if skipped else "")
        said.append(f"Ignored files were not taken along: {shown(ignored)}" if ignored else "")
    if Path(record.path, ".gitmodules").is_file():
        said.append("Submodules are not checked out in it: git submodule update --init does that")
    return ". ".join(part for part in said if part)


def _top_of(record: WorktreeRecord) -> str:
    """A directory in which git finds the repository, whichever checkouts are gone."""
    try:
        return find_top(record.workspace)[0]
    except InvalidCommand:
        return record.repository


def _admin_to_remove(record: WorktreeRecord) -> Path | None:
    """git's directory for this worktree. Found in the repository, which is asked which of its worktrees it is: the
    checkout may be gone."""
    try:
        entries = list(os.scandir(f"{record.repository}/worktrees"))
    except OSError:
        return None
    for entry in entries:
        try:
            back = Path(entry.path, "gitdir").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if back == f"{record.path}/.git":
            return Path(entry.path)
    # A process that was killed while it deleted the directory may have left it empty, or with what goes last.
    named = (
        Path(entry.path) for entry in entries if entry.name.rstrip("0123456789") == record.name.rstrip("0123456789")
    )
    return next((path for path in named if path.is_dir() and {one.name for one in path.iterdir()} <= {"HEAD"}), None)


def _remove_directories(record: WorktreeRecord, admin: Path | None) -> None:
    # git that was killed leaves the lock of our branch, with which it can be neither deleted nor made again.
    lock = Path(f"{record.repository}/refs/heads/{record.branch}.lock")
    if os.path.realpath(lock.parent) == str(lock.parent):  # a command may have put a link there
        lock.unlink(missing_ok=True)
    if os.path.lexists(record.path):
        _make_writable(record.path)
        shutil.rmtree(record.path)
    if admin is not None:
        for entry in list(os.scandir(admin)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            elif entry.name not in ("gitdir", "HEAD"):
                os.unlink(entry.path)
        # Late: it says whose directory this is, so that whoever goes on after a kill finds it. As long as it is there,
        # git takes this for a worktree, and a worktree without a HEAD for damage.
        (admin / "gitdir").unlink(missing_ok=True)
        (admin / "HEAD").unlink(missing_ok=True)
        admin.rmdir()


def _make_writable(path: str) -> None:
    """A command may have made directories that nothing can be deleted from."""
    for folder, names, _ in os.walk(path):
        for name in names:
            place = os.path.join(folder, name)
            if not os.path.islink(place) and not os.access(place, os.W_OK | os.X_OK):
                os.chmod(place, 0o700)


def _number(text: str) -> str:
    import zlib

    return f"{zlib.crc32(os.fsencode(text)):08x}"
