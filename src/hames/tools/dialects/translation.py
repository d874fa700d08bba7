"""From the arguments that models learned to those of our tools.

Each function takes what a model gave, whatever it is, and leaves out what means nothing here. What is wrong with the
rest is said by the check against the tool's own schema.
"""

import shlex

from hames.domain.json import Json
from hames.ports import ToolFailed
from hames.ports.tool import Translate

_MILLISECONDS_FROM = 1_000
"""A timeout without a unit is milliseconds from here on: nobody waits a thousand seconds, or a few milliseconds."""

_SHELLS = frozenset({"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/bin/zsh"})
_RUN_FLAGS = frozenset({"-c", "-lc", "-cl", "-ic", "-ec"})
_FILE_TYPES = {
    "py": "*.{py,pyi}",
    "python": "*.{py,pyi}",
    "js": "*.{js,jsx,mjs,cjs}",
    "ts": "*.{ts,tsx,mts,cts}",
    "rust": "*.rs",
    "go": "*.go",
    "java": "*.java",
    "c": "*.{c,h}",
    "cpp": "*.{cpp,cc,cxx,hpp,hh,h}",
    "md": "*.{md,mdx}",
    "markdown": "*.{md,mdx}",
    "json": "*.json",
    "yaml": "*.{yml,yaml}",
    "html": "*.{html,htm}",
    "css": "*.css",
    "sh": "*.{sh,bash}",
    "toml": "*.toml",
    "ruby": "*.rb",
    "php": "*.php",
    "sql": "*.sql",
}
_STATES = {"done": "completed", "cancelled": "failed", "canceled": "failed", "todo": "pending", "active": "inProgress"}


def to(tool: str, **renamed: str) -> Translate:
    """To `tool`, members renamed: `to("read", file_path="path")`."""

    def translate(arguments: dict[str, Json]) -> tuple[str, Json]:
        return tool, {renamed.get(key, key): value for key, value in arguments.items()}

    return translate


def shell(arguments: dict[str, Json]) -> tuple[str, Json]:
    """A command as a text or as a program with its arguments, with a timeout in seconds or milliseconds."""
    given = dict(arguments)
    for name in ("yield_time_ms", "max_output_tokens", "login", "shell", "tty", "prefix_rule", "restart"):
        given.pop(name, None)
    command = given.pop("command", None) or given.pop("cmd", None)
    if isinstance(command, list):
        command = _command_line(command)
    if command is not None:
        given["command"] = command
    if workdir := given.pop("workdir", None):
        given.setdefault("cwd", workdir)
    seconds = _seconds(given.pop("timeout_ms", None), milliseconds=True)
    timeout = given.pop("timeout", None)
    seconds = seconds if seconds is not None else _seconds(timeout)
    if seconds is not None:
        given.setdefault("timeout_seconds", seconds)
    escalated = given.pop("with_escalated_permissions", None) is True
    if given.pop("sandbox_permissions", None) == "require_escalated" or escalated:
        given["unsandboxed"] = True
    if given.pop("dangerouslyDisableSandbox", None) is True:
        given["unsandboxed"] = True
        given.setdefault("justification", given.get("description") or "")
    if "run_in_background" in given:
        given.setdefault("background", given.pop("run_in_background"))
    if given.get("background") is False:
        del given["background"]
    return "shell", given


def edit(arguments: dict[str, Json]) -> tuple[str, Json]:
    """An empty old text means a new file."""
    given = {"path" if key == "file_path" else key: value for key, value in arguments.items()}
    if given.get("old_string") == "" and isinstance(given.get("new_string"), str):
        return "write", {"path": given.get("path"), "content": given["new_string"]}
    return "edit", given


def bash(arguments: dict[str, Json]) -> tuple[str, Json]:
    """The timeout is always in milliseconds."""
    given = dict(arguments)
    if "timeout" in given:
        given["timeout_ms"] = given.pop("timeout")
    return shell(given)


def grep(arguments: dict[str, Json]) -> tuple[str, Json]:
    given = dict(arguments)
    for name in ("-n", "head_limit", "limit", "offset", "explanation"):
        given.pop(name, None)
    around = [value for name in ("-A", "-B", "-C", "context") if isinstance(value := given.pop(name, None), int | str)]
    numbers = [int(value) for value in around if str(value).isdigit()]
    if numbers:
        given["context"] = min(20, max(numbers))
    if "-i" in given:
        given["ignore_case"] = given.pop("-i")
    if kind := given.pop("type", None):
        given.setdefault("glob", _FILE_TYPES.get(str(kind), f"*.{kind}"))
    mode = given.pop("output_mode", None)
    if isinstance(mode, str):
        given["output"] = {"content": "lines", "files_with_matches": "files"}.get(mode, mode)
    return "grep", given


def listing(arguments: dict[str, Json]) -> tuple[str, Json]:
    given = {key: value for key, value in arguments.items() if key not in ("ignore", "offset", "limit", "recursive")}
    if arguments.get("recursive") is True:
        given["depth"] = 3
    return "list", given


def plan(arguments: dict[str, Json]) -> tuple[str, Json]:
    """Lists of steps as `update_plan` and `TodoWrite` have them."""
    listed = next((arguments[name] for name in ("entries", "plan", "todos") if name in arguments), None)
    if isinstance(listed, str):
        return "plan", {"entries": listed}
    steps = [_step(one) for one in listed] if isinstance(listed, list) else []
    explanation = arguments.get("explanation")
    said = {"explanation": explanation} if isinstance(explanation, str) and explanation else {}
    return "plan", {**said, "entries": steps}


def text_editor(arguments: dict[str, Json]) -> tuple[str, Json]:
    """One tool with several commands, which some Claude models learned."""
    path: Json = arguments.get("path")
    match arguments.get("command"):
        case "view":
            given: dict[str, Json] = {"path": path}
            lines = arguments.get("view_range")
            if isinstance(lines, list) and len(lines) == 2 and all(isinstance(line, int) for line in lines):
                given["offset"] = max(1, lines[0])
                if lines[1] >= lines[0]:
                    given["limit"] = lines[1] - given["offset"] + 1
            return "read", given
        case "create":
            return "write", {"path": path, "content": arguments.get("file_text", "")}
        case "str_replace":
            new = arguments.get("new_str")
            return "edit", {"path": path, "old_string": arguments.get("old_str"), "new_string": new or ""}
        case "insert":
            text = str(arguments.get("insert_text") or arguments.get("new_str") or "")
            line = arguments.get("insert_line")
            if not isinstance(line, int) or line < 0:
                raise ToolFailed("`insert_line` must be the number of a line, or 0")
            body = "".join(f"+{one}\n" for one in text.removesuffix("\n").split("\n"))
            count = body.count("\n")
            return "patch", {"patch": f"--- a/{path}\n+++ b/{path}\n@@ -{line},0 +{line + 1},{count} @@\n{body}"}
        case other:
            raise ToolFailed(f"`command` must be view, create, str_replace or insert, not {other!r}")


def question(arguments: dict[str, Json]) -> tuple[str, Json]:
    """A list of questions, or a single one with its choices beside it."""
    listed = arguments.get("questions")
    if isinstance(listed, str):
        return "ask_user", {"questions": listed}
    asked = listed if isinstance(listed, list) else [arguments]
    return "ask_user", {"questions": [_question(one) for one in asked]}


def fetch(arguments: dict[str, Json]) -> tuple[str, Json]:
    """What to look for on the page is for the model itself to know."""
    return "web_fetch", {key: value for key, value in arguments.items() if key not in ("prompt", "format", "timeout")}


def _question(one: Json) -> Json:
    if not isinstance(one, dict):
        return {"question": one}
    options = next((one[name] for name in ("options", "choices", "follow_up") if isinstance(one.get(name), list)), [])
    several = one.get("multiSelect", one.get("multi_select", one.get("several", False)))
    made: dict[str, Json] = {"question": one.get("question", one.get("message", one.get("header")))}
    if options:
        made["choices"] = [_choice(option) for option in options]
    if several is True:
        made["several"] = True
    return made


def _choice(option: Json) -> Json:
    if not isinstance(option, dict):
        return {"label": option}
    label = option.get("label", option.get("value", option.get("title", option.get("text"))))
    return {"label": label, **({"description": option["description"]} if option.get("description") else {})}


def _step(one: Json) -> Json:
    if not isinstance(one, dict):
        return {"step": one, "status": "pending"}
    text = next((one[name] for name in ("step", "content", "task", "description", "title") if one.get(name)), None)
    status = one.get("status", "pending")
    return {"step": text, "status": _STATES.get(status, status) if isinstance(status, str) else status}


def _command_line(words: list[Json]) -> str:
    texts = [str(word) for word in words]
    if len(texts) == 3 and texts[0] in _SHELLS and texts[1] in _RUN_FLAGS:
        return texts[2]
    return shlex.join(texts)


def _seconds(timeout: Json, *, milliseconds: bool = False) -> float | None:
    try:
        number = float(timeout)
    except (TypeError, ValueError):
        return None
    if not number > 0:  # NaN is neither
        return None
    return number / 1000 if milliseconds or number >= _MILLISECONDS_FROM else number
