"""The types of the sync protocol as our server has them, for TypeScript: `python web/scripts/wire.py --write`.

`wire.ts` is compared with the hand-written `protocol.ts` by the TypeScript compiler, so neither side can move alone.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from hames.protocols.sync import messages as m

WIRE = Path(__file__).parents[1] / "packages/client/src/wire.ts"

SENT = (m.StateMessage, m.DeltaMessage, m.ErrorMessage)
"""From the server: every member is always there, unless it is left unset."""

ACCEPTED = (m.SyncCommand,)
"""From the client: what has a default may be left out."""

OPTIONAL = {("ErrorMessage", "submitId")}


def render() -> str:
    schemas, definitions = msgspec.json.schema_components((*SENT, *ACCEPTED), ref_template="{name}")
    received = _reachable(schemas[len(SENT) :], definitions)
    lines = ["/** Written by `web/scripts/wire.py` from the server's own types: do not edit. */", ""]
    lines.append('import type { JSONValue } from "./protocol.js";')
    lines.append("")
    for name, schema in sorted(definitions.items()):
        lines.append(f"export type {name} = {_type(schema, name, optional=name in received)};")
    lines.append(f"export type ServerMessage = {' | '.join(_type(schema, '') for schema in schemas[: len(SENT)])};")
    lines.append(f"export type Command = {_type(schemas[-1], '')};")
    return "\n".join(lines) + "\n"


def _reachable(schemas: tuple[dict[str, Any], ...] | list[dict[str, Any]], definitions: dict[str, Any]) -> set[str]:
    """The names of what a client sends: there a default means that a member may be missing."""
    found: set[str] = set()
    waiting: list[Any] = list(schemas)
    while waiting:
        match waiting.pop():
            case {"$ref": str() as name} if name not in found:
                found.add(name)
                waiting.append(definitions[name])
            case dict() as schema:
                waiting += [value for key, value in schema.items() if key != "$ref"]
            case list() as several:
                waiting += several
            case _:
                pass
    return found


def _type(schema: dict[str, Any], name: str, *, optional: bool = False) -> str:
    match schema:
        case {"$ref": str() as other}:
            return other
        case {"anyOf": list() as several}:
            return " | ".join(dict.fromkeys(_type(one, "") for one in several))
        case {"enum": list() as words}:
            return " | ".join(msgspec.json.encode(word).decode() for word in words)
        case {"const": word}:
            return msgspec.json.encode(word).decode()
        case {"type": "array", "items": dict() as items}:
            return f"Array<{_type(items, '')}>"
        case {"type": "object", "properties": dict() as properties}:
            required = set(schema.get("required", ()))
            members = (
                _member(name, key, value, optional=optional and key not in required)
                for key, value in properties.items()
            )
            return f"{{ {' '.join(members)} }}"
        case {"type": "object", "additionalProperties": dict() as values}:
            return f"Record<string, {_type(values, '')}>"
        case {"type": "object"}:
            return "Record<string, never>"
        case {"type": "string"}:
            return "string"
        case {"type": "integer" | "number"}:
            return "number"
        case {"type": "boolean"}:
            return "boolean"
        case {"type": "null"}:
            return "null"
        case _:
            return "JSONValue"


def _member(owner: str, key: str, schema: dict[str, Any], *, optional: bool) -> str:
    mark = "?" if optional or (owner, key) in OPTIONAL else ""
    return f"{key}{mark}: {_type(schema, '')};"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", action="store_true", help="write the file instead of comparing it")
    text = render()
    if arguments.parse_args().write:
        WIRE.write_text(text)
        return 0
    return 0 if WIRE.read_text() == text else 1


if __name__ == "__main__":
    sys.exit(main())
