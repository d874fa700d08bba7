"""Which language servers there are, and where the one for a file is installed.

A project's own server, below its `.venv` or `node_modules`, comes before the user's.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hames.domain.json import Json
from hames.domain.language_servers import LanguageServerOptions
from hames.domain.value import Value
from hames.executables import find_program

PYTHON = ("py", "pyi")
SCRIPTS = ("ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs")
C = ("c", "h", "cc", "cpp", "cxx", "hpp", "hh", "hxx", "m", "mm")


class KnownServer(Value):
    name: str
    command: tuple[str, ...]
    extensions: tuple[str, ...]


KNOWN = (
    KnownServer(name="pyright", command=("pyright-langserver", "--stdio"), extensions=PYTHON),
    KnownServer(name="basedpyright", command=("basedpyright-langserver", "--stdio"), extensions=PYTHON),
    KnownServer(name="pylsp", command=("pylsp",), extensions=PYTHON),
    KnownServer(name="ruff", command=("ruff", "server"), extensions=PYTHON),
    KnownServer(name="typescript", command=("typescript-language-server", "--stdio"), extensions=SCRIPTS),
    KnownServer(name="gopls", command=("gopls",), extensions=("go",)),
    KnownServer(name="rust-analyzer", command=("rust-analyzer",), extensions=("rs",)),
    KnownServer(name="clangd", command=("clangd",), extensions=C),
    KnownServer(name="zls", command=("zls",), extensions=("zig",)),
)
"""In the order of preference: one server checks a file, and the one that knows types says most."""

ROOT_FILES = (
    *("pyproject.toml", "setup.py", "setup.cfg", "pyrightconfig.json", "ruff.toml"),
    *("tsconfig.json", "jsconfig.json", "package.json", "go.mod", "Cargo.toml", "compile_commands.json", "build.zig"),
)
PROJECT_PROGRAMS = (".venv/bin", "venv/bin", "node_modules/.bin")
LANGUAGE_IDS = {
    **dict.fromkeys(PYTHON, "python"),
    **dict.fromkeys(("ts", "mts", "cts"), "typescript"),
    **dict.fromkeys(("js", "mjs", "cjs"), "javascript"),
    "tsx": "typescriptreact",
    "jsx": "javascriptreact",
    "rs": "rust",
    **dict.fromkeys(("c", "h"), "c"),
    **dict.fromkeys(("cc", "cpp", "cxx", "hpp", "hh", "hxx"), "cpp"),
    "m": "objective-c",
    "mm": "objective-cpp",
}


class InstalledServer(Value):
    """One that was found. `named`: the user's own configuration names it."""

    name: str
    argv: tuple[str, ...]
    root: str
    settings: Mapping[str, Json]
    named: bool


def extension(path: str) -> str:
    return os.path.splitext(path)[1].lstrip(".").lower()  # noqa: PTH122 - pathlib is slow


def language_id(path: str) -> str:
    kind = extension(path)
    return LANGUAGE_IDS.get(kind, kind)


def find_server(path: str, workspace: str, options: LanguageServerOptions, search_path: str) -> InstalledServer | None:
    """The server for a file of the workspace, if one is installed. Nothing is started."""
    kind = extension(path)
    if not kind or options.mode == "off":
        return None
    root = project_root(path, workspace)
    for server in _candidates(options):
        if kind not in server.extensions:
            continue
        if program := _find(server.command[0], (root, workspace), search_path):
            own = options.servers.get(server.name)
            return InstalledServer(
                name=server.name,
                argv=(program, *server.command[1:]),
                root=root,
                settings={**_python_settings((root, workspace)), **(own.settings if own else {})},
                named=own is not None,
            )
    return None


def _candidates(options: LanguageServerOptions) -> Sequence[KnownServer]:
    """Those that the user named come first, with what the user said of them."""
    known = {server.name: server for server in KNOWN}
    named: list[KnownServer] = []
    for name, own in options.servers.items():
        usual = known.pop(name, KnownServer(name=name, command=(), extensions=()))
        command, extensions = own.command or usual.command, own.extensions or usual.extensions
        if own.enabled and command:
            plain = tuple(one.lstrip(".").lower() for one in extensions)
            named.append(KnownServer(name=name, command=command, extensions=plain))
    return [*named, *known.values()]


def project_root(path: str, workspace: str) -> str:
    """The nearest directory above the file that looks like a project; the workspace at the most."""
    top = Path(workspace)
    for folder in Path(path).parents:
        if folder == top or top not in folder.parents:
            break
        if any((folder / name).is_file() for name in ROOT_FILES):
            return str(folder)
    return workspace


def _find(program: str, folders: tuple[str, ...], search_path: str) -> str:
    if program.startswith("/"):
        return program if os.access(program, os.X_OK) else ""
    if "/" in program:
        return ""
    for folder in dict.fromkeys(folders):
        for below in PROJECT_PROGRAMS:
            found = f"{folder}/{below}/{program}"
            if Path(found).is_file() and os.access(found, os.X_OK):
                return found
    return find_program(program, path=search_path, workspace=folders[-1])


def _python_settings(folders: tuple[str, ...]) -> dict[str, Json]:
    """Python checkers have to be told which interpreter has the project's packages."""
    for folder in dict.fromkeys(folders):
        for below in (".venv", "venv"):
            if Path(python := f"{folder}/{below}/bin/python").exists():
                return {"python": {"pythonPath": python}}
    return {}
