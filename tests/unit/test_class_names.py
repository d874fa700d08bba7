"""A class name is defined in one module, so that whoever searches for it finds one thing. Messages of protocols, which
have the names of their specifications, are excepted."""

import ast
from collections import defaultdict
from pathlib import Path

import hames

SOURCE = Path(hames.__file__).parent
MESSAGES = ("protocols", "client/appserver_events.py", "client/appserver/events.py")
"""Where the names are a protocol's own: its messages, and the events of its client."""

STILL_SHARED = {}
"""Names that wait for another one. Nothing is added here; what is renamed is removed."""


def test_a_class_name_is_defined_in_one_module() -> None:
    shared = {name: modules for name, modules in class_names().items() if len(modules) > 1}
    new = {name: modules for name, modules in shared.items() if name not in STILL_SHARED}
    assert new == {}, "rename one of each"


def test_names_that_are_no_longer_shared_leave_the_list() -> None:
    found = class_names()
    assert {name for name in STILL_SHARED if len(found.get(name, ())) < 2} == set()


def class_names() -> dict[str, set[str]]:
    names: defaultdict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).as_posix()
        if not module.startswith((*MESSAGES, "cli/demo_files")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    names[node.name].add(module)
    return names
