"""Which requests need not wait for a slow one that came before them (`protocols/session.py: Defer`)."""

from hames.protocols.flint.codex.inbound import FIXED

READS = frozenset(
    {
        "thread/read",
        "thread/list",
        "thread/loaded/list",
        "thread/turns/list",
        "thread/items/list",
        "thread/queue/list",
        "thread/processes/list",
        "worktree/list",
        "model/list",
        "config/list",
        "config/read",
        *(name for name in FIXED if name.endswith(("/list", "/read", "/get"))),
    }
)
URGENT = frozenset({"turn/interrupt"})
