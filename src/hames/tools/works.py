"""Base classes of the file tools: `Looking` only reads; `Changing` prepares the diff that people approve.

`prepare` computes the whole change and touches nothing; what people approve is the
diff of exactly the bytes that `run` puts in place, and only onto what they were computed from.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol, TypeVar

import anyio.to_thread
from msgspec.structs import replace

from hames.domain.approvals import ChangeFiles, Harmless, Intent
from hames.domain.items import FileChange, ToolCall, ToolItem, ToolResult
from hames.domain.policy import ReadOnly, SandboxPolicy
from hames.ports import FileEdit, Job, Place, Tell, ToolFailed
from hames.tools.drafts import Draft
from hames.tools.files.texts import decoded

T = TypeVar("T")
MAX_SEEN = 1_000
MAX_SEEN_LINES = 200_000


async def off_the_loop(look: Callable[[], T]) -> T:
    """Blocking looks go to a thread; one that hangs is left behind when the turn is stopped."""
    return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)


class Seen:
    """What the model last saw of each file, so that it does not overwrite what it has not seen.

    A file that was read in parts is remembered line by line: the model's own edits move lines, and every line it did
    not see counts, wherever it is by then.
    """

    def __init__(self) -> None:
        self._files: dict[str, _SeenFile] = {}

    def note(self, path: str, content: bytes | None) -> None:
        """The model knows all of it. None: it is gone."""
        self._keep(path, None if content is None else _SeenFile(_digest(content), None))

    def note_lines(self, path: str, content: bytes, lines: Iterable[str]) -> None:
        """The model was shown these lines of it."""
        known, digest = self._files.get(path), _digest(content)
        if known is not None and known.digest == digest:
            if known.lines is None:
                return
            lines = (*known.lines, *lines)
        self._keep(path, _SeenFile(digest, frozenset(lines)))

    def note_edit(self, path: str, before: bytes | None, after: bytes | None) -> None:
        """The model changed it. What it did not know before, it does not know now."""
        known = self._files.get(path)
        if before is None or after is None:
            self.note(path, after)
        elif known is None or known.lines is not None:
            old, new = _lines(before), _lines(after)
            if known is not None and known.digest != _digest(before):
                return
            written = set(new) - set(old)
            self._keep(
                path, _SeenFile(_digest(after), (known.lines if known and known.lines else frozenset()) | written)
            )
        elif known.digest == _digest(before):
            self.note(path, after)

    def is_stale(self, path: str, content: bytes) -> bool:
        """It was seen, and is not what was seen."""
        return path in self._files and self._files[path].digest != _digest(content)

    def unseen(self, path: str, content: bytes) -> str:
        """Why the model may not replace all of it, in words; empty when it knows it."""
        known = self._files.get(path)
        if known is None:
            return "exists and you have not read it; read it first, or use `edit`" if content else ""
        if known.digest != _digest(content):
            return "has changed since you read it; read it again"
        if known.lines is None:
            return ""
        missing = [number for number, line in enumerate(_lines(content), 1) if line.strip() and line not in known.lines]
        if not missing:
            return ""
        return f"has lines that you have not read, from line {missing[0]} on; read them first, or use `edit`"

    def _keep(self, path: str, file: "_SeenFile | None") -> None:
        self._files.pop(path, None)
        if file is not None:
            self._files[path] = file
        kept = sum(len(one.lines or ()) for one in self._files.values())
        while len(self._files) > MAX_SEEN or (kept > MAX_SEEN_LINES and len(self._files) > 1):
            dropped = self._files.pop(next(iter(self._files)))
            kept -= len(dropped.lines or ())


class _SeenFile(NamedTuple):
    digest: bytes
    lines: frozenset[str] | None
    """None: all of them."""


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _lines(content: bytes) -> list[str]:
    text = decoded(content)
    return [] if text is None else text.body.split("\n")


class Looking:
    """A harmless call that answers in words (and pictures)."""

    def __init__(
        self, job: Job, look: Callable[[SandboxPolicy], Awaitable[ToolResult]], *, reads: tuple[str, ...] = ()
    ) -> None:
        self.item = ToolCall(
            id=job.item_id, step=job.step, call_id=job.call.id, name=job.call.name, arguments=job.arguments
        )
        self.intent = Harmless(reads=reads)
        self._look = look

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:  # noqa: ARG002
        try:
            result = await self._look(policy)
        except ToolFailed as failure:
            result = ToolResult(text=str(failure), failed=True)
        return replace(self.item, status="failed" if result.failed else "completed", result=result)


class EditCheck(Protocol):
    """Looks at files that were just changed. The answer is for the model; empty: there is nothing to say."""

    def after(self, place: Place, changes: Sequence[tuple[str, FileEdit]]) -> Awaitable[str]: ...


class Changing:
    """Files that change together, or do not."""

    def __init__(self, job: Job, draft: Draft, seen: Seen, check: EditCheck | None = None) -> None:
        self._files = job.place.files
        self._place = job.place
        self._check = check
        self._draft = draft
        self._seen = seen
        self.item = FileChange(id=job.item_id, step=job.step, call_id=job.call.id, changes=draft.updates)
        self.intent: Intent = (
            ChangeFiles(changes=draft.updates, protected=draft.protected) if draft.changes else Harmless()
        )

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:
        if isinstance(policy, ReadOnly) and self._draft.changes:
            return self._failed("the sandbox policy is readOnly: no file may be changed")
        for update in self._draft.updates:
            await tell(update.diff)
        try:
            # Not abandoned: a change that has begun is finished, or undone, before a stop is heeded.
            await anyio.to_thread.run_sync(self._files.apply, self._draft.changes)
        except ToolFailed as refusal:
            return self._failed(f"{refusal}. Nothing was changed")
        for change, update in zip(self._draft.changes, self._draft.updates, strict=True):
            self._seen.note_edit(update.path, change.before, change.after)
        text = "\n".join(part for part in (self._draft.done, await self._checked()) if part)
        return replace(self.item, status="completed", result=ToolResult(text=text))

    async def _checked(self) -> str:
        if self._check is None or not self._draft.changes:
            return ""
        paths = (update.path for update in self._draft.updates)
        try:
            return await self._check.after(self._place, list(zip(paths, self._draft.changes, strict=True)))
        except anyio.get_cancelled_exc_class():
            # The files are changed, and the log must say so. The stop is heeded at the next await.
            return ""

    def _failed(self, why: str) -> ToolItem:
        return replace(self.item, status="failed", result=ToolResult(text=why, failed=True))
