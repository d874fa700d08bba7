"""Which tools the model is offered under the rules in force, and how they are described to it. Pure.

What would be refused every time is not offered.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Settings
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly
from hames.domain.request import OfferedTool
from hames.domain.situation import can_leave_sandbox
from hames.ports import Tool, ToolSpec


def allowed_tools(tools: Iterable[Tool], card: ModelCard, settings: Settings) -> tuple[dict[str, Tool], dict[str, str]]:
    """The tools that are offered, and why others are not, by each of their names."""
    allowed: dict[str, Tool] = {}
    others: dict[str, str] = {}
    native = _native(card, settings)
    for tool in tools:
        spec = tool.spec
        if why := _why_not(spec, settings):
            others |= dict.fromkeys((spec.name, *(form.name for form in spec.forms)), why)
        elif spec.name not in native:
            allowed[spec.name] = tool
    return allowed, others


def _why_not(spec: ToolSpec, settings: Settings) -> str:
    """The end of a sentence; empty: it is offered."""
    if settings.agent != "code" and spec.writes:
        return f" in {settings.agent} mode"
    if isinstance(settings.sandbox, ReadOnly) and spec.changes_files:
        return ": the sandbox is read-only, so no file can be changed"
    if spec.asks and settings.approval_policy == "never":
        return ": nobody is asked in this thread"
    return ""


def _native(card: ModelCard, settings: Settings) -> frozenset[str]:
    """What the model's service does itself: a tool of ours by that name would only confuse it."""
    searches = card.web_search and settings.options.get("web_search") == "on"
    return frozenset({"web_search"}) if searches else frozenset()


def offered_tools(tools: Mapping[str, Tool], dialect: str, settings: Settings) -> tuple[OfferedTool, ...]:
    """As the model is told of them: in order, each once, in the form of its dialect if there is one."""
    offered: list[OfferedTool] = []
    for tool in tools.values():
        spec = tool.spec
        taken = tools.keys() - {spec.name}
        forms = (form for form in spec.forms if dialect and form.dialect == dialect and form.name not in taken)
        if (form := next(forms, None)) is not None:
            told = OfferedTool(
                name=form.name, description=form.description, schema=form.schema or spec.schema, grammar=form.grammar
            )
        elif spec.offered and not (dialect and dialect in spec.not_for):
            told = OfferedTool(name=spec.name, description=spec.description, schema=spec.schema)
        else:
            continue
        offered.append(_under_rules(told, spec, settings))
    return tuple(offered)


def _under_rules(told: OfferedTool, spec: ToolSpec, settings: Settings) -> OfferedTool:
    """What the rules in force add to a tool and take from it."""
    if spec.sandboxed and not isinstance(settings.sandbox, DangerFullAccess | ExternalSandbox):
        told = replace(told, description=f"{told.description} {spec.sandboxed}")
    can_leave = settings.agent == "code" and can_leave_sandbox(settings.sandbox, settings.approval_policy)
    if spec.asking and not can_leave:
        told = replace(told, schema=_without(told.schema, spec.asking))
    return told


def _without(schema: Json, names: tuple[str, ...]) -> Json:
    properties = {name: value for name, value in schema.get("properties", {}).items() if name not in names}
    return {**schema, "properties": properties}
