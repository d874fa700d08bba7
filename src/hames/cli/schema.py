"""Write the messages of the protocols as JSON Schema, one directory per protocol.

  hames schema --out schemas

Types for a language are made from these files, for example with `npx json-schema-to-typescript`.
"""

from argparse import ArgumentParser, Namespace
from importlib import import_module
from pathlib import Path

import msgspec

from hames.domain.errors import Misconfigured
from hames.protocols.schema import json_schema

PROTOCOLS = (
    "hames.protocols.bootstrap.messages",
    "hames.protocols.flint.published",
    "hames.protocols.sync.published",
    "hames.protocols.sse.published",
    "hames.protocols.runner.published",
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", required=True, help="where to write")


def run(args: Namespace) -> int:
    for name, text in files().items():
        path = Path(args.out) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem
            raise Misconfigured(f"{str(path)!r} cannot be written: {why}") from None
        print(path)
    return 0


def files() -> dict[str, str]:
    """Every file by its path, with its text."""
    written: dict[str, str] = {}
    for module in PROTOCOLS:
        published = import_module(module).PUBLISHED
        schema = msgspec.json.format(msgspec.json.encode(json_schema(published)), indent=2).decode()
        written[f"{published.name}/schema.json"] = schema + "\n"
    return written
