"""Types of ids: threads, turns, items, approvals, prompts, calls. The same thread id is used by every protocol."""

from typing import NewType

ThreadId = NewType("ThreadId", str)
TurnId = NewType("TurnId", str)
ItemId = NewType("ItemId", str)
ApprovalId = NewType("ApprovalId", str)
PromptId = NewType("PromptId", str)

CallId = NewType("CallId", str)
"""The model's own name for a tool call. Unique within a model reply, not within a thread."""
