"""Which tools a model is told of, in the form it knows, and what it means when it calls one by another name."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hames.domain.arguments import same_name
from hames.domain.request import OfferedTool
from hames.ports import Tool, ToolForm


class FoundTool(NamedTuple):
    tool: Tool
    form: ToolForm | None
    """What the arguments are translated from; None: they are the tool's own."""


def offered_tools(tools: Mapping[str, Tool], dialect: str) -> tuple[OfferedTool, ...]:
    """In the order of the tools, each once: in the form of the dialect where there is one."""
    offered: list[OfferedTool] = []
    for tool in tools.values():
        spec = tool.spec
        taken = tools.keys() - {spec.name}
        forms = (form for form in spec.forms if dialect and form.dialect == dialect and form.name not in taken)
        if (form := next(forms, None)) is not None:
            offered.append(
                OfferedTool(
                    name=form.name,
                    description=form.description,
                    schema=form.schema or spec.schema,
                    grammar=form.grammar,
                )
            )
        elif spec.offered and not (dialect and dialect in spec.not_for):
            offered.append(OfferedTool(name=spec.name, description=spec.description, schema=spec.schema))
    return tuple(offered)


def find_tool(tools: Mapping[str, Tool], name: str) -> FoundTool | None:
    """By its own name, by the name of a form, or by one that differs in case, separators or a namespace in front."""
    if (tool := tools.get(name)) is not None:
        return FoundTool(tool, next((form for form in tool.spec.forms if form.name == name), None))
    known = list(_names(tools))
    for other, found in known:
        if other == name:
            return found
    bare = name.strip().rpartition(".")[2]
    return next((found for other, found in known if bare and same_name(other, bare)), None)


def _names(tools: Mapping[str, Tool]) -> Iterator[tuple[str, FoundTool]]:
    for name, tool in tools.items():
        yield name, FoundTool(tool, next((form for form in tool.spec.forms if form.name == name), None))
    for tool in tools.values():
        for form in tool.spec.forms:
            yield form.name, FoundTool(tool, form)
