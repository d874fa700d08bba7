"""Writes docs/configuration.md from the types of `hames.config`.

python scripts/configuration.py [--check]
"""

import argparse
import ast
import inspect
import json
import sys
import textwrap
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from hames.cli.flags import SHARED
from hames.config.mcp import McpServer
from hames.config.options import BY_ENVIRONMENT, DEFAULTS, NAMES, OF_PROJECTS, Options
from hames.config.providers import KEYS as PROVIDER_KEYS
from hames.domain.policy import SandboxPolicy

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "configuration.md"

HEAD = """\
# Configuration

Generated from the types; `scripts/configuration.py` writes it. `hames config` shows each value in force and where it
comes from.

## Where

| file | for |
|---|---|
| `~/.config/hames/config.toml` | you, in every project |
| `hames.toml` in the working directory | one project, after `hames trust` |
| `.mcp.json` in the working directory | MCP servers of one project, after `hames trust` |

`XDG_CONFIG_HOME` moves `~/.config`; on macOS your file is `~/Library/Application Support/hames/config.toml`.
`HAMES_CONFIG` names another file. `hames trust` is for the files as they are: one that has changed since is ignored
until you run it again. `.mcp.json` is the file that other agents use, too: `{"mcpServers": {"NAME": {…}}}`.

A file that is there and not used is named with the reason: when `hames` or `hames serve` starts, in `hames run`
(a `warning` event with `--json`), and by `hames doctor` and `hames config`. `hames.toml` and `.mcp.json` must be
regular files of at most 1 MiB; links are not followed. Files in directories above the working directory are not read.

Later ones win: default, `config.toml`, `hames.toml`, `.mcp.json`, environment, flag. MCP servers of several files are
put together. A key that does not exist is an error that lists the known ones; everything that is wrong with a file is
said at once.

For notes to the model (AGENTS.md) see [project notes](project-notes.md).
"""

PROVIDERS = """\
## `[providers.NAME]`

Keys and addresses of model services, in `config.toml` only. Each is an environment variable as well, and the
environment wins: `api_key` of `[providers.anthropic]` is `ANTHROPIC_API_KEY`, `base_url` of `[providers.openai]` is
`OPENAI_BASE_URL`. The keys are `api_key` and `base_url`, for Anthropic also `auth_token`, and for servers that speak
chat completions also `extra_body` (a JSON object that is added to each request). Values are text. `hames config` never
shows keys.

A name that is not built in is a provider of your own: a server that speaks chat completions, at its `base_url`. Its
models are `NAME/MODEL`, and `hames login NAME` saves its key. The names that are built in are PROVIDERS_HERE.

```toml
[providers.anthropic]
api_key = "…"

[providers.openai]
base_url = "http://127.0.0.1:8000/v1"

[providers.mine]
base_url = "https://models.example.com/v1"
```
"""

EXAMPLE = """\
## An example

```toml
model = "anthropic/claude-sonnet-5-5"
approval_policy = "unlessTrusted"
sandbox = { type = "workspaceWrite", networkAccess = true, writableRoots = ["/var/tmp"] }

[mcp_servers.files]
command = "npx"
args = ["-y", "some-mcp-server", "/data"]
startup_timeout_sec = 60
```
"""

ELSEWHERE = """\
## Other environment variables

| variable | meaning |
|---|---|
| `HAMES_CONFIG` | the user's file, instead of the one above. Your own AGENTS.md is looked for beside it |
| `HAMES_STATE` | the directory for what belongs to no project: which projects are trusted, lists of models |
| `HAMES_TOKEN` | the token of `hames serve --token` |
| `HAMES_RUNNER_TOKEN` | the token of the runner that `hames serve --runner` uses |
| `HAMES_CODEX` | where the program `codex` is, for `--agent codex` |
"""


def described(kind: type[Any]) -> dict[str, str]:
    """The sentence under each field of a class."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        text = below.value if isinstance(below, ast.Expr) else None
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Constant):
            found[field.target.id] = " ".join(str(text.value).split())
    return found


def worded(hint: Any) -> str:
    """A type in a few words."""
    if get_origin(hint) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(hint))
    if hint == int | None:
        return 'number or `"auto"`'
    if hint == SandboxPolicy or isinstance(hint, UnionType):
        return "text or a table"
    if hint is bool:
        return "`true` or `false`"
    if hint in (int, float):
        return "number"
    if hint == tuple[str, ...]:
        return "list of texts"
    if get_origin(hint) is dict:
        return "table of tables" if get_args(hint)[1] is not str else "table of texts"
    if hint is str:
        return "text"
    return worded(get_args(hint)[0])


def toml(value: Any) -> str:
    if value in ("", [], {}, ()):
        return "none"
    return f"`{json.dumps(value)}`"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows), ""]


def page() -> str:
    hints, words = get_type_hints(Options), described(Options)
    missing = [name for name in NAMES if name not in words]
    if missing:
        raise SystemExit(f"Options needs a sentence under: {', '.join(missing)}")
    variables = {key: variable for variable, key in BY_ENVIRONMENT.items()}
    flags = {flag.removeprefix("--").replace("-", "_"): flag for flag in SHARED}
    rows = [
        (
            f"`{name}`",
            worded(hints[name]),
            toml(DEFAULTS[name]),
            "yes" if name in OF_PROJECTS else "no",
            f"`{variables[name]}`" if name in variables else "",
            f"`{flags[name]}`" if name in flags else "",
            words[name],
        )
        for name in NAMES
    ]
    head = ("key", "type", "default", "in hames.toml", "environment", "flag", "meaning")
    lines = [HEAD, "## Keys", "", *table(head, rows)]
    lines += ["## Sandbox policies", "", 'By name, or as a table: `sandbox = { type = "readOnly" }`.']
    lines += [
        "`workspace-write` and `writable_roots` are understood, too. Writable roots must exist; `~/` is your home.",
        "",
    ]
    lines += table(("`type`", "settings", "meaning"), [_policy(kind) for kind in get_args(SandboxPolicy)])
    lines += ["## `[mcp_servers.NAME]`", "", "Each needs a `command` or a `url`. The same keys as in `.mcp.json`.", ""]
    fields, said = get_type_hints(McpServer, include_extras=True), described(McpServer)
    defaults = {field.name: _default(field) for field in msgspec.structs.fields(McpServer)}
    servers = [(f"`{name}`", worded(fields[name]), toml(defaults[name]), said[name]) for name in defaults]
    lines += table(("key", "type", "default", "meaning"), servers)
    named = ", ".join(f"`{name}`" for name in PROVIDER_KEYS)
    lines += [PROVIDERS.replace("PROVIDERS_HERE", named), EXAMPLE, ELSEWHERE]
    return "\n".join(lines).rstrip() + "\n"


def _policy(kind: Any) -> tuple[str, ...]:
    hints = get_type_hints(kind)
    settings = [
        f"`{field.encode_name}` ({worded(hints[field.name])}; default {toml(_default(field))})"
        for field in msgspec.structs.fields(kind)
    ]
    return f"`{kind.__struct_config__.tag}`", ", ".join(settings), " ".join((kind.__doc__ or "").split())


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    args = parser.parse_args()
    text = page()
    if args.check:
        stale = not TARGET.exists() or TARGET.read_text() != text
        print("stale: run scripts/configuration.py" if stale else "up to date")
        return stale
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
