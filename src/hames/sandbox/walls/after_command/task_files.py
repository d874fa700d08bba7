"""Files that make an editor, an agent, a shell or a package manager run something later.

Most are ordinary parts of a project, so a command may write them. The result of the command names them, and says
what runs them, so that nobody is surprised.
"""

from collections.abc import Iterable, Mapping, Sequence

from hames.sandbox.walls.after_command.notes import named_list, short_name

_AGENT = "the coding agent that reads it can run commands it names"

TASK_DIRECTORIES: Mapping[str, str] = {
    ".agents": _AGENT,
    ".claude": _AGENT,
    ".codex": _AGENT,
    ".continue": _AGENT,
    ".cursor": _AGENT,
    ".devcontainer": "opening the project in a development container runs its commands",
    ".gemini": _AGENT,
    ".githooks": "git runs it if core.hooksPath names this directory",
    ".husky": "git runs it as a hook once husky is installed, for example by the next `npm install`",
    ".idea": "a JetBrains editor can run the tasks it names when the folder is opened",
    ".kiro": _AGENT,
    ".lefthook": "git runs it as a hook once lefthook is installed",
    ".opencode": _AGENT,
    ".roo": _AGENT,
    ".vscode": "VS Code can run the tasks and programs it names when the folder is opened",
    ".windsurf": _AGENT,
    ".zed": "Zed can run the tasks and programs it names",
}
"""Every file in them counts. The name, and what runs it."""

TASK_FILES: Mapping[str, str] = {
    ".aider.conf.yml": _AGENT,
    ".claude.json": _AGENT,
    ".devcontainer.json": "opening the project in a development container runs its commands",
    ".envrc": "direnv runs it in the user's shell once it is allowed",
    ".exrc": "vi can run it when it is started in this directory",
    ".gdbinit": "gdb can run it when it is started in this directory",
    ".lefthook.yml": "git runs its commands as hooks once lefthook is installed",
    ".lldbinit": "lldb can run it when it is started in this directory",
    ".mcp.json": "the coding agent that reads it starts the servers it names",
    ".mise.toml": "mise can run its tasks and hooks in the user's shell",
    ".nvimrc": "Neovim can run it when it is started in this directory",
    ".pnpmfile.cjs": "the next `pnpm install` runs it",
    ".pre-commit-config.yaml": "git runs its commands as hooks once pre-commit is installed",
    ".vimrc": "Vim can run it when it is started in this directory",
    ".yarnrc.yml": "the next `yarn` runs the program it names",
    "hgrc": "Mercurial runs the hooks and aliases it names",
    "lefthook.yml": "git runs its commands as hooks once lefthook is installed",
    "mise.toml": "mise can run its tasks and hooks in the user's shell",
    "opencode.json": _AGENT,
}
"""By name, in any directory."""

FOREIGN_CODE = ("node_modules", "site-packages")
"""Nobody opens a package there as a project. Task files in them are not named; git state in them is looked at."""


def task_notes(paths: Iterable[str], roots: Sequence[str]) -> list[str]:
    """One sentence for every reason, with the files it holds for."""
    reasons: dict[str, list[str]] = {}
    for path in paths:
        reasons.setdefault(_reason(path), []).append(short_name(path, roots))
    return [f"The command wrote {named_list(sorted(names))}: {reason}" for reason, names in reasons.items()]


def _reason(path: str) -> str:
    *above, name = path.split("/")
    return next(
        (TASK_DIRECTORIES[part] for part in reversed(above) if part in TASK_DIRECTORIES), TASK_FILES.get(name, "")
    )
