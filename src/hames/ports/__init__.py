"""Ports: what the engine needs from the outside. Each docstring is a contract.

Rooms implement these and import no other room; `app.py` joins them.
"""

from hames.ports.agent import Ability, Agent, AgentThread, Compact, Prompt, Review, Task, TurnEvent, TurnHandle
from hames.ports.clock import Clock, Ids
from hames.ports.model import Models, Provider
from hames.ports.sandbox import Launch, Limits, Process, Sandbox, Trust, Verdict
from hames.ports.store import Examined, Log, Store
from hames.ports.tool import (
    Ask,
    ClientToolCall,
    HostTool,
    Job,
    Place,
    Report,
    Tell,
    Tool,
    ToolClient,
    ToolForm,
    Tools,
    ToolSpec,
    Work,
)
from hames.ports.workspace import Directory, DirectoryEntry, FileEdit, FileRefused, Notes, ToolFailed, Workspace

__all__ = [
    "Ability",
    "Agent",
    "AgentThread",
    "Ask",
    "ClientToolCall",
    "Clock",
    "Compact",
    "Directory",
    "DirectoryEntry",
    "Examined",
    "FileEdit",
    "FileRefused",
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
    "Prompt",
    "Provider",
    "Report",
    "Review",
    "Sandbox",
    "Store",
    "Task",
    "Tell",
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
