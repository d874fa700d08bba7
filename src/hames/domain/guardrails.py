"""Names inside a workspace that the agent does not change without a person's word.

Each of them makes some program act later, outside every sandbox: git, an editor, a shell, another agent.
"""

SOCKET = "hames.sock"
"""In a data directory: how programs of the user reach the running server. Commands in a sandbox do not see it."""

GUARDED: tuple[str, ...] = (
    ".git",
    ".harness",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".mcp.json",
    ".vscode",
)
"""At the top of a workspace. Each one that does not exist costs a placeholder per command, so the list is short."""

GUARDED_WHERE_THEY_EXIST: tuple[str, ...] = (
    ".agents",
    ".envrc",
    ".idea",
    ".gitconfig",
    "hames.toml",
    ".ripgreprc",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".cshrc",
    ".inputrc",
    ".kshrc",
    ".login",
    ".profile",
    ".tcshrc",
    ".xprofile",
    ".xsession",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
)
"""Guarded once they exist, and in a home directory, where shells and git look for them, always."""

GUARDED_AGAINST_TOOLS: tuple[str, ...] = (".gitmodules",)
"""A file tool asks before it changes them. Commands may: git replaces the file when it changes branches, and runs no
program that is named in it."""


PLACEHOLDER_MODE = 0o555
"""Of the empty directory or file that stands for a guarded name while a command runs. Nobody else makes such things."""


def is_guarded(name: str) -> bool:
    """Whether a top-level name of a workspace is a guard rail. Case is folded, as some file systems do.

    >>> is_guarded(".Git"), is_guarded("src"), is_guarded(".zshrc")
    (True, False, True)
    """
    return name.casefold() in _ALL


_ALL = frozenset((*GUARDED, *GUARDED_WHERE_THEY_EXIST, *GUARDED_AGAINST_TOOLS))
