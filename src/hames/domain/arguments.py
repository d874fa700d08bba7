"""Harmless slips in a call's arguments, put right before they are checked: `"5"` for 5, null for what is optional,
another usual name, a member nobody knows. What is left over is for `schema.check` to refuse.
"""

import json
from collections.abc import Iterable

from hames.domain.json import Json
from hames.domain.schema import check

MAX_DEPTH = 16

_SYNONYMS: tuple[frozenset[str], ...] = tuple(
    frozenset(words.split())
    for words in (
        "path filepath filename file absolutepath targetfile relativeworkspacepath dirpath directory notebookpath",
        "oldstring oldstr oldtext search",
        "newstring newstr newtext replace replacement",
        "content contents filetext text",
        "command cmd script",
        "pattern query regex",
        "glob include filepattern",
        "cwd workdir workingdirectory",
        "patch input diff",
        "timeoutseconds timeoutsec",
        "entries plan todos steps",
        "step content task",
        "url uri address",
    )
)
"""Names that models use for the same thing, without case and separators."""


def forgive(arguments: Json, schema: Json) -> tuple[Json, tuple[str, ...]]:
    """The arguments as they were probably meant, and the names of those that were dropped and said something.

    >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    >>> forgive({"n": "5", "verbose": True}, schema)
    ({'n': 5}, ('verbose',))
    """
    dropped: list[str] = []
    return _forgiven(arguments, schema, dropped, 0), tuple(dropped)


def same_name(one: str, other: str) -> bool:
    """Whether two names differ only in case and separators."""
    return _folded(one) == _folded(other)


def _forgiven(value: Json, schema: Json, dropped: list[str], depth: int) -> Json:
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return value
    value = _converted(value, schema)
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        members: Iterable[Json] = value
        return [_forgiven(member, items, dropped, depth + 1) for member in members]
    if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
        return _forgiven_object(value, schema, dropped, depth)
    return value


def _forgiven_object(value: dict[str, Json], schema: dict[str, Json], dropped: list[str], depth: int) -> Json:
    properties: dict[str, Json] = schema["properties"]
    required: list[str] = schema["required"] if isinstance(schema.get("required"), list) else []
    closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    out: dict[str, Json] = {}
    for key, member in value.items():
        if key in properties and not (member is None and key not in required and check(None, properties[key])):
            out[key] = _forgiven(member, properties[key], dropped, depth + 1)
    for key, member in value.items():
        if key in properties:
            continue
        free = [name for name in properties if name not in out and (closed or name in required)]
        target = next((name for name in free if same_name(name, key)), None)
        target = target or next((name for name in free if _are_synonyms(name, key)), None)
        if target is not None and member is not None:
            out[target] = _forgiven(member, properties[target], dropped, depth + 1)
        elif not closed:
            out[key] = member
        elif member not in (None, False, "", [], {}):
            dropped.append(key)
    return out


def _converted(value: Json, schema: dict[str, Json]) -> Json:
    """The value in the type that is wanted, where that is one and there is no doubt."""
    wanted = schema.get("type")
    words = schema.get("enum")
    if isinstance(words, list) and isinstance(value, str) and value not in words:
        return next((word for word in words if isinstance(word, str) and same_name(word, value)), value)
    if not isinstance(wanted, str) or not check(value, {"type": wanted}):
        return value
    match wanted, value:
        case "integer" | "number", str():
            found = _decoded(value.strip())
            return found if not check(found, {"type": wanted}) else value
        case "boolean", str() if value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        case "string", int() | float() if not isinstance(value, bool):
            return str(value)
        case "object" | "array", str():
            found = _decoded(value)
            if not check(found, {"type": wanted}):
                return found
            items = schema.get("items")
            is_text = isinstance(items, dict) and items.get("type") == "string"
            return [value] if wanted == "array" and is_text and value else value
        case "array", dict():
            return [value]
        case _:
            return value


def _decoded(text: str) -> Json:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _folded(name: str) -> str:
    return "".join(char for char in name if char.isalnum()).casefold()


def _are_synonyms(one: str, other: str) -> bool:
    folded = {_folded(one), _folded(other)}
    return any(folded <= group for group in _SYNONYMS)
