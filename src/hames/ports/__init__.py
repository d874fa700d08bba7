"""Ports: what the engine needs from the outside. Each docstring is a contract.

Rooms implement these and import no other room; `app.py` joins them.
"""

from hames.ports.agent import Agent, AgentTurn
from hames.ports.clock import Clock, Ids
from hames.ports.model import Models, Provider
from hames.ports.sandbox import Launch, Limits, Process, Sandbox, Trust, Verdict
from hames.ports.store import Examined, Log, Store
from hames.ports.tool import Ask, Job, Place, Report, Tell, Tool, ToolFailed, Tools, ToolSpec, Work
from hames.ports.workspace import Notes

__all__ = [
    "Agent",
    "AgentTurn",
    "Ask",
    "Clock",
    "Examined",
    "Ids",
    "Job",
    "Launch",
    "Limits",
    "Log",
    "Models",
    "Notes",
    "Place",
    "Process",
    "Provider",
    "Report",
    "Sandbox",
    "Store",
    "Tell",
    "Tool",
    "ToolFailed",
    "ToolSpec",
    "Tools",
    "Trust",
    "Verdict",
    "Work",
]
