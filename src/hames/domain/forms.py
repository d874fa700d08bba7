"""Forms: what an MCP server asks for, in words, and whether an answer fits.

A form is a flat object of texts, numbers, yes-or-no and choices. Its schema comes from a
stranger, so an odd one is shown as far as it goes and only answers of that flat kind pass.
"""

from collections.abc import Iterable

from hames.domain.approvals import Elicit
from hames.domain.json import Json
from hames.domain.schema import check

AGENT = "the agent"
"""Who asks, where it is no MCP server but our own agent."""

HARNESS = "Hames"
"""Who asks, where it is the harness itself."""

_KINDS = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "yes or no"}
CHOICES_SHOWN = 20


def question(elicit: Elicit) -> str:
    """Everything a person must know, on one line: for clients that show nothing else.

    >>> question(Elicit(server="shop", message="Which size?", schema={"properties": {"size": {"enum": ["s", "m"]}}}))
    "the MCP server 'shop' asks: Which size? [size: one of s, m]"
    >>> question(Elicit(server="shop", message="Sign in.", url="https://example.com/in"))
    "the MCP server 'shop' asks: Sign in. [visit https://example.com/in]"
    """
    who = elicit.server if elicit.server in (AGENT, HARNESS) else f"the MCP server {elicit.server!r}"
    said = f"{who} asks: {' '.join(elicit.message.split())}"
    if elicit.url:
        return f"{said} [visit {elicit.url}]"
    listed = ", ".join(f"{name}: {kind}" for name, kind in fields(elicit.schema).items())
    return f"{said} [{listed}]" if listed else said


def members(elicit: Elicit) -> dict[str, Json]:
    """The question as MCP itself spells it."""
    if elicit.url:
        return {"mode": "url", "message": elicit.message, "url": elicit.url}
    return {"mode": "form", "message": elicit.message, "requestedSchema": elicit.schema}


def fields(schema: Json) -> dict[str, str]:
    """What each field takes, in words.

    >>> fields({"properties": {"n": {"type": "integer"}, "ok": {"type": "boolean", "default": True}}})
    {'n': 'a whole number', 'ok': 'yes or no, true by default'}
    """
    required = schema.get("required") if isinstance(schema, dict) else None
    needed: list[Json] = required if isinstance(required, list) else []
    given = _defaults(schema)
    found: dict[str, str] = {}
    for name, field in properties(schema).items():
        aside = f", {_word(given[name])} by default" if name in given else ", required" if name in needed else ""
        found[name] = _kind(field) + aside
    return found


def typed(field: Json, text: str) -> Json:
    """What somebody typed into a field, as the value it stands for; what is none is left as it is and will not fit.

    >>> typed({"type": "integer"}, "3"), typed({"type": "boolean"}, "yes"), typed({"type": "string"}, "3")
    (3, True, '3')
    """
    match field.get("type") if isinstance(field, dict) else None:
        case "integer" | "number":
            try:
                return int(text)
            except ValueError:
                pass
            try:
                return float(text)
            except ValueError:
                return text
        case "boolean":
            return {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}.get(
                text.lower(), text
            )
        case "array":
            return [word.strip() for word in text.split(",") if word.strip()]
        case _:
            return text


def filled(elicit: Elicit, content: Json) -> Json:
    """What is handed in: what was given, or the form as it stands. Nothing where an address is to be visited."""
    if elicit.url:
        return None
    return _defaults(elicit.schema) if content is None else content


def misfit(elicit: Elicit, content: Json) -> str:
    """Why this cannot be handed in, or nothing.

    >>> schema = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    >>> form = Elicit(server="s", message="m", schema=schema)
    >>> misfit(form, None)
    '`name` is missing'
    >>> misfit(form, {"nam": "Ada"})
    '`name` is missing'
    >>> misfit(form, {"name": "Ada"})
    ''
    """
    content = filled(elicit, content)
    if elicit.url:
        return ""
    if not isinstance(content, dict):
        return "the content of a form must be an object"
    schema: dict[str, Json] = elicit.schema if isinstance(elicit.schema, dict) else {}
    if complaint := check(content, {**schema, "type": "object", "additionalProperties": False}):
        return complaint
    odd = next((name for name, value in content.items() if not _is_plain(value)), None)
    return "" if odd is None else f"`{odd}` must be a string, a number, true, false or a list of strings"


def properties(schema: Json) -> dict[str, Json]:
    """The fields, by name."""
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _defaults(schema: Json) -> dict[str, Json]:
    found = properties(schema).items()
    return {name: field["default"] for name, field in found if isinstance(field, dict) and "default" in field}


def _kind(field: Json) -> str:
    if not isinstance(field, dict):
        return "anything"
    if field.get("type") == "array":
        return f"some of {_shown(_choices(field.get('items')))}"
    if choices := _choices(field):
        return f"one of {_shown(choices)}"
    kind = field.get("type")
    return _KINDS.get(kind, "anything") if isinstance(kind, str) else "anything"


def _choices(field: Json) -> list[str]:
    """By the words that are sent back; titles are for forms that can show both."""
    if not isinstance(field, dict):
        return []
    if isinstance(words := field.get("enum"), list):
        return [_word(word) for word in words]
    for keyword in ("oneOf", "anyOf"):
        if isinstance(options := field.get(keyword), list):
            return [_word(one["const"]) for one in options if isinstance(one, dict) and "const" in one]
    return []


def _shown(choices: list[str]) -> str:
    more = f" and {len(choices) - CHOICES_SHOWN} more" if len(choices) > CHOICES_SHOWN else ""
    return f"{', '.join(choices[:CHOICES_SHOWN])}{more}" or "nothing"


def _word(value: Json) -> str:
    match value:
        case None | bool():
            return str(value).lower().replace("none", "null")
        case list():
            members: Iterable[Json] = value
            return ", ".join(map(str, members)) or "none"
        case _:
            return str(value)


def _is_plain(value: Json) -> bool:
    if isinstance(value, list):
        members: Iterable[Json] = value
        return all(isinstance(member, str) for member in members)
    return value is None or isinstance(value, str | int | float | bool)
