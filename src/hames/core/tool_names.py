"""Which tool a model means, by whatever name it was trained to call it."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hames.domain.arguments import same_name
from hames.ports import Tool, ToolForm


class FoundTool(NamedTuple):
    tool: Tool
    form: ToolForm | None
    """What the arguments are translated from; None: they are the tool's own."""


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
