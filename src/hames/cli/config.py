"""Show the current value of each setting and where it comes from. API keys are never shown.

  hames config
  hames config --json
  HAMES_MODEL=scripted/hello hames config

The last of these counts: default, the user's config.toml, hames.toml of a trusted project, environment, flag.
"""

import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hames.app import catalogue
from hames.cli import flags, login
from hames.cli.paint import Paint
from hames.config.credentials import Credentials
from hames.config.load import SECRET, Options
from hames.config.paths import user_config
from hames.config.providers import usual_address, variable
from hames.domain.display import visible
from hames.domain.json import Json
from hames.domain.project_notes import Note, complaint
from hames.tools.project_notes import WorkspaceNotes

HIDDEN = "(set, not shown)"
NOT_SET = "(not set)"
_IN_TEXT = re.compile(r"(?i)([?&;-][^=&\s]*(?:key|token|secret|password)[^=&\s]*=)[^&\s]+")
ENDPOINTS = ("_API_KEY", "_BASE_URL", "_AUTH_TOKEN")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    flags.add_shared(parser, flags.THREADS)


def run(args: Namespace) -> int:
    options = flags.options(args)
    rows = settings(options, os.environ)
    if args.json:
        print(msgspec.json.encode(rows).decode())
        return 0
    paint = Paint.for_stream(sys.stdout)
    values = [visible(_text(row["value"])) or "-" for row in rows]
    names = max(len(row["name"]) for row in rows)
    # Tables and lists push their origin aside; the others stay in line.
    room = max(len(value) for row, value in zip(rows, values, strict=True) if not isinstance(row["value"], dict | list))
    for row, value in zip(rows, values, strict=True):
        print(f"{row['name']:<{names}}  {paint.bold(value.ljust(room))}  {paint.dim(visible(row['origin']))}")
    for warning in (*options.warnings, *(words for note in notes(options) if (words := complaint(note)))):
        print(paint.warn(visible(warning)))
    return 0


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode() if value or value == 0 else ""


def settings(options: Options, environment: Mapping[str, str]) -> list[dict[str, Json]]:
    """Name, value and origin of everything, secrets replaced."""
    found = {name: (without_secrets(setting.value), setting.origin) for name, setting in options.settings.items()}
    if not options.model:
        found["model"] = (catalogue(options).default, "default")
    rows: list[dict[str, Json]] = [
        {"name": name, "value": value, "origin": origin} for name, (value, origin) in found.items()
    ]
    credentials = Credentials.of_user(environment)
    saved = credentials.values()
    for name in sorted(options.environment):
        if name.endswith(ENDPOINTS):
            shown = without_secrets(options.environment[name]) if name.endswith("_BASE_URL") else HIDDEN
            origin = "environment" if name in environment else user_config(environment)
            if name not in environment and saved.get(name) == options.environment[name]:
                origin = str(credentials.file)
            rows.append({"name": name, "value": shown, "origin": origin})
    rows += _missing(options)
    rows.append({"name": "notes", "value": [note.path for note in notes(options) if note.text], "origin": "files"})
    places = {"cwd": options.cwd, "data_dir": options.data_dir, "state_dir": options.state_dir}
    rows += [{"name": name, "value": str(path), "origin": "place"} for name, path in places.items()]
    there = "is there" if Path(user_config(environment)).exists() else "is not there"
    rows.append({"name": "config.toml", "value": user_config(environment), "origin": there})
    return rows


def _missing(options: Options) -> list[dict[str, Json]]:
    """The key and the address of the provider that new threads use, where nobody has set them."""
    provider = (options.model or catalogue(options).default).partition("/")[0]
    if provider not in login.providers():
        return []
    usual = {variable(provider, "api_key"): NOT_SET, variable(provider, "base_url"): usual_address(provider) or NOT_SET}
    return [
        {"name": name, "value": value, "origin": "default"}
        for name, value in usual.items()
        if not options.environment.get(name)
    ]


def notes(options: Options) -> tuple[Note, ...]:
    """The project notes that a thread in this directory would be shown."""
    return WorkspaceNotes(options.notes_dir).read(str(options.cwd))


def without_secrets(value: Json, name: str = "") -> Json:
    """
    >>> without_secrets({"env": {"WHO": "abc"}, "args": ["--api-key", "abc", "-v"]})
    {'env': {'WHO': '(set, not shown)'}, 'args': ['--api-key', '(set, not shown)', '-v']}
    >>> without_secrets("https://me:abc@host/x?key=abc&page=2")
    'https://(set, not shown)@host/x?key=(set, not shown)&page=2'
    """
    if isinstance(value, dict):
        every = name in ("env", "headers")
        return {key: HIDDEN if every and inner else without_secrets(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        before = ["", *value]
        return [HIDDEN if _is_flag(before[at]) else without_secrets(inner, name) for at, inner in enumerate(value)]
    if not isinstance(value, str):
        return value
    return HIDDEN if value and _is_secret(name) else _IN_TEXT.sub(rf"\1{HIDDEN}", _address(value))


def _is_secret(name: str) -> bool:
    return any(word in name.lower().replace("-", "_") for word in SECRET)


def _is_flag(word: Json) -> bool:
    return isinstance(word, str) and word.startswith("-") and "=" not in word and _is_secret(word)


def _address(text: str) -> str:
    """An address may carry a password."""
    scheme, found, rest = text.partition("://")
    host, at, _ = rest.partition("/")[0].rpartition("@")
    return f"{scheme}://{HIDDEN}@{rest[len(host) + 1 :]}" if found and at else text
