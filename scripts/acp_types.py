"""Generates the msgspec types of ACP, v1 and v2, from the JSON schemas that the protocol's authors publish.

  npm pack @agentclientprotocol/sdk@2.4.0 && tar xzf agentclientprotocol-sdk-2.4.0.tgz
  .venv/bin/python scripts/acp_types.py package

Writes `v1.py` and `v2.py` of `src/hames/protocols/acp/messages`, and the schemas without their descriptions to
`tests/protocol/acp/`, where the tests check every message against them. The schemas have the licence Apache-2.0.

Only what we read or send becomes a type. What is optional is None by default and left out when sent. A union
is one class with the members of all its variants, except for the unions in `TAGGED`, which have a class per variant.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Schema = dict[str, Any]

ROOTS = {
    "v1": [
        "InitializeResponse",
        "AuthenticateRequest",
        "NewSessionRequest",
        "NewSessionResponse",
        "LoadSessionRequest",
        "LoadSessionResponse",
        "ListSessionsRequest",
        "ListSessionsResponse",
        "ResumeSessionRequest",
        "DeleteSessionRequest",
        "SetSessionModeRequest",
        "SetSessionConfigOptionRequest",
        "PromptRequest",
        "PromptResponse",
        "RequestPermissionRequest",
        "CreateElicitationRequest",
        "SessionUpdate",
    ],
    "v2": [
        "InitializeResponse",
        "LoginAuthRequest",
        "NewSessionRequest",
        "NewSessionResponse",
        "ResumeSessionRequest",
        "ResumeSessionResponse",
        "CancelToolCallRequest",
        "CancelTerminalRequest",
        "SetSessionConfigOptionRequest",
        "PromptRequest",
        "PromptResponse",
        "RequestPermissionRequest",
        "SessionUpdate",
    ],
}
TAGGED = {"SessionUpdate": "Session", "ContentBlock": "", "ToolCallContent": "", "RequestPermissionSubject": ""}
"""Unions with a class per variant, and what is put in front of the variant's name."""
OPAQUE = {"ElicitationSchema", "McpServer", "ErrorData", "Annotations", "BackgroundWork", "EmbeddedResourceResource"}
"""Passed on, or read by hand: no class."""
SHARED = {
    "ContentBlock",
    "TextContent",
    "ToolCallLocation",
    "Cost",
    "DeleteSessionRequest",
    "Implementation",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "SessionInfo",
    "SessionConfigSelectOption",
    "CreateElicitationRequest",
    "PermissionOption",
}
"""What is alike in both versions: v2 uses the class of v1."""
WITH_META = {
    "SessionToolCall",
    "SessionToolCallUpdate",
    "SessionStateUpdate",
    "PromptResponse",
    "NewSessionResponse",
    "LoadSessionResponse",
    "ResumeSessionResponse",
}
"""The classes whose `_meta` we use."""


class Types:
    def __init__(self, definitions: dict[str, Schema], shared: set[str]) -> None:
        self._definitions = definitions
        self._shared = shared
        self.imported: set[str] = set()
        self._written: dict[str, str] = {}
        """By name; a class comes behind those that it mentions."""

    def source(self, roots: list[str]) -> str:
        for name in roots:
            self._reference(name)
        return "\n\n".join(self._written.values())

    def _reference(self, name: str) -> str:
        schema = self._definitions[name]
        if name in OPAQUE or set(schema.get("properties", ())) == {"_meta"}:
            return "Json"  # an object without members says by its presence what it says
        if name in self._shared:
            self.imported.add(name)
            return name
        if name in TAGGED:
            return self._union(name, schema)
        variants = schema.get("oneOf") or schema.get("anyOf") or []
        if name in self._written:
            return name
        if variants and all("const" in variant for variant in variants):
            if name not in self._written:
                words = ", ".join(f'"{variant["const"]}"' for variant in variants)
                self._written[name] = f"{name} = Literal[{words}]"
            return name
        if "properties" in schema or any("$ref" in str(variant) for variant in variants):
            if any(variant.get("type") == "array" for variant in variants):
                return self._type(variants[0])  # options in groups: we send a plain list
            if name not in self._written:
                self._written[name] = self._struct(name, schema, "")
            return name
        return self._type(schema)

    def _union(self, name: str, schema: Schema) -> str:
        if name not in self._written:
            names: list[str] = []
            for variant in schema.get("oneOf") or schema["anyOf"]:
                tags = {key: given["const"] for key, given in variant["properties"].items() if "const" in given}
                if not tags:
                    continue  # what a future version may add
                [(field, tag)] = tags.items()
                refers = variant["allOf"][0]["$ref"].rpartition("/")[2]
                own = f"{TAGGED[name]}{_camel(tag)}" if TAGGED[name] else refers
                names.append(own)
                self._written[own] = self._struct(own, variant, f', tag_field="{field}", tag="{tag}"', without=field)
            self._written[name] = f"{name} = {' | '.join(names)}"
        return name

    def _struct(self, name: str, schema: Schema, tag: str, *, without: str = "") -> str:
        members, required = self._members(schema)
        self._written.setdefault(name, "")  # a place for it, should a member mention it
        lines: list[str] = []
        for member, given in sorted(members.items(), key=lambda one: one[0] not in required):
            if member in (without, "_meta"):
                continue
            kind = self._type(given).replace(" | None", "")
            lines.append(f"    {_snake(member)}: {kind}" + ("" if member in required else " | None = None"))
        if name in WITH_META:
            lines.append('    meta: dict[str, Json] | None = field(name="_meta", default=None)')
        lines = [line.replace("Json | None = None", "Json = None") for line in lines]
        del self._written[name]
        head = f"class {name}(_Message{tag}):"
        return "\n".join([head, *(lines or ["    pass"])])

    def _members(self, schema: Schema) -> tuple[dict[str, Schema], set[str]]:
        """The members of an object and of everything it consists of, and which of them are required."""
        members, required = dict(schema.get("properties", {})), set(schema.get("required", ()))
        for part in schema.get("allOf", ()):
            inner, needed = self._members(self._resolved(part))
            members, required = {**inner, **members}, required | needed
        variants = [self._members(self._resolved(one)) for key in ("oneOf", "anyOf") for one in schema.get(key, ())]
        for inner, _ in variants:
            for key, value in inner.items():
                known = members.setdefault(key, value)
                if "const" not in value and self._type(known) != self._type(value):
                    members[key] = {}  # anything
        if variants:
            required |= set.intersection(*(needed for _, needed in variants))
        return members, required

    def _resolved(self, schema: Schema) -> Schema:
        return self._definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _type(self, schema: Schema | bool) -> str:
        if isinstance(schema, bool):
            return "Json"
        if "$ref" in schema:
            return self._reference(schema["$ref"].rpartition("/")[2])
        if len(schema.get("allOf", ())) == 1:
            return self._type(schema["allOf"][0])
        if "anyOf" in schema or "oneOf" in schema:
            kinds = list(dict.fromkeys(self._type(one) for one in schema.get("anyOf") or schema["oneOf"]))
            kinds = [kind for kind in kinds if kind != "None"]
            return "Json" if "Json" in kinds else " | ".join(kinds)
        kind = schema.get("type")
        kinds = [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]
        match kinds:
            case ["array"]:
                return f"list[{self._type(schema.get('items', True))}]"
            case ["object"]:
                return "dict[str, Json]" if "properties" not in schema else "Json"
            case ["string" | "integer" | "boolean" | "number" | "null" as plain]:
                return {"string": "str", "integer": "int", "boolean": "bool", "number": "float", "null": "None"}[plain]
            case _:
                return "Json"


def _camel(words: str) -> str:
    return "".join(word.capitalize() for word in words.split("_"))


def _snake(word: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower()


def _bare(value: Any) -> Any:
    """A schema without what only people read."""
    if isinstance(value, list):
        return [_bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: inner for key, inner in value.items() if key != "description" or isinstance(inner, dict)}
    return {key: _bare(inner) for key, inner in kept.items()}


def main(package: Path) -> None:
    version = json.loads((package / "package.json").read_text())["version"]
    for name, roots in ROOTS.items():
        schema = json.loads((package / "schema" / name / "schema.json").read_text())
        types = Types(schema["$defs"], SHARED if name == "v2" else set())
        body = 'class _Message(Value, rename="camel", omit_defaults=True):\n    pass\n\n' + types.source(roots)
        shared = f"from hames.protocols.acp.messages.v1 import {', '.join(sorted(types.imported))}\n"
        head = (
            f'"""The messages of ACP {name}: generated by `scripts/acp_types.py` from the schema of version {version}'
            ' of\n`@agentclientprotocol/sdk` (Apache-2.0). Do not edit."""\n\n'
        )
        imports = [
            "from typing import Literal\n" if "Literal[" in body else "",
            "from msgspec import field\n" if "field(" in body else "",
            "from hames.domain.json import Json\nfrom hames.domain.value import Value\n"
            + (shared if types.imported else ""),
        ]
        file = ROOT / "src/hames/protocols/acp/messages" / f"{name}.py"
        file.write_text(head + "\n".join(one for one in imports if one) + "\n\n" + body + "\n")
        subprocess.run([ROOT / ".venv/bin/ruff", "format", "--quiet", file], check=True)
        stored = ROOT / f"tests/protocol/acp/schema-{name}.json"
        stored.write_text(json.dumps(_bare(schema), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
