"""The notice about threads whose directory was deleted and that `hames threads restore` brings back."""

from hames.app import thread_store
from hames.config.load import Options
from hames.domain.errors import HarnessError


async def missing_notice(options: Options) -> str:
    """A sentence, or nothing."""
    store = thread_store(options)
    try:
        count = len(await store.missing())
    except (HarnessError, OSError):  # whoever opens the store says why
        return ""
    finally:
        await store.close()
    if not count:
        return ""
    were = "1 thread was deleted with its" if count == 1 else f"{count} threads were deleted with their"
    return f"{were} directory and can be brought back: hames threads restore"
