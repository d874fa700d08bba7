"""Writes the protocol reference from the published schemas, the support table from the specs, and the list of files.

python scripts/reference.py [--check]
"""

import argparse
import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "reference"
PROTOCOLS = ("bootstrap", "flint", "sync", "sse", "runner")


def kind(schema: Any) -> str:
    """A type in a few words, with links to the types of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(kind(one) for one in schema[word]))
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    match schema.get("type"):
        case "array":
            return f"list of {kind(schema.get('items') or {})}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"map to {kind(schema['additionalProperties'])}"
        case str(name):
            return name
        case _:
            return "anything"


def tables(schema: Any) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Title, head and rows of what is said how, in the form that the protocol has."""

    def pairs(table: Any) -> list[tuple[str, ...]]:
        return [(f"`{method}`", kind(row["params"]), kind(row["result"])) for method, row in table.items()]

    def singles(table: Any) -> list[tuple[str, ...]]:
        return [(f"`{name}`", kind(row)) for name, row in table.items()]

    if "messages" in schema:
        unions = {name: schema["$defs"][name] for name in schema["messages"]}
        yield "Messages", ("what", "one of"), singles(unions)
    if "events" in schema:
        yield "Events", ("name", "data"), singles(schema["events"])
    if "requests" in schema:
        yield "Requests", ("method", "parameters", "result"), pairs(schema["requests"])
        yield "Notifications", ("method", "parameters"), singles(schema["notifications"])
        if schema["asks"]:
            yield "Requests of the server", ("method", "parameters", "answer"), pairs(schema["asks"])


def page(name: str) -> str:
    schema = json.loads((ROOT / "schemas" / name / "schema.json").read_text())
    lines = [
        f"# {name}: every message",
        "",
        "This page is generated from the message types. `hames schema` writes them as JSON Schema.",
        "",
    ]
    for title, head, rows in tables(schema):
        lines += [f"## {title}", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        lines.append("")
    lines += ["## Types", ""]
    for title, shape in sorted(schema["$defs"].items()):
        if title in schema.get("messages", ()):
            continue
        lines += [f"### {title}", ""]
        if shape.get("description"):
            lines += [" ".join(shape["description"].split()), ""]
        if "properties" not in shape:
            lines += [kind(shape), ""]
            continue
        required = set(shape.get("required", ()))
        lines += ["| member | type | |", "|---|---|---|"]
        for member, its in shape["properties"].items():
            lines.append(f"| `{member}` | {kind(its)} | {'' if member in required else 'may be left out'} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def support() -> str:
    command = [sys.executable, str(ROOT / "scripts" / "spec_mutants.py"), "--table"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    intro = (
        "Every testable sentence of the specifications, and how many of them have a test. A sentence is proved if"
        " `specs/mutants` has a change of the code that breaks it and `make spec-mutants` shows that its test then"
        " fails. It is weak if there is no such change; the reasons are at the end."
    )
    return f"# What is supported\n\n{intro}\n\n{table.strip()}\n"


def files() -> str:
    """Every module with the first sentence of its docstring."""
    source = ROOT / "src" / "hames"
    lines = [
        "# Every file",
        "",
        "What each file of `src/hames` is for, in the words of its first line. [Architecture](../architecture.md) says"
        " how they fit together.",
        "",
    ]
    folders: dict[Path, list[Path]] = {}
    for path in source.rglob("*.py"):
        folders.setdefault(path.parent, []).append(path)
    for folder, paths in sorted(folders.items()):
        head = _first_line(folder / "__init__.py") if folder / "__init__.py" in paths else ""
        lines += [f"## {folder.relative_to(source.parent).as_posix()}/", "", *([head, ""] if head else [])]
        said = [(path.name, _first_line(path)) for path in sorted(paths) if path.name != "__init__.py"]
        lines += [f"- `{name}`: {words}" if words else f"- `{name}`" for name, words in said]
        lines += [""] if said else []
    return "\n".join(lines).rstrip() + "\n"


def _first_line(path: Path) -> str:
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(doc.partition("\n\n")[0].split())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the pages are up to date")
    args = parser.parse_args()
    pages = {f"{name}.md": page(name) for name in PROTOCOLS} | {"support.md": support(), "files.md": files()}
    stale = [
        name for name, text in pages.items() if not (TARGET / name).exists() or (TARGET / name).read_text() != text
    ]
    if args.check:
        print(f"stale: {', '.join(stale)}; run scripts/reference.py" if stale else "up to date")
        return bool(stale)
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (TARGET / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
