"""One block per type of item."""

from typing import assert_never

from hames.protocols.flint import items as wire
from hames.tui.blocks.actions import Artifact, Command, FileChange, Search, Tool
from hames.tui.blocks.block import Block
from hames.tui.blocks.messages import AgentMessage, Compaction, Plan, Reasoning, UserMessage


def block_of(item: wire.ThreadItem, root: str = "") -> Block:
    """The block for an item, whatever its type. `root` is the workspace."""
    match item:
        case wire.UserMessageItem():
            return UserMessage(item)
        case wire.AgentMessageItem():
            return AgentMessage(item)
        case wire.ReasoningItem():
            return Reasoning(item)
        case wire.CommandExecutionItem():
            return Command(item)
        case wire.FileChangeItem():
            return FileChange(item, root)
        case wire.ToolCallItem() | wire.McpToolCallItem() | wire.UnknownItem():
            return Tool(item)
        case wire.WebSearchItem():
            return Search(item)
        case wire.PlanItem():
            return Plan(item)
        case wire.ArtifactItem():
            return Artifact(item)
        case wire.ContextCompactionItem():
            return Compaction(item)
        case _ as never:
            assert_never(never)
