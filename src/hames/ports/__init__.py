"""Ports: what the engine needs from the outside. Each docstring is a contract.

Rooms implement these and import no other room; `app.py` joins them.
"""

from hames.ports.agent import Ability, Agent, AgentThread, Compact, Prompt, Review, Task, TurnEvent, TurnHandle
from hames.ports.clock import Clock, Ids
from hames.ports.model import Models, Provider
from hames.ports.sandbox import BackgroundProcess, Launch, Limits, Process, Sandbox, TerminalSize, Trust, Verdict
from hames.ports.store import Examined, Log, Store
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
    "BackgroundProcess",
    "ClientToolCall",
    "Clock",
    "Compact",
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
    "Models",
    "Notes",
    "Place",
    "Process",
    "ProcessTable",
    "Prompt",
    "Provider",
    "Report",
    "Review",
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
    "TurnEvent",
    "TurnHandle",
    "Verdict",
    "Work",
    "Workspace",
]
