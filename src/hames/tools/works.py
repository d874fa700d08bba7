"""The two kinds of file work: looking, which is harmless, and changing, which is judged.

`prepare` computes the whole change and touches nothing; what people approve is the
diff of exactly the bytes that `run` puts in place, and only onto what they were computed from.
"""

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import TypeVar

import anyio.to_thread
from msgspec.structs import replace

from hames.domain.approvals import ChangeFiles, Harmless, Intent
from hames.domain.items import FileChange, ToolCall, ToolItem, ToolResult
from hames.domain.policy import ReadOnly, SandboxPolicy
from hames.ports import Job, Tell, ToolFailed
from hames.tools.drafts import Draft

T = TypeVar("T")
MAX_SEEN = 1_000


async def off_the_loop(look: Callable[[], T]) -> T:
    """Blocking looks go to a thread; one that hangs is left behind when the turn is stopped."""
    return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)


class Seen:
    """What the model last saw of each file, so that it does not overwrite what it has not seen."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}

    def note(self, path: str, content: bytes | None) -> None:
        self._digests.pop(path, None)
        if content is not None:
            self._digests[path] = _digest(content)
        if len(self._digests) > MAX_SEEN:
            del self._digests[next(iter(self._digests))]

    def stale(self, path: str, content: bytes) -> bool:
        """It was seen, and is not what was seen."""
        return path in self._digests and self._digests[path] != _digest(content)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


class Looking:
    """A harmless call that answers in words (and pictures)."""

    def __init__(self, job: Job, look: Callable[[SandboxPolicy], Awaitable[ToolResult]]) -> None:
        self.item = ToolCall(
            id=job.item_id, step=job.step, call_id=job.call.id, name=job.call.name, arguments=job.arguments
        )
        self.intent = Harmless()
        self._look = look

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:  # noqa: ARG002
        try:
            result = await self._look(policy)
        except ToolFailed as failure:
            result = ToolResult(text=str(failure), failed=True)
        return replace(self.item, status="failed" if result.failed else "completed", result=result)


class Changing:
    """Files that change together, or do not."""

    def __init__(self, job: Job, draft: Draft, seen: Seen) -> None:
        self._files = job.place.files
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
            self._seen.note(update.path, change.after)
        return replace(self.item, status="completed", result=ToolResult(text=self._draft.done))

    def _failed(self, why: str) -> ToolItem:
        return replace(self.item, status="failed", result=ToolResult(text=why, failed=True))
