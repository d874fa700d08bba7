"""Ports: what the engine needs from the outside. Each docstring is a contract.

Rooms implement these and import no other room; `app` joins them.
"""

from hames.ports.agent import Ability, Agent, AgentThread, Compact, Prompt, Review, Task, TurnEvent, TurnHandle
from hames.ports.checkpoints import Checkpoints, TurnCheckpoint
from hames.ports.clock import Clock, Ids
from hames.ports.model import Models, Provider
from hames.ports.nodes import Nodes, NodeStatus, Viewing
from hames.ports.peers import Peer, PeerAnswer, PeerLink, PeerLost, Peers
from hames.ports.rules import RuleBook
from hames.ports.sandbox import (
    AskSandboxHost,
    BackgroundProcess,
    Launch,
    Limits,
    Process,
    Sandbox,
    TerminalSize,
    Trust,
    Verdict,
)
from hames.ports.spending import DaySpending
from hames.ports.store import Examined, Log, LogNews, Store
from hames.ports.tool import (
    Ask,
    AskHost,
    ClientToolCall,
    HostTool,
    Job,
    Place,
    ProcessTable,
    Report,
    Tell,
    Tool,
    ToolClient,
    ToolForm,
    Tools,
    ToolSpec,
    Work,
)
from hames.ports.workspace import (
    Directory,
    DirectoryEntry,
    Environment,
    FileEdit,
    FileRefused,
    Glance,
    Notes,
    ToolFailed,
    Workspace,
)

__all__ = [
    "Ability",
    "Agent",
    "AgentThread",
    "Ask",
    "AskHost",
    "AskSandboxHost",
    "BackgroundProcess",
    "Checkpoints",
    "ClientToolCall",
    "Clock",
    "Compact",
    "DaySpending",
    "Directory",
    "DirectoryEntry",
    "Environment",
    "Examined",
    "FileEdit",
    "FileRefused",
    "Glance",
    "HostTool",
    "Ids",
    "Job",
    "Launch",
    "Limits",
    "Log",
    "LogNews",
    "Models",
    "NodeStatus",
    "Nodes",
    "Notes",
    "Peer",
    "PeerAnswer",
    "PeerLink",
    "PeerLost",
    "Peers",
    "Place",
    "Process",
    "ProcessTable",
    "Prompt",
    "Provider",
    "Report",
    "Review",
    "RuleBook",
    "Sandbox",
    "Store",
    "Task",
    "Tell",
    "TerminalSize",
    "Tool",
    "ToolClient",
    "ToolFailed",
    "ToolForm",
    "ToolSpec",
    "Tools",
    "Trust",
    "TurnCheckpoint",
    "TurnEvent",
    "TurnHandle",
    "Verdict",
    "Viewing",
    "Work",
    "Workspace",
]
