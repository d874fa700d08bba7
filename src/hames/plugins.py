"""Tools, providers, agents and protocols that installed packages add, by entry points.

The packages must be installed where Hames is: what lies in the workspace, in the current directory or on PYTHONPATH is
never looked at. A package that cannot be loaded is a sentence in the log and in `hames doctor`, and nothing else.
"""

import logging
import os
import sys
from collections.abc import Iterator
from functools import reduce
from typing import Any, Literal, NamedTuple, get_args

from hames.domain.errors import Misconfigured
from hames.executables import import_path, is_below, not_imported_from

log = logging.getLogger(__name__)

Kind = Literal["tools", "providers", "agents", "protocols"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Plugins:
    """Looks for installed plug-ins when they are first asked for: reading the list takes longer than a whole start."""

    def __init__(self, workspace: str = "") -> None:
        """Nothing is imported from the `workspace`, even if it is on the import path."""
        self._workspace = workspace
        self._found: dict[str, list[EntryPoint]] | None = None
        self._refused: set[tuple[str, str]] = set()
        self.problems: list[str] = []
        """What could not be used, a sentence each."""

    def names(self, kind: Kind) -> list[str]:
        return [entry.name for entry in self._entries(kind)]

    def working(self) -> list[str]:
        """What installed packages add, as `kind name`, without what could not be used so far."""
        found = [(kind, name) for kind in KINDS for name in self.names(kind)]
        return [f"{kind[:-1]} {name}" for kind, name in found if (kind, name) not in self._refused]

    def load(self, kind: Kind) -> Iterator[tuple[str, Any]]:
        """Each plug-in of a kind as its package exports it, by name. Those that cannot be loaded are left out."""
        for entry in self._entries(kind):
            try:
                yield entry.name, self._load(entry)
            except Exception as problem:
                self.refuse(kind, entry.name, problem)

    def find(self, kind: Kind, name: str) -> Any:
        """One plug-in. Raises `Misconfigured`."""
        entry = next((one for one in self._entries(kind) if one.name == name), None)
        if entry is None:
            known = ", ".join(self.names(kind)) or "none"
            raise Misconfigured(f"no installed package has {name!r} under hames.{kind}; those installed: {known}")
        try:
            return self._load(entry)
        except Exception as problem:
            raise Misconfigured(self.refuse(kind, name, problem)) from problem

    def refuse(self, kind: Kind, name: str, problem: Exception) -> str:
        """Notes that a plug-in cannot be used, and why."""
        self._refused.add((kind, name))
        sentence = f"the plug-in {name!r} (hames.{kind}) cannot be used: {problem or type(problem).__name__}"
        if sentence not in self.problems:
            self.problems.append(sentence)
            log.warning(sentence)
        return sentence

    def _entries(self, kind: Kind) -> "list[EntryPoint]":
        if self._found is None:
            self._found = {}
            for directory in self._site_directories():
                for entry in _entry_points(directory):
                    known = self._found.setdefault(entry.kind, [])
                    if all(entry.name != other.name for other in known):
                        known.append(entry)
        return self._found.get(kind, [])

    def _site_directories(self) -> list[str]:
        """Where packages are installed for the interpreter that runs us, and where Hames itself is installed."""
        import sysconfig

        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
        user = getattr(sys.modules.get("site"), "USER_SITE", None)
        wanted = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), package, user}
        return [entry for entry in import_path(self._workspace) if entry in wanted]

    def _load(self, entry: "EntryPoint") -> Any:
        from importlib import import_module
        from importlib.util import find_spec

        module, _, path = entry.value.partition(":")
        found = find_spec(module.partition(".")[0])
        places = [*(found.submodule_search_locations or ()), found.origin] if found is not None else []
        for place in filter(None, places):
            installed = any(is_below(place, os.path.realpath(directory)) for directory in self._site_directories())
            if not installed and any(is_below(place, one) for one in not_imported_from(self._workspace)):
                raise ImportError(f"{module!r} would be imported from the workspace or the current directory")
        return reduce(getattr, path.split("."), import_module(module))


class EntryPoint(NamedTuple):
    kind: str
    name: str
    value: str
    """`module:object`."""


def _entry_points(directory: str) -> Iterator[EntryPoint]:
    """Those of `hames.…` that packages in a directory declare. `importlib.metadata` would take 20 ms to import."""
    try:
        packages = sorted(entry.path for entry in os.scandir(directory) if entry.name.endswith(".dist-info"))
    except OSError:
        return
    for package in packages:
        try:
            with open(f"{package}/entry_points.txt", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is slow
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        group = ""
        for line in map(str.strip, lines):
            name, equals, value = (part.strip() for part in line.partition("="))
            if line.startswith("["):
                group = line.strip("[] ")
            elif equals and group.startswith("hames."):
                yield EntryPoint(group.removeprefix("hames."), name, value.partition("[")[0].strip())
