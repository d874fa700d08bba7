"""`@tool`: a tool from a function. Its name, its docstring and its type hints say the rest.

A parameter annotated `CancelToken` is not the model's to fill in: the function is given the token of its call.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints, overload

import msgspec
from anyio import to_thread

from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.tools.host import CancelToken, cancel_token


class FunctionTool:
    """What `@tool` makes of a function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
    ) -> None:
        self.name = name or function.__name__
        self.description = description or inspect.getdoc(function) or ""
        self.read_only = read_only
        self._function = function
        hints = get_type_hints(function, include_extras=True)
        self._token = next((name for name, hint in hints.items() if hint is CancelToken), None)
        self._input = _input_type(function, hints)
        schema = msgspec.json.schema(self._input)
        root = schema["$ref"].rpartition("/")[2]
        definitions = dict(schema["$defs"])
        self.input_schema: dict[str, Json] = definitions.pop(root)
        self.input_schema.pop("title", None)
        if definitions:
            self.input_schema["$defs"] = definitions

    async def execute(self, input: dict[str, Json]) -> str:  # noqa: A002 - the specification's word
        values = msgspec.convert(input, self._input)
        arguments = {name: getattr(values, name) for name in self._input.__struct_fields__}
        if self._token is not None:
            arguments[self._token] = cancel_token()
        if inspect.iscoroutinefunction(self._function):
            answer = await self._function(**arguments)
        else:
            answer = await to_thread.run_sync(partial(self._function, **arguments), abandon_on_cancel=True)
        return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Still the function it was."""
        return self._function(*args, **kwargs)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, read_only: bool = False
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """A tool from a function: its name, its docstring, its type hints.

    `read_only`: it changes nothing, so nobody is asked about it.

    >>> @tool
    ... def add(a: int, b: Annotated[int, "what to add"] = 1) -> str:
    ...     "Adds two numbers."
    ...     return str(a + b)
    >>> add.input_schema["properties"]["b"]["description"]
    'what to add'
    """
    if function is None:
        return partial(FunctionTool, name=name, description=description, read_only=read_only)
    return FunctionTool(function)


def _input_type(function: Callable[..., Any], hints: dict[str, Any]) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise Misconfigured(f"a tool takes named parameters: {function.__name__} has {parameter}")
        if hints.get(parameter.name) is CancelToken:
            continue
        kind = _described(hints.get(parameter.name, str))
        has_default = parameter.default is not parameter.empty
        fields.append((parameter.name, kind, parameter.default) if has_default else (parameter.name, kind))
    return msgspec.defstruct("Input", fields, kw_only=True, forbid_unknown_fields=True)


def _described(hint: Any) -> Any:
    """`Annotated[str, "what it is"]` becomes a description in the schema."""
    if get_origin(hint) is Annotated:
        kind, *notes = get_args(hint)
        words = [note for note in notes if isinstance(note, str)]
        return Annotated[kind, msgspec.Meta(description=" ".join(words))] if words else hint
    return hint
