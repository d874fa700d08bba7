"""Which tools the model is offered under the rules in force, and how they are described to it. Pure.

What would be refused every time is not offered.
"""

from collections.abc import Iterable

from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Settings
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly
from hames.domain.request import OfferedTool
from hames.domain.situation import can_leave_sandbox
from hames.ports import Tool, ToolSpec


def allowed_tools(tools: Iterable[Tool], card: ModelCard, settings: Settings) -> tuple[dict[str, Tool], dict[str, str]]:
    """The tools that are offered, and why others are not."""
    allowed: dict[str, Tool] = {}
    others: dict[str, str] = {}
    for tool in tools:
        spec = tool.spec
        if settings.agent != "code" and spec.writes:
            others[spec.name] = f" in {settings.agent} mode"
        elif isinstance(settings.sandbox, ReadOnly) and spec.changes_files:
            others[spec.name] = ": the sandbox is read-only, so no file can be changed"
        elif spec.name not in _native(card, settings):
            allowed[spec.name] = tool
    return allowed, others


def _native(card: ModelCard, settings: Settings) -> frozenset[str]:
    """What the model's service does itself: a tool of ours by that name would only confuse it."""
    searches = card.web_search and settings.options.get("web_search") == "on"
    return frozenset({"web_search"}) if searches else frozenset()


def offered_tool(spec: ToolSpec, settings: Settings) -> OfferedTool:
    """The tool as the model is told of it."""
    description, schema = spec.description, spec.schema
    if spec.sandboxed and not isinstance(settings.sandbox, DangerFullAccess | ExternalSandbox):
        description = f"{description} {spec.sandboxed}"
    if spec.asking and not can_leave_sandbox(settings.sandbox, settings.approval_policy):
        schema = _without(schema, spec.asking)
    return OfferedTool(name=spec.name, description=description, schema=schema)


def _without(schema: Json, names: tuple[str, ...]) -> Json:
    properties = {name: value for name, value in schema.get("properties", {}).items() if name not in names}
    return {**schema, "properties": properties}
