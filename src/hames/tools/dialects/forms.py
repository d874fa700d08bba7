"""Our tools under the names and in the shapes that models were trained on.

Claude models are offered what Claude Code has, GPT models what Codex has, as far as it is the same tool. A form of
neither is never offered: it only lets a call be understood, so it costs nothing.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from hames.domain.json import Json
from hames.domain.request import FREEFORM
from hames.ports import Job, Tool, ToolForm, ToolSpec, Work
from hames.ports.tool import Translate
from hames.tools.dialects import translation as arguments_of
from hames.tools.patches.wrapping import patch_in_command

CLAUDE: dict[str, str] = {
    "shell": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "patch": "Edit",
    "grep": "Grep",
    "glob": "Glob",
    "list": "LS",
    "plan": "TodoWrite",
    "web_search": "WebSearch",
    "web_fetch": "WebFetch",
    "ask_user": "AskUserQuestion",
}
GPT: dict[str, str] = {"plan": "update_plan", "edit": "apply_patch", "patch": "apply_patch", "write": "apply_patch"}
"""What a tool is called in each dialect: descriptions name other tools."""

PATCH_GRAMMAR = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""

_OTHERS: dict[str, tuple[str, ...]] = {
    "shell": (
        *("exec_command", "shell_command", "run_shell_command", "execute_command", "run_command", "exec", "terminal"),
        *("run_terminal_cmd", "run_in_terminal", "local_shell"),
    ),
    "read": ("read_file", "view_file", "open_file", "view", "cat", "view_image", "read_many_files", "NotebookRead"),
    "write": ("write_file", "write_to_file", "create_file", "save_file"),
    "edit": ("replace", "str_replace", "search_replace", "edit_file", "replace_in_file", "replace_string_in_file"),
    "grep": ("grep_files", "grep_search", "search_file_content", "search_files", "ripgrep"),
    "glob": ("find_files", "file_search", "glob_files", "glob_search"),
    "list": ("list_dir", "list_directory", "list_files", "ls"),
    "plan": ("todo_write", "write_todos", "todowrite"),
    "patch": ("apply_diff",),
    "web_fetch": ("fetch", "fetch_url", "webfetch", "fetch_webpage"),
    "web_search": ("google_web_search", "search_web"),
    "ask_user": ("request_user_input", "ask_followup_question", "question", "ask_user_question"),
}
_TRANSLATIONS = {
    "shell": arguments_of.shell,
    "grep": arguments_of.grep,
    "list": arguments_of.listing,
    "plan": arguments_of.plan,
    "ask_user": arguments_of.question,
    "web_fetch": arguments_of.fetch,
}


class FormedTool:
    """A tool with the other names it is known by."""

    def __init__(self, tool: Tool, spec: ToolSpec) -> None:
        self.spec = spec
        self._tool = tool

    async def prepare(self, job: Job) -> Work:
        return await self._tool.prepare(job)


class PatchingShell(FormedTool):
    """Commands; `apply_patch` with a patch and nothing else is a change of files, which is shown and judged as one."""

    def __init__(self, shell: Tool, spec: ToolSpec, patch: Tool) -> None:
        super().__init__(shell, spec)
        self._patch = patch

    async def prepare(self, job: Job) -> Work:
        found = patch_in_command(job.arguments["command"])
        if found is None:
            return await super().prepare(job)
        patch, directory = found
        place, cwd = job.place, job.arguments.get("cwd") or ""
        for part in (cwd, directory):
            place = (
                replace(place, cwd=part if part.startswith("/") else f"{place.cwd.rstrip('/')}/{part}")
                if part
                else place
            )
        call = replace(job.call, name=self._patch.spec.name)
        return await self._patch.prepare(replace(job, call=call, place=place, arguments={"patch": patch}))


def with_forms(tools: Sequence[Tool]) -> list[Tool]:
    """The same tools, known by every name."""
    by_name = {tool.spec.name: tool for tool in tools}
    formed: list[Tool] = []
    for tool in tools:
        spec = replace(tool.spec, forms=_forms(tool.spec), not_for=_NOT_FOR.get(tool.spec.name, ()))
        if tool.spec.name == "shell" and "patch" in by_name:
            formed.append(PatchingShell(tool, spec, by_name["patch"]))
        else:
            formed.append(FormedTool(tool, spec) if spec.forms else tool)
    return formed


_NOT_FOR = {"patch": ("claude",), "edit": ("gpt",), "write": ("gpt",)}


def _forms(spec: ToolSpec) -> tuple[ToolForm, ...]:
    name = spec.name
    translate = _TRANSLATIONS.get(name, arguments_of.to(name))
    others = tuple(ToolForm(name=other, translate=translate) for other in _OTHERS.get(name, ()))
    match name:
        case "shell":
            return (_claude_shell(spec), _gpt_shell(spec), *others)
        case "read" | "write":
            return (_renamed(spec, "claude", arguments_of.to(name, file_path="path"), {"path": "file_path"}), *others)
        case "edit":
            return (_claude_edit(spec), *_TEXT_EDITORS, *others)
        case "multi_edit":
            return (ToolForm(name="MultiEdit", translate=arguments_of.to(name, file_path="path")),)
        case "patch":
            return (_gpt_patch(), *others)
        case "grep":
            return (_claude_grep(spec), ToolForm(name="grep", translate=translate), *others)
        case "plan":
            return (_claude_plan(), _gpt_plan(spec), *others)
        case "ask_user":
            return (_claude_question(spec), *others)
        case "glob" | "list" | "web_search" | "web_fetch":
            return (_renamed(spec, "claude", translate), *others)
        case _:
            return ()


def _renamed(spec: ToolSpec, dialect: str, translate: Translate, members: Mapping[str, str] | None = None) -> ToolForm:
    """The form with the tool's own schema, some members under another name."""
    return ToolForm(
        name=CLAUDE[spec.name],
        dialect=dialect,
        translate=translate,
        description=_said(spec.description, CLAUDE),
        schema=_schema(spec, members or {}),
    )


def _schema(spec: ToolSpec, members: Mapping[str, str], changed: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """Open: what is left over is seen by the check against the tool's own schema."""
    properties: dict[str, Json] = {
        members.get(name, name): (changed or {}).get(name, member) for name, member in spec.schema["properties"].items()
    }
    required = [members.get(name, name) for name in spec.schema.get("required", [])]
    return {"type": "object", "properties": properties, "required": required}


def _said(description: str, names: Mapping[str, str]) -> str:
    """Other tools by the names that this dialect has for them, each once."""
    text = re.sub(r"`(\w+)`", lambda word: f"`{names.get(word[1], word[1])}`", description)
    return re.sub(r"(`\w+`)(?:,| and| or) \1", r"\1", text)


_TEXT_EDITORS = tuple(
    ToolForm(name=name, translate=arguments_of.text_editor)
    for name in ("str_replace_based_edit_tool", "str_replace_editor")
)


def _claude_edit(spec: ToolSpec) -> ToolForm:
    old: Json = {"type": "string", "description": "The text to replace."}
    return ToolForm(
        name="Edit",
        dialect="claude",
        translate=arguments_of.edit,
        description=_said(spec.description, CLAUDE),
        schema=_schema(spec, {"path": "file_path"}, {"old_string": old}),
    )


def _claude_shell(spec: ToolSpec) -> ToolForm:
    timeout: Json = {"type": "number", "description": "When to stop it, in milliseconds. Default: 120000."}
    return ToolForm(
        name="Bash",
        dialect="claude",
        translate=arguments_of.bash,
        description=_said(spec.description, CLAUDE),
        schema=_schema(spec, {"timeout_seconds": "timeout"}, {"timeout_seconds": timeout}),
    )


def _gpt_shell(spec: ToolSpec) -> ToolForm:
    command: Json = {
        "type": ["string", "array"],
        "items": {"type": "string"},
        "description": "The command line, as bash reads it, or a program and its arguments.",
    }
    return ToolForm(
        name="shell",
        dialect="gpt",
        translate=arguments_of.shell,
        description=_said(spec.description, GPT),
        schema={**_schema(spec, {}, {"command": command}), "required": []},
    )


def _gpt_patch() -> ToolForm:
    return ToolForm(
        name="apply_patch",
        dialect="gpt",
        translate=arguments_of.to("patch", **{FREEFORM: "patch"}),
        description=(
            "Use the `apply_patch` tool to edit files. This is a FREEFORM tool, so do not wrap the patch in JSON. "
            "Either all of the patch is applied or nothing; the answer shows the diff, and new syntax errors."
        ),
        schema={
            "type": "object",
            "properties": {FREEFORM: {"type": "string", "description": "The whole patch: `*** Begin Patch` …"}},
            "required": [FREEFORM],
        },
        grammar=PATCH_GRAMMAR,
    )


def _claude_grep(spec: ToolSpec) -> ToolForm:
    output: Json = {
        "type": "string",
        "enum": ["content", "files_with_matches", "count"],
        "description": "Default: content.",
    }
    members = {"ignore_case": "-i", "context": "-C", "output": "output_mode"}
    return ToolForm(
        name="Grep",
        dialect="claude",
        translate=arguments_of.grep,
        description=_said(spec.description, CLAUDE).replace("`output`", "`output_mode`"),
        schema=_schema(spec, members, {"output": output}),
    )


def _claude_plan() -> ToolForm:
    item: Json = {
        "type": "object",
        "properties": {
            "content": {"type": "string"},
            "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
            "activeForm": {"type": "string"},
        },
        "required": ["content", "status"],
    }
    return ToolForm(
        name="TodoWrite",
        dialect="claude",
        translate=arguments_of.plan,
        description=(
            "Keep a list of the steps of your work, which the user sees. Give the whole list every time. Use it for "
            "work of several steps, and keep one step `in_progress`."
        ),
        schema={"type": "object", "properties": {"todos": {"type": "array", "items": item}}, "required": ["todos"]},
    )


def _claude_question(spec: ToolSpec) -> ToolForm:
    option: Json = {
        "type": "object",
        "properties": {"label": {"type": "string"}, "description": {"type": "string"}},
        "required": ["label"],
    }
    asked: Json = {
        "type": "object",
        "properties": {
            "question": {"type": "string"},
            "header": {"type": "string"},
            "options": {"type": "array", "items": option},
            "multiSelect": {"type": "boolean"},
        },
        "required": ["question"],
    }
    return ToolForm(
        name="AskUserQuestion",
        dialect="claude",
        translate=arguments_of.question,
        description=spec.description,
        schema={"type": "object", "properties": {"questions": {"type": "array", "items": asked}}, "required": []},
    )


def _gpt_plan(spec: ToolSpec) -> ToolForm:
    item: Json = {
        "type": "object",
        "properties": {
            "step": {"type": "string"},
            "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
        },
        "required": ["step", "status"],
    }
    return ToolForm(
        name="update_plan",
        dialect="gpt",
        translate=arguments_of.plan,
        description=spec.description.replace("inProgress", "in_progress"),
        schema={
            "type": "object",
            "properties": {"explanation": {"type": "string"}, "plan": {"type": "array", "items": item}},
            "required": ["plan"],
        },
    )
