"""Files that make an editor, an agent, a shell or a package manager run something later.

Most are ordinary parts of a project, so a command may write them. The result of the command names them, and says
what runs them, so that nobody is surprised.
"""

from collections.abc import Iterable, Mapping, Sequence

from hames.sandbox.walls.after_command.notes import named_list, short_name


def _by_name(table: Mapping[str, str]) -> dict[str, str]:
    return {name: reason for names, reason in table.items() for name in names.split()}


_AGENT = "the coding agent that reads it can run commands it names"
_CONTAINER = "opening the project in a development container runs its commands"
_LEFTHOOK = "git runs its commands as hooks once lefthook is installed"
_MISE = "mise can run its tasks and hooks in the user's shell"

TASK_DIRECTORIES = _by_name(
    {
        ".agents .claude .codex .continue .cursor .gemini .kiro .opencode .roo .windsurf": _AGENT,
        ".devcontainer": _CONTAINER,
        ".githooks": "git runs it if core.hooksPath names this directory",
        ".husky": "git runs it as a hook once husky is installed, for example by the next `npm install`",
        ".idea": "a JetBrains editor can run the tasks it names when the folder is opened",
        ".lefthook": "git runs it as a hook once lefthook is installed",
        ".vscode": "VS Code can run the tasks and programs it names when the folder is opened",
        ".zed": "Zed can run the tasks and programs it names",
    }
)
"""Every file in them counts. The name, and what runs it."""

TASK_FILES = _by_name(
    {
        ".aider.conf.yml .claude.json opencode.json": _AGENT,
        ".devcontainer.json": _CONTAINER,
        ".envrc": "direnv runs it in the user's shell once it is allowed",
        ".exrc": "vi can run it when it is started in this directory",
        ".gdbinit": "gdb can run it when it is started in this directory",
        ".lefthook.yml lefthook.yml": _LEFTHOOK,
        ".lldbinit": "lldb can run it when it is started in this directory",
        ".mcp.json": "the coding agent that reads it starts the servers it names",
        ".mise.toml mise.toml": _MISE,
        ".nvimrc": "Neovim can run it when it is started in this directory",
        ".pnpmfile.cjs": "the next `pnpm install` runs it",
        ".pre-commit-config.yaml": "git runs its commands as hooks once pre-commit is installed",
        ".vimrc": "Vim can run it when it is started in this directory",
        ".yarnrc.yml": "the next `yarn` runs the program it names",
        "hgrc": "Mercurial runs the hooks and aliases it names",
    }
)
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
