"""The messages of a protocol for other languages, as JSON Schema. Generated from the types we use.

A protocol that calls methods is published as tables from its methods to its message types; one whose messages say
what they are, as unions of them. Its package offers it as `PUBLISHED`.
"""

from collections.abc import Mapping

import msgspec

from hames.domain.json import Json
from hames.domain.value import Value

Schema = dict[str, Json]
Pair = tuple[type[Value], type[Value]]


class Published(Value):
    """`requests` and `asks` map a method to its parameters and its result: the client's requests, and ours."""

    name: str
    version: bool = False
    """Messages carry `jsonrpc: "2.0"`."""
    requests: Mapping[str, Pair] = {}
    notifications: Mapping[str, type[Value]] = {}
    asks: Mapping[str, Pair] = {}
    events: str = ""
    """A member `Type.field` that holds notifications as they were told, each with its method as `type`."""
    open: Mapping[str, frozenset[str]] = {}
    """Types that stand for whatever a union does not know yet, with the tags that it does know."""
    unions: Mapping[str, tuple[type[Value], ...]] = {}
    """Messages that carry their own `type`, by the name of what they are together."""
    streamed: Mapping[str, type[Value]] = {}
    """Events of a stream by the name that stands beside their data."""
    also: tuple[type[Value], ...] = ()
    """What travels beside the messages: bodies and answers of HTTP."""
    names: Mapping[type[Value], str] = {}
    """What a type is called in the specification, where we call it something else."""
    specified: Mapping[type[Value], frozenset[str]] = {}
    """The members that the specification has. The others are ours, and a reader must live without them."""


def json_schema(published: Published) -> Schema:
    defs = _definitions(published)
    if published.events:
        owner, _, name = published.events.partition(".")
        defs["Event"] = {"oneOf": [_event(method, kind) for method, kind in published.notifications.items()]}
        defs[owner]["properties"][name] = {"type": "array", "items": {"$ref": "#/$defs/Event"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": published.name,
        **_tables(published, defs),
        "$defs": dict(sorted(defs.items())),
    }


def _tables(published: Published, defs: dict[str, Schema]) -> Schema:
    """What is said how. The messages as they travel join the definitions."""
    tables: Schema = {}
    for name, kinds in published.unions.items():
        defs[name] = {"anyOf": [_ref(kind, published) for kind in kinds]}
        tables.setdefault("messages", []).append(name)
    if published.streamed:
        tables["events"] = {name: _ref(kind, published) for name, kind in published.streamed.items()}
    if not published.requests:
        return tables
    defs["Request"] = {"oneOf": [_call(published, method, pair[0]) for method, pair in published.requests.items()]}
    told = published.notifications.items()
    defs["Notification"] = {"oneOf": [_message(published, method, kind) for method, kind in told]}
    if published.asks:
        defs["Ask"] = {"oneOf": [_call(published, method, pair[0]) for method, pair in published.asks.items()]}
    return {
        **tables,
        "requests": {method: _pair(pair) for method, pair in published.requests.items()},
        "notifications": {method: _ref(kind) for method, kind in published.notifications.items()},
        "asks": {method: _pair(pair) for method, pair in published.asks.items()},
    }


def _definitions(published: Published) -> dict[str, Schema]:
    from inspect import cleandoc  # slow to import, and only needed here

    pairs = [*published.requests.values(), *published.asks.values()]
    kinds = [kind for pair in pairs for kind in pair] + list(published.notifications.values())
    kinds += [kind for union in published.unions.values() for kind in union]
    kinds += [*published.streamed.values(), *published.also]
    _, found = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for schema in found.values():
        schema.pop("title", None)
        if schema.get("description") == Value.__doc__:
            del schema["description"]
        if "description" in schema:
            # Python 3.13 and newer take the indentation out of docstrings, older ones leave it in.
            schema["description"] = cleandoc(schema["description"])
    for name, known in published.open.items():
        found[name] = _anything_but(known, found[name].get("description", ""))
    for kind, members in published.specified.items():
        schema = found[kind.__name__]
        schema["required"] = [name for name in schema["properties"] if name in members]
    if published.open:
        found = {name: _without_discriminators(schema) for name, schema in found.items()}
    if published.names:
        names = {kind.__name__: name for kind, name in published.names.items()}
        found = {names.get(name, name): _rename_refs(schema, names) for name, schema in found.items()}
    return {name: dict(schema) for name, schema in found.items()}


def _rename_refs(schema: Json, names: Mapping[str, str]) -> Json:
    """With every reference leading to the name that the specification has."""
    if isinstance(schema, list):
        return [_rename_refs(inner, names) for inner in schema]
    if isinstance(schema, str) and schema.startswith("#/$defs/"):
        name = schema.removeprefix("#/$defs/")
        return f"#/$defs/{names.get(name, name)}"
    return {name: _rename_refs(inner, names) for name, inner in schema.items()} if isinstance(schema, dict) else schema


def _anything_but(known: frozenset[str], description: str) -> Schema:
    tag = {"type": "string", "not": {"enum": sorted(known)}}
    properties: Schema = {"type": tag, "id": {"type": "string"}}
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "required": ["type"],
        "additionalProperties": True,
    }


def _without_discriminators(schema: Json) -> Json:
    """Without the tables from tags to types that an open union would make a lie."""
    if isinstance(schema, dict):
        return {name: _without_discriminators(inner) for name, inner in schema.items() if name != "discriminator"}
    return [_without_discriminators(inner) for inner in schema] if isinstance(schema, list) else schema


def _name(kind: type[Value], published: Published | None = None) -> str:
    return published.names.get(kind, kind.__name__) if published is not None else kind.__name__


def _ref(kind: type[Value], published: Published | None = None) -> Schema:
    return {"$ref": f"#/$defs/{_name(kind, published)}"}


def _pair(pair: Pair) -> Schema:
    return {"params": _ref(pair[0]), "result": _ref(pair[1])}


def _message(published: Published, method: str, kind: type[Value]) -> Schema:
    version: Schema = {"jsonrpc": {"const": "2.0"}} if published.version else {}
    properties = {**version, "method": {"const": method}, "params": _ref(kind)}
    return {"type": "object", "properties": properties, "required": [*version, "method", "params"]}


def _call(published: Published, method: str, kind: type[Value]) -> Schema:
    schema = _message(published, method, kind)
    identified = {**schema["properties"], "id": {"type": ["string", "number"]}}
    optional = not msgspec.json.schema(kind)["$defs"][kind.__name__].get("required")
    required = [name for name in schema["required"] if not (optional and name == "params")]
    return {**schema, "properties": identified, "required": [*required, "id"]}


def _event(method: str, kind: type[Value]) -> Schema:
    return {"allOf": [_ref(kind), {"properties": {"type": {"const": method}}, "required": ["type"]}]}
