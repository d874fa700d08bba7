"""sync for other languages: both directions of the socket, the state, and what HTTP carries beside it.

Types have the names of the specification where it has them. Only its members are required: a server that knows
nothing of our extensions speaks this protocol too.
"""

from typing import get_args

from hames.domain.context_report import ContextReport
from hames.domain.items import FileUpdate
from hames.domain.value import Value
from hames.protocols.schema import Published
from hames.protocols.sync import messages as m
from hames.protocols.sync import pages as p
from hames.protocols.sync.processes import ProcessPage
from hames.protocols.sync.worktrees import Finish, FinishAnswer, WorktreePage


class Commands(Value, tag_field="type", tag="commands"):
    """All of them are validated before any is carried out."""

    commands: tuple[m.SyncCommand, ...]


PUBLISHED = Published(
    name="sync",
    unions={
        "ServerMessage": (m.StateMessage, m.DeltaMessage, m.ErrorMessage, p.ThreadsMessage),
        "DeltaOperation": get_args(m.Operation),
        "ClientMessage": (Commands,),
        "HarnessCommand": get_args(m.SyncCommand),
        "AttachmentInput": get_args(m.AttachmentInput),
    },
    also=(
        p.ServerStatus,
        p.ThreadPage,
        p.NewThread,
        p.ThreadAnswer,
        p.StateAnswer,
        p.Fork,
        p.Archive,
        p.Undo,
        p.UndoAnswer,
        p.Timeline,
        p.StateAt,
        p.FileHits,
        p.GitChanges,
        ProcessPage,
        ContextReport,
        WorktreePage,
        Finish,
        FinishAnswer,
        p.Upload,
    ),
    names={
        m.State: "HarnessState",
        m.Message: "HarnessMessage",
        m.ToolCall: "HarnessToolCall",
        FileUpdate: "FileChange",
        m.Set: "SetOperation",
        m.AppendText: "AppendTextOperation",
    },
    specified={
        m.State: frozenset({"status", "messages"}),
        m.Message: frozenset({"id", "role", "content", "status"}),
        m.ToolCall: frozenset({"id", "name", "status"}),
        m.StateMessage: frozenset({"type", "state"}),
        m.DeltaMessage: frozenset({"type", "operations"}),
    },
)
