"""Tools of installed packages (entry points `hames.tools`)."""

from hames.domain.errors import Misconfigured
from hames.plugins import Plugins
from hames.ports import Tool
from hames.tools.host import as_tool


def installed_tools(plugins: Plugins) -> list[Tool]:
    """The tools of installed packages, each asked about unless it is read-only. One that is broken is left out."""
    tools: dict[str, Tool] = {}
    for name, found in plugins.load("tools"):
        try:
            made = found() if isinstance(found, type) else found
            tool: Tool = made if hasattr(made, "prepare") else as_tool(made, vouched=False)
            if tool.spec.schema.get("type") != "object" or not tool.spec.name.isidentifier():
                raise Misconfigured(f"{tool.spec.name!r} has no input schema of an object, or a name with odd letters")
            if tool.spec.name in tools:
                raise Misconfigured(f"another plug-in has a tool named {tool.spec.name!r}")
            tools[tool.spec.name] = tool
        except Exception as problem:  # somebody else's code
            plugins.refuse("tools", name, problem)
    return list(tools.values())
