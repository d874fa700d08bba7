"""One block per type of item."""

from typing import assert_never

from hames.protocols.flint import items as wire
from hames.tui.blocks.actions import ArtifactBlock, Command, FileChangeBlock, Search, ToolBlock
from hames.tui.blocks.block import Block
from hames.tui.blocks.messages import AgentMessageBlock, CompactionBlock, PlanBlock, ThinkingBlock, UserMessageBlock


def block_of(item: wire.ThreadItem, root: str = "") -> Block:
    """The block for an item, whatever its type. `root` is the workspace."""
    match item:
        case wire.UserMessageItem():
            return UserMessageBlock(item)
        case wire.AgentMessageItem():
            return AgentMessageBlock(item)
        case wire.ReasoningItem():
            return ThinkingBlock(item)
        case wire.CommandExecutionItem():
            return Command(item)
        case wire.FileChangeItem():
            return FileChangeBlock(item, root)
        case wire.ToolCallItem() | wire.McpToolCallItem() | wire.UnknownItem():
            return ToolBlock(item)
        case wire.WebSearchItem():
            return Search(item)
        case wire.PlanItem():
            return PlanBlock(item)
        case wire.ArtifactItem():
            return ArtifactBlock(item)
        case wire.ContextCompactionItem():
            return CompactionBlock(item)
        case _ as never:
            assert_never(never)
